//! `/metrics`: the numbers of a [`View`] as OpenMetrics text.
//!
//! The registry is made for each scrape from values that live elsewhere, so there is no second copy of a counter that
//! could drift. The table in docs/operations.md is made from what is registered here, by way of [`crate::reference`].

use crate::view::{Counters, View};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

/// The content type of OpenMetrics text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Count = Counter<u64, AtomicU64>;
type Level = Gauge<f64, AtomicU64>;

/// The metrics of `view`.
pub(crate) fn render(view: &dyn View) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("tidegate");
    let build = view.build();
    let labels = vec![
        ("version", build.version.to_owned()),
        ("controller", build.controller),
        ("workers", build.workers.to_string()),
    ];
    registry.register("build", "Version, controller name and workers", Info::new(labels));
    let counters = view.counters();
    sealed(&mut registry, view, &counters);
    engine(&mut registry, &counters);
    wire(&mut registry, &counters);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

fn sealed(registry: &mut Registry, view: &dyn View, counters: &Counters) {
    let sealed = view.sealed();
    level(registry, "ready", "1 once the first epoch is sealed", f64::from(u8::from(sealed.is_some())));
    let unreadable = view.readiness().unreadable.len();
    level(registry, "unreadable_kinds", "Kinds that cannot be read", whole(unreadable as u64));
    let Some(sealed) = sealed else { return };
    level(registry, "sealed_epoch", "The last sealed epoch", whole(sealed.epoch));
    let age_ms = counters.now_ms.saturating_sub(sealed.millis);
    level(
        registry,
        "last_seal_age_seconds",
        "Age of the last sealed batch; large and harmless when nothing changes",
        whole(age_ms) / 1000.0,
    );
    level(registry, "gateways", "Gateways that are served", whole(sealed.gateways.len() as u64));
    level(registry, "clusters", "Clusters that are served", whole(sealed.clusters.len() as u64));
    let help = "Entries of routes that keep their previous target for now, see --retarget-hold";
    level(registry, "held_entries", help, whole(sealed.held.len() as u64));
}

fn engine(registry: &mut Registry, counters: &Counters) {
    count(registry, "seals", "Epochs sealed", counters.seals);
    count(registry, "events", "Events taken in", counters.events);
    level(registry, "facts", "Facts that are current", whole(counters.facts));
    let help = "Broken guarantees of the last seal: a bug if not 0";
    level(registry, "violations", help, whole(counters.violations));
    level(registry, "manifest_problems", "Problems in the input files", whole(counters.manifest_problems));
}

fn wire(registry: &mut Registry, counters: &Counters) {
    let clients = Family::<[(&'static str, &'static str); 1], Level>::default();
    for (&protocol, &number) in &counters.clients {
        clients.get_or_create(&[("protocol", protocol)]).set(whole(number));
    }
    registry.register("clients", "Connected clients by protocol, delta or sotw", clients);
    count(registry, "clients_refused", "Clients refused because there were too many", counters.clients_refused);
    let help = "Changes sent at their bound, before all of their clusters were ready: the affected routes answered 500 for a \
                moment";
    count(registry, "overdue_pins", help, counters.overdue_pins);
    count(registry, "pushed_bytes", "Bytes of responses handed to the transport", counters.pushed_bytes);
    let help = "Observations lost because their queue was full; status may lag behind";
    count(registry, "observations_dropped", help, counters.observations_dropped);
    let family = || Family::<[(&'static str, &'static str); 1], Count>::default();
    let (pushes, resources, acks, nacks) = (family(), family(), family(), family());
    for (&kind, of) in &counters.types {
        for (family, number) in [(&pushes, of.pushes), (&resources, of.resources), (&acks, of.acks), (&nacks, of.nacks)]
        {
            family.get_or_create(&[("type", kind)]).inc_by(number);
        }
    }
    registry.register("pushes", "Responses sent, by type: cds, eds, lds, sds, rds", pushes);
    registry.register("pushed_resources", "Resources in the responses sent", resources);
    registry.register("acks", "Responses that clients accepted", acks);
    registry.register("nacks", "Responses that clients rejected", nacks);
}

fn count(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let counter = Count::default();
    counter.inc_by(value);
    registry.register(name, help, counter);
}

fn level(registry: &mut Registry, name: &str, help: &str, value: f64) {
    let gauge = Level::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}

/// A whole number as a gauge takes it; exact below 2^53, which no count here reaches.
fn whole(value: u64) -> f64 {
    value as f64
}
