//! Envoy API types, generated at build time.
