//! ADS sessions as sans-I/O state machines behind a thin gRPC service.
