//! Cost benches: measurements that decide the design, each with the command that repeats it.
//!
//! *Comes in*: nothing. *Goes out*: tables of figures. *Must not know*: kube watches, tonic. *Start at* `names.rs`.
