//! Histograms that were counted elsewhere, as a metric.

use crate::view::Histogram;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;

/// A histogram for each resource type.
#[derive(Debug)]
pub(crate) struct ByType(pub(crate) BTreeMap<&'static str, Histogram>);

impl EncodeMetric for ByType {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (&kind, histogram) in &self.0 {
            let count = histogram.buckets.iter().map(|(_, count)| count).sum();
            let labels = [("type", kind)];
            let mut encoder = encoder.encode_family(&labels)?;
            encoder.encode_histogram::<NoLabelSet>(histogram.sum, count, &histogram.buckets, None)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    #[test]
    fn buckets_are_summed_up_as_scrapers_want_them() {
        let buckets = vec![(0.001, 2), (0.5, 1), (f64::INFINITY, 1)];
        let mut registry = Registry::default();
        registry.register("took_seconds", "help", ByType(BTreeMap::from([("eds", Histogram { buckets, sum: 2.25 })])));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "# TYPE took_seconds histogram",
            "took_seconds_sum{type=\"eds\"} 2.25",
            "took_seconds_count{type=\"eds\"} 4",
            "took_seconds_bucket{le=\"0.001\",type=\"eds\"} 2",
            "took_seconds_bucket{le=\"0.5\",type=\"eds\"} 3",
            "took_seconds_bucket{le=\"+Inf\",type=\"eds\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
