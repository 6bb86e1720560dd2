//! What a start from nothing costs, until the first seal: P2. Each in a process of its own, from parsed objects that
//! come in pages and go again.
//!
//! `cargo bench -p benches --bench cold`.

use benches::{Cluster, Memory, Options, Report, Target, in_own_process, say};
use tidegate_workload::Shape;

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Starts of each size; the median counts.
const RUNS: usize = 3;

fn main() {
    let options = Options::read();
    if let [services, zones] = options.child.as_slice() {
        let number = |text: &String| text.parse().expect("sizes are numbers");
        return start(number(services), number(zones));
    }
    let services = options.pick(50_000, 1_000);
    let report = Report::new(&format!("P2 cold start, {services} services, 5000 routes, 10 gateways"));
    let free = [Target::Free; 3];
    for (zones, [seconds, resident, peak]) in
        [(4, [Target::AtMost(2.0), Target::AtMost(450.0), Target::Free]), (16, free)]
    {
        let runs: Vec<Vec<f64>> =
            (0..options.pick(RUNS, 1)).map(|_| in_own_process(&[&services.to_string(), &zones.to_string()])).collect();
        report.row(&format!("to the first seal, {zones} zones"), median(&runs, 0), "s", seconds);
        report.row(&format!("resident, {zones} zones"), median(&runs, 1), "MB", resident);
        report.row(&format!("resident at most, {zones} zones"), median(&runs, 2), "MB", peak);
    }
}

fn start(services: usize, zones: usize) {
    let cluster = Cluster::start(Shape { services, zones, ..Shape::default() });
    let memory = Memory::now();
    say(&[cluster.cold.as_secs_f64(), memory.resident, memory.peak]);
}

fn median(runs: &[Vec<f64>], figure: usize) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(|run| run[figure]).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
