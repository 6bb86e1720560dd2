//! The incremental digest: four 64-bit lanes added with wrap-around, over the BLAKE3 hash of every row.

/// A multiset hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest([u64; 4]);
