//! The plan that was not taken: clients joined in the dataflow, an assignment for each client and Service. P5.
//!
//! The plans are in `crates/profile/src/naive.rs`, which says what is in each.
//!
//! `cargo bench -p benches --bench per_client`.

use benches::{Options, Report, Target, in_own_process, say};
use tidegate_profile::{Plan, Size, naive};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let options = Options::read();
    let services = options.pick(10_000, 200);
    let size = Size {
        services,
        routes: services / 2,
        clients: options.pick(1_000, 20),
        count: options.pick(2_000, 140),
        ..Size::default()
    };
    if let [plan] = options.child.as_slice() {
        return run(if plan == "shared" { Plan::Shared } else { Plan::PerClient }, &size);
    }
    let more: &[&str] = if options.quick { &["--quick"] } else { &[] };
    let measure = |plan: &str| in_own_process(more, &[plan]);
    let (naive, shared) = (measure("per-client"), measure("shared"));
    let report =
        Report::new(&format!("P5 {services} services, {} clients, 10 gateways, endpoints alone", size.clients));
    let figures = [
        ("memory", "MB", Target::AtLeast(10.0)),
        ("cold start", "s", Target::AtLeast(30.0)),
        ("endpoint change, p50", "ms", Target::AtLeast(1.0)),
        ("endpoint change, p99", "ms", Target::AtLeast(1.0)),
        ("client connects, p50", "ms", Target::AtLeast(1.0)),
        ("a Gateway references one Service more or less, p50", "ms", Target::AtLeast(1.0)),
    ];
    for (index, (what, unit, target)) in figures.into_iter().enumerate() {
        let target = if options.quick { Target::Free } else { target };
        report.row(&format!("{what}: per client"), naive[index], unit, Target::Free);
        report.row(&format!("{what}: shared"), shared[index], unit, Target::Free);
        report.row(&format!("{what}: per client against shared"), naive[index] / shared[index], "x", target);
    }
}

fn run(plan: Plan, size: &Size) {
    let costs = naive(plan, size);
    let [endpoint, connect, member] = costs.operations.as_slice() else { panic!("{costs:?} are not three operations") };
    let micros = [endpoint.p50_us, endpoint.p99_us, connect.p50_us, member.p50_us];
    say(&[costs.rss_bytes / 1024.0 / 1024.0, costs.cold_start_ms / 1e3]);
    say(&micros.map(|micros| micros / 1e3));
}
