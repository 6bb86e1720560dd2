//! The program: see the crate's library for what it is made of.

use std::process::ExitCode;

/// The dataflow and the shared encoded resources allocate many small, long-lived blocks from several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tidegate::main()
}
