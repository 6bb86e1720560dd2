//! The dataflow thread: events in, sealed values out.
