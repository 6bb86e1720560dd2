//! An ADS client that behaves like Envoy, with checkers.
