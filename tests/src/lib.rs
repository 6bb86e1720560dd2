//! Cross-crate tests: scenarios, properties, real Envoy.
