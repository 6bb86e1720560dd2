//! The metrics as a table, from the text that a scraper gets: what is registered is what is documented.

use crate::metrics;
use crate::view::{BuildInfo, Counters, Histogram, Readiness, Traffic, TypeCounters, View, Wire};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_xds::Sealed;

/// What there is to say about one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, as samples have it.
    pub name: String,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: String,
    /// What it means.
    pub help: String,
}

/// Every metric, in the order of `/metrics`.
///
/// # Errors
///
/// When the metrics cannot be written.
pub fn metrics() -> Result<Vec<Metric>, std::fmt::Error> {
    Ok(read(&metrics::render(&Sample)?))
}

/// Reads OpenMetrics text: a metric is its help, its type and its first sample.
fn read(text: &str) -> Vec<Metric> {
    let (mut help, mut kind, mut table) = (String::new(), String::new(), Vec::new());
    for line in text.lines() {
        if let Some((_, text)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            text.trim_end_matches('.').clone_into(&mut help);
        } else if let Some((_, text)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            text.clone_into(&mut kind);
        } else if !line.starts_with('#') && !help.is_empty() {
            let (mut name, labels) = sample(line);
            if kind == "histogram" {
                // Its first sample is the sum; a dashboard asks for buckets, and knows how.
                name.truncate(name.strip_suffix("_sum").unwrap_or(&name).len());
            }
            table.push(Metric { name, labels, kind: std::mem::take(&mut kind), help: std::mem::take(&mut help) });
        }
    }
    table
}

/// Name and names of labels of a sample. No value of a label in [`Sample`] has a comma in it.
fn sample(line: &str) -> (String, Vec<String>) {
    let Some((name, rest)) = line.split_once('{') else {
        return (line.split(' ').next().unwrap_or_default().to_owned(), Vec::new());
    };
    let labels = rest.split('}').next().unwrap_or_default().split(',');
    (name.to_owned(), labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned())).collect())
}

/// A controller that has a sample of every metric.
struct Sample;

impl View for Sample {
    fn readiness(&self) -> Readiness {
        Readiness::default()
    }
    fn sealed(&self) -> Option<Arc<Sealed>> {
        Some(Arc::default())
    }
    fn objects(&self) -> Vec<Value> {
        Vec::new()
    }
    fn problems(&self) -> Vec<Value> {
        Vec::new()
    }
    fn clients(&self) -> Vec<Value> {
        Vec::new()
    }
    fn counters(&self) -> Counters {
        let times = Histogram { buckets: vec![(f64::INFINITY, 0)], sum: 0.0 };
        let of = TypeCounters {
            traffic: BTreeMap::from([("seal", Traffic::default())]),
            event_to_send: times.clone(),
            event_to_ack: times,
            ..TypeCounters::default()
        };
        let clients = BTreeMap::from([(("delta", "current"), 0)]);
        let wire = Wire { clients, types: BTreeMap::from([("cds", of)]), ..Wire::default() };
        Counters { wire, ..Counters::default() }
    }
    fn build(&self) -> BuildInfo {
        BuildInfo { version: "0", controller: String::new(), workers: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_registered_metric_is_in_the_table_with_its_labels() {
        let text = metrics::render(&Sample).unwrap();
        let table = metrics().unwrap();
        assert_eq!(table.len(), text.lines().filter(|line| line.starts_with("# HELP")).count(), "{table:#?}");
        let of = |name: &str| table.iter().find(|metric| metric.name == name).unwrap();
        assert_eq!(of("tidegate_pushes_total").labels, ["type", "cause"]);
        assert_eq!(of("tidegate_event_to_ack_seconds").labels, ["type"]);
        assert_eq!(of("tidegate_event_to_ack_seconds").kind, "histogram");
        assert_eq!(of("tidegate_pushes_total").kind, "counter");
        assert_eq!(of("tidegate_build_info").labels, ["version", "controller", "workers"]);
        assert!(table.iter().all(|metric| !metric.help.is_empty() && !metric.kind.is_empty()), "{table:#?}");
    }
}
