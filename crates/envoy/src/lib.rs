//! Finds, installs and runs Envoy processes.
