//! The engine with the real dataflow.

mod core;
mod live;
mod objects;
mod replay;
