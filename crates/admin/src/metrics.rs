//! `/metrics`: the numbers of a [`View`] as OpenMetrics text.
//!
//! The registry is made for each scrape from values that live elsewhere, so there is no second copy of a counter that
//! could drift. The table in docs/operations.md is made from what is registered here, by way of [`crate::reference`].

use crate::histogram::ByType;
use crate::view::{Counters, Histogram, TypeCounters, View, Wire};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

/// The content type of OpenMetrics text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Count = Counter<u64, AtomicU64>;
type Labels<const N: usize> = [(&'static str, &'static str); N];
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
    clients(&mut registry, &counters.wire);
    types(&mut registry, &counters.wire.types);
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
    let lag = whole(counters.frontier_lag_ms) / 1000.0;
    level(
        registry,
        "frontier_lag_seconds",
        "How long the batch in progress has been with the dataflow; 0 if none is",
        lag,
    );
    level(registry, "queued_batches", "Batches of events that wait for the dataflow", whole(counters.queued_batches));
    let help = "Broken guarantees of the last seal: a bug if not 0";
    level(registry, "violations", help, whole(counters.violations));
    level(registry, "manifest_problems", "Problems in the input files", whole(counters.manifest_problems));
}

fn clients(registry: &mut Registry, wire: &Wire) {
    level(registry, "streams", "Open streams, those that have not said who they are included", whole(wire.streams));
    let clients = Family::<Labels<2>, Level>::default();
    for (&(protocol, state), &number) in &wire.clients {
        clients.get_or_create(&[("protocol", protocol), ("state", state)]).set(whole(number));
    }
    let help = "Connected clients by protocol (delta, sotw) and state: current, behind (has something to get or to answer), \
                waiting (a listener or table for its clusters), rejecting";
    registry.register("clients", help, clients);
    count(registry, "clients_refused", "Streams refused at --max-clients", wire.refused);
    let help = "Streams ended because of a limit, or of a request that cannot be read";
    count(registry, "streams_closed", help, wire.closed);
    count(registry, "streams_aged", "Streams ended at --max-stream-age", wire.aged);
    let help = "Epochs by which the client furthest behind is behind the newest seal that changed something";
    level(registry, "client_lag_epochs", help, whole(wire.lag_epochs));
    let help = "Time between the newest seal that changed something and the one that the client furthest behind knows";
    level(registry, "client_lag_seconds", help, whole(wire.lag_ms) / 1000.0);
    let help = "Listeners and tables that wait for clusters new to a client, now, over all clients";
    level(registry, "pinned", help, whole(wire.pinned));
    let help = "Clusters that nothing names any more and that clients still have, now, over all clients";
    level(registry, "pending_removals", help, whole(wire.leaving));
    let help = "Changes sent at their bound, before all of their clusters were ready: the affected routes answered 500 for a \
                moment";
    count(registry, "overdue_pins", help, wire.overdue_pins);
    let help = "Bytes of responses that were made and that the transport has not taken";
    level(registry, "queued_bytes", help, whole(wire.queued_bytes));
    let help = "Observations lost because their queue was full; status may lag behind";
    count(registry, "observations_dropped", help, wire.observations_dropped);
}

fn types(registry: &mut Registry, types: &BTreeMap<&'static str, TypeCounters>) {
    let (pushes, bytes) = (Family::<Labels<2>, Count>::default(), Family::<Labels<2>, Count>::default());
    let family = || Family::<Labels<1>, Count>::default();
    let (resources, acks, nacks) = (family(), family(), family());
    let rejected = Family::<Labels<1>, Level>::default();
    for (&kind, of) in types {
        for (&cause, traffic) in &of.traffic {
            let labels = [("type", kind), ("cause", cause)];
            pushes.get_or_create(&labels).inc_by(traffic.pushes);
            bytes.get_or_create(&labels).inc_by(traffic.bytes);
        }
        for (family, number) in [(&resources, of.resources), (&acks, of.acks), (&nacks, of.nacks)] {
            family.get_or_create(&[("type", kind)]).inc_by(number);
        }
        rejected.get_or_create(&[("type", kind)]).set(whole(of.rejected));
    }
    let help = "Responses sent, by type (cds, eds, lds, sds, rds) and cause: seal, subscription, reconnect, acceptance, \
                rejection, cluster, due";
    registry.register("pushes", help, pushes);
    registry.register("pushed_bytes", "Bytes of the responses sent", bytes);
    registry.register("pushed_resources", "Resources in the responses sent", resources);
    registry.register("acks", "Responses that clients accepted", acks);
    registry.register("nacks", "Responses that clients rejected", nacks);
    let help = "Resources that a client rejected and that it is not sent until they change, now, over all clients";
    registry.register("rejected_resources", help, rejected);
    let help = "From the batch that brought a change until the response that carries it is handed to the transport";
    registry.register("event_to_send_seconds", help, times(types, |of| &of.event_to_send));
    let help = "From the batch that brought a change until the client has accepted the response that carried it";
    registry.register("event_to_ack_seconds", help, times(types, |of| &of.event_to_ack));
}

fn times(types: &BTreeMap<&'static str, TypeCounters>, of: impl Fn(&TypeCounters) -> &Histogram) -> ByType {
    ByType(types.iter().map(|(&kind, counters)| (kind, of(counters).clone())).collect())
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
