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
    if let [services, zones, rules] = options.child.as_slice() {
        let number = |text: &String| text.parse().expect("sizes are numbers");
        return start(number(services), number(zones), number(rules));
    }
    let services = options.pick(50_000, 1_000);
    let report = Report::new(&format!("P2 cold start, {services} services, 5000 routes, 10 gateways"));
    let free = [Target::Free; 3];
    let bounds = [Target::AtMost(2.0), Target::AtMost(450.0), Target::Free];
    for (zones, rules, what, [seconds, resident, peak]) in
        [(4, 16, "4 zones", bounds), (16, 16, "16 zones", free), (4, 1, "4 zones, a route refers to one service", free)]
    {
        let arguments = [services, zones, rules].map(|number| number.to_string());
        let run = |_| in_own_process(&[], &arguments.each_ref().map(String::as_str));
        let runs: Vec<Vec<f64>> = (0..options.pick(RUNS, 1)).map(run).collect();
        report.row(&format!("to the first seal, {what}"), median(&runs, 0), "s", seconds);
        report.row(&format!("resident, {what}"), median(&runs, 1), "MB", resident);
        report.row(&format!("resident at most, {what}"), median(&runs, 2), "MB", peak);
    }
}

fn start(services: usize, zones: usize, max_rules: usize) {
    let cluster = Cluster::start(Shape { services, zones, max_rules, ..Shape::default() });
    let memory = Memory::now();
    say(&[cluster.cold.as_secs_f64(), memory.resident, memory.peak]);
}

fn median(runs: &[Vec<f64>], figure: usize) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(|run| run[figure]).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
