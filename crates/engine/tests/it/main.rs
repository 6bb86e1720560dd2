//! The engine with the real dataflow.

mod core;
mod hold;
mod live;
mod objects;
mod replay;
mod reports;
