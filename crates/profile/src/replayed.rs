//! The profile of a recorded log: what each epoch of it costs, and what operators do.

use crate::drawing::Drawing;
use crate::measure::{Memory, Times};
use crate::report::{Figure, Report};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;
use tidegate_engine::{Config, Core, Profiler, ReplayError, ReplayReport};
use tidegate_log::{Event, Object, Reader};
use tidegate_model::Kind;

/// Replays a log twice: for times, and once more with a dataflow that logs what its operators do.
///
/// # Errors
///
/// If the log cannot be read.
pub fn replayed(file: &Path, config: &Config) -> Result<Report, ReplayError> {
    let mut report = Report::new("replay", None);
    let mut core = Core::new(config);
    let (mut first, mut all, mut by_kind) = (Times::new(), Times::new(), BTreeMap::<String, Times>::new());
    let replay = walk(file, &mut core, |epoch, events, took| {
        if epoch == 0 {
            first.push(took);
        } else {
            all.push(took);
            by_kind.entry(sort(events)).or_default().push(took);
        }
    })?;
    report.rss_bytes = Memory::now().bytes();
    report.cold_start_ms = first.sum().as_secs_f64() * 1e3;
    report.operations.push(all.operation("epoch"));
    report.operations.extend(by_kind.iter().map(|(kind, times)| times.operation(&format!("epoch of {kind}"))));
    report.figures = vec![
        Figure::new("epochs", replay.epochs as f64, ""),
        Figure::new("events", replay.events as f64, ""),
        Figure::new("facts at the end", replay.facts as f64, ""),
        Figure::new("epochs that came out as recorded", replay.equal as f64, ""),
    ];
    drop(core);
    let profiler = Profiler::new(Instant::now());
    let mut core = Core::profiled(config, &profiler);
    walk(file, &mut core, |_, _, _| {})?;
    report.drawings = Drawing::both(&profiler);
    report.notes.push(
        "An epoch is timed from its events in memory to the seal, without reading the log. Times are of a dataflow that \
         logs nothing, operators of another one that does."
            .to_owned(),
    );
    Ok(report)
}

fn walk(
    file: &Path,
    core: &mut Core,
    mut each: impl FnMut(u64, &[Event], std::time::Duration),
) -> Result<ReplayReport, ReplayError> {
    let mut reader = Reader::open(file)?;
    let mut report = ReplayReport::default();
    for epoch in &mut reader {
        let epoch = epoch?;
        if let Some(seal) = &epoch.seal {
            let start = Instant::now();
            report.step(core, &epoch.events, seal)?;
            each(seal.epoch, &epoch.events, start.elapsed());
        }
    }
    Ok(report)
}

/// What an epoch is about.
fn sort(events: &[Event]) -> String {
    let kinds: BTreeSet<Kind> = events
        .iter()
        .filter_map(|event| match event {
            Event::Apply(Object { key, .. }) | Event::Delete(key) | Event::Expired { key, .. } => Some(key.kind),
            Event::Synced(_)
            | Event::Unreadable { .. }
            | Event::Connect { .. }
            | Event::Disconnect { .. }
            | Event::Rejected { .. } => None,
        })
        .collect();
    match kinds.into_iter().collect::<Vec<_>>().as_slice() {
        [] => "no object".to_owned(),
        [kind] => kind.as_str().to_owned(),
        [..] => "several kinds".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;
    use tidegate_engine::Applied;
    use tidegate_log::{Header, Seal, Writer};
    use tidegate_workload::Fanout;

    #[test]
    fn a_log_comes_out_as_recorded_and_its_epochs_are_told_by_kind() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("run.log");
        let config = Size::quick().config();
        let (mut core, mut fanout) = (Core::new(&config), Fanout::new(Size::quick().shape()));
        let mut writer = Writer::create(&file, &Header::new("0", 1, config.controller.as_str())).unwrap();
        let mut batches = vec![fanout.list().collect::<Vec<_>>()];
        batches.push(vec![fanout.change_endpoint(3)]);
        batches.push(vec![fanout.retarget(3)]);
        batches.push(fanout.remove_service(4));
        for (epoch, events) in batches.iter().enumerate() {
            let millis = 1 + epoch as u64;
            let Applied::Sealed(sealed) = core.apply(events, millis) else { panic!("everything is listed") };
            events.iter().for_each(|event| writer.append(event).unwrap());
            let (events, digest) = (events.len() as u64, sealed.digest.to_string());
            writer.seal(&Seal { epoch: epoch as u64, millis, events, digest }).unwrap();
        }
        writer.finish().unwrap();
        let report = replayed(&file, &config).unwrap();
        let figure = |what: &str| report.figures.iter().find(|figure| figure.what == what).unwrap().value;
        assert_eq!((figure("epochs"), figure("epochs that came out as recorded")), (4.0, 4.0));
        let names: Vec<&str> = report.operations.iter().map(|operation| operation.name.as_str()).collect();
        assert_eq!(names, ["epoch", "epoch of EndpointSlice", "epoch of HTTPRoute", "epoch of several kinds"]);
        assert_eq!(report.drawings[0].epochs, 3);
    }
}
