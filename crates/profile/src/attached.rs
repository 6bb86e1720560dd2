//! The profile of attached routes: so many on one Gateway, fifty a second; when all is said, and how often the status of
//! the Gateway is written on the way.
//!
//! Deriving is measured; the clock in between is computed, so that this takes no longer than it must. A route arrives
//! when the schedule says and is taken when the one before is sealed. The status of an object is written when it changes,
//! at once if it was not written in the last quarter of a second, else at the end of that.

use crate::cluster::Cluster;
use crate::measure::{Memory, Times};
use crate::part::{Error, Outcome, Part, Runner};
use crate::report::{Figure, Report};
use crate::size::Size;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_log::Event;
use tidegate_model::{Kind, ObjectKey};
use tidegate_xds::Sealed;

/// Between two routes, in milliseconds.
const BETWEEN_MS: f64 = 20.0;

/// Between two writes of the status of one object, at least, in milliseconds.
const BETWEEN_WRITES_MS: f64 = 250.0;

/// Measures the attachment of the routes of this size to one Gateway.
///
/// # Errors
///
/// If the process of the part fails.
pub fn attached(runner: &mut Runner<'_>, size: &Size) -> Result<Report, Error> {
    runner.expect(1);
    let mut report = Report::new("attached", Some(*size));
    let outcome = runner.run("routes", &Part::Attached(*size))?;
    (report.cold_start_ms, report.rss_bytes) = (outcome.cold_start_ms, outcome.rss_bytes);
    report.operations = outcome.operations;
    report.figures = outcome.figures;
    report.notes.push(
        "Deriving is measured, the schedule between is computed: a route every 20 ms, a status written when it changes, \
         at once or 250 ms after its last write."
            .to_owned(),
    );
    Ok(report)
}

/// Writes of the status of one object.
#[derive(Debug, Default)]
struct Writer {
    writes: usize,
    last_ms: Option<f64>,
    due_ms: Option<f64>,
}

impl Writer {
    /// Time has come to `now`: what was due is written.
    fn pass(&mut self, now: f64) {
        if let Some(due) = self.due_ms.filter(|due| *due <= now) {
            self.write(due);
        }
    }

    /// The status changed.
    fn change(&mut self, now: f64) {
        self.pass(now);
        let next = self.last_ms.map_or(now, |last| last + BETWEEN_WRITES_MS);
        if next <= now {
            self.write(now);
        } else {
            self.due_ms = Some(next);
        }
    }

    fn write(&mut self, at: f64) {
        self.writes += 1;
        self.last_ms = Some(at);
        self.due_ms = None;
    }
}

/// Attaches every route, one after the other.
pub(crate) fn attach(size: &Size) -> Outcome {
    let size = Size { gateways: 1, ..*size };
    let is_route = |event: &Event| matches!(event, Event::Apply(object) if object.key.kind == Kind::HttpRoute);
    let mut cluster = Cluster::start_on(size.shape(), &size.config(), |event| !is_route(event));
    let routes: Vec<Event> = cluster.fanout.list().filter(is_route).collect();
    let gateway = ObjectKey { kind: Kind::Gateway, name: cluster.fanout.gateway_name(0) };
    let (mut times, mut writers) = (Times::new(), BTreeMap::<ObjectKey, Writer>::new());
    let (mut now, mut changes) = (0.0, 0);
    for (index, route) in routes.iter().enumerate() {
        let before = Arc::clone(&cluster.sealed);
        let took = cluster.apply(std::slice::from_ref(route));
        times.push(took);
        now = f64::max(now, index as f64 * BETWEEN_MS) + took.as_secs_f64() * 1e3;
        for key in changed(&before, &cluster.sealed) {
            changes += usize::from(key == gateway);
            writers.entry(key).or_default().change(now);
        }
    }
    writers.values_mut().for_each(|writer| writer.pass(f64::MAX));
    let last_ms = writers.values().filter_map(|writer| writer.last_ms).fold(now, f64::max);
    let settled_ms = last_ms - routes.len().saturating_sub(1) as f64 * BETWEEN_MS;
    let of_gateway = writers.remove(&gateway).unwrap_or_default().writes;
    let of_others: usize = writers.values().map(|writer| writer.writes).sum();
    Outcome {
        cold_start_ms: cluster.cold.as_secs_f64() * 1e3,
        rss_bytes: Memory::now().bytes(),
        operations: vec![times.operation("route attached")],
        figures: vec![
            Figure::new("routes", routes.len() as f64, ""),
            Figure::new("settled after the last route", settled_ms, "ms"),
            Figure::new("status writes of the Gateway", of_gateway as f64, ""),
            Figure::new("changes of the Gateway's status", changes as f64, ""),
            Figure::new("status writes of routes", of_others as f64, ""),
        ],
        ..Outcome::default()
    }
}

/// The objects whose derived status differs.
fn changed(before: &Sealed, after: &Sealed) -> Vec<ObjectKey> {
    let changes = before.status.diff(&after.status).map(|change| match change {
        imbl::ordmap::DiffItem::Add(key, _)
        | imbl::ordmap::DiffItem::Remove(key, _)
        | imbl::ordmap::DiffItem::Update { new: (key, _), .. } => key.clone(),
    });
    changes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_at_once_and_then_four_times_a_second_at_most() {
        let mut writer = Writer::default();
        for now in [0.0, 10.0, 20.0, 240.0] {
            writer.change(now);
        }
        assert_eq!((writer.writes, writer.due_ms), (1, Some(250.0)));
        writer.change(260.0);
        assert_eq!((writer.writes, writer.last_ms, writer.due_ms), (2, Some(250.0), Some(500.0)));
        writer.pass(f64::MAX);
        assert_eq!((writer.writes, writer.last_ms), (3, Some(500.0)));
        writer.change(1_000.0);
        assert_eq!((writer.writes, writer.due_ms), (4, None));
    }

    #[test]
    fn every_route_changes_the_gateway_and_is_written_itself() {
        let size = Size::quick();
        let outcome = attach(&size);
        let figure = |what: &str| outcome.figures.iter().find(|figure| figure.what == what).unwrap().value;
        assert_eq!(figure("routes"), size.routes as f64);
        assert_eq!(figure("changes of the Gateway's status"), size.routes as f64);
        assert_eq!(figure("status writes of routes"), size.routes as f64);
        let writes = figure("status writes of the Gateway");
        assert!(writes >= 2.0 && writes <= size.routes as f64, "{writes}");
    }
}
