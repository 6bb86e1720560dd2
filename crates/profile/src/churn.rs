//! The profile of churn: a pod of some Service is replaced every two seconds and a route edited every second; then ten
//! times as often, then a hundred times. In real time, for a change after a pause is dearer than one after the other.

use crate::cluster::Cluster;
use crate::measure::{Memory, Operation, Times, cpu};
use crate::part::{Error, Outcome, Part, Runner};
use crate::report::{Figure, Report};
use crate::size::Size;
use std::time::{Duration, Instant};
use tidegate_workload::Random;

/// How much faster than the schedule.
const RATES: [u32; 3] = [1, 10, 100];

/// Between two edits of routes. Pods are replaced half as often.
const BETWEEN_EDITS: Duration = Duration::from_secs(1);

/// Measures churn at each rate, for so many seconds each.
///
/// # Errors
///
/// If the process of a part fails.
pub fn churn(runner: &mut Runner<'_>, size: &Size, seconds: u64) -> Result<Report, Error> {
    runner.expect(RATES.len());
    let mut report = Report::new("churn", Some(*size));
    for times in RATES {
        let part = Part::Churn { size: *size, seconds, times };
        let outcome = runner.run(&format!("{times} x the schedule"), &part)?;
        (report.cold_start_ms, report.rss_bytes) = (outcome.cold_start_ms, outcome.rss_bytes);
        report.operations.extend(outcome.operations);
        report.figures.extend(outcome.figures);
    }
    report.notes.push(format!(
        "In real time, {seconds} s for each rate: a pod replaced every 2 s and a route edited every 1 s, then 10 and 100 \
         times as often. CPU is that of the whole process, with what it takes to make the objects."
    ));
    Ok(report)
}

/// One rate.
pub(crate) fn at_rate(size: &Size, seconds: u64, rate: u32) -> Outcome {
    let mut cluster = Cluster::start_on(size.shape(), &size.config(), |_| true);
    let mut random = Random::new(size.seed);
    let (mut pods, mut edits, mut late) = (Times::new(), Times::new(), Duration::ZERO);
    let (start, cpu_before) = (Instant::now(), cpu());
    let mut count = 0_u32;
    loop {
        // Two edits, then a pod: three operations in two of the intervals.
        let due = BETWEEN_EDITS * 2 * count / (3 * rate);
        if due >= Duration::from_secs(seconds) {
            break;
        }
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        late = late.max(start.elapsed().saturating_sub(due));
        if count % 3 == 2 {
            let change = [cluster.fanout.change_endpoint(random.below(size.services))];
            pods.push(cluster.apply(&change));
        } else {
            let change = [cluster.fanout.retarget(random.below(size.routes))];
            edits.push(cluster.apply(&change));
        }
        count += 1;
    }
    let used = cpu().saturating_sub(cpu_before);
    let cpu_us = used.as_secs_f64() * 1e6 / f64::from(count.max(1));
    let of = |text: &str| format!("{text} at {rate} x");
    let operation = |times: &Times, name: &str| Operation { cpu_us: Some(cpu_us), ..times.operation(&of(name)) };
    Outcome {
        cold_start_ms: cluster.cold.as_secs_f64() * 1e3,
        rss_bytes: Memory::now().bytes(),
        operations: vec![operation(&pods, "pod refresh"), operation(&edits, "route edit")],
        figures: vec![
            Figure::new(&of("operations a second"), f64::from(count) / start.elapsed().as_secs_f64(), "1/s"),
            Figure::new(&of("CPU of an operation"), cpu_us, "us"),
            Figure::new(&of("latest start behind the schedule"), late.as_secs_f64() * 1e3, "ms"),
        ],
        ..Outcome::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_routes_are_edited_for_each_pod() {
        let outcome = at_rate(&Size::quick(), 1, 100);
        let count = |name: &str| outcome.operation(name).unwrap().count;
        assert_eq!((count("pod refresh at 100 x"), count("route edit at 100 x")), (50, 100));
        assert!(outcome.operations.iter().all(|operation| operation.cpu_us > Some(0.0)));
    }
}
