//! The read-only HTTP port: health, readiness, metrics, dumps.
