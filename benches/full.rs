//! An endpoint change against computing everything anew: P4.
//!
//! The ways to compute anew are in `crates/profile/src/recompute.rs`; each must give what the dataflow gives.
//!
//! `cargo bench -p benches --bench full`.

use benches::{Options, Report, Target};
use tidegate_profile::{Size, recompute};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What each way should be slower by, at least.
const LEAST: f64 = 100.0;

fn main() {
    let options = Options::read();
    let (services, count) = (options.pick(10_000, 1_000), options.pick(2_000, 100));
    let operations = recompute(&Size { services, count, ..Size::default() });
    let report = Report::new(&format!("P4 endpoint change at {services} services, 5000 routes"));
    for operation in &operations {
        report.row(&format!("{}, p50", operation.name), operation.p50_us / 1e3, "ms", Target::Free);
        if operation.name != operations[0].name {
            let ratio = operation.p50_us / operations[0].p50_us;
            let target = if options.quick { Target::Free } else { Target::AtLeast(LEAST) };
            report.row(&format!("{}, against the dataflow", operation.name), ratio, "x", target);
        }
    }
}
