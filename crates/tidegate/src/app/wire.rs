//! The figures of the ADS server for `/metrics`. What needs a look at every client is looked at when somebody asks, never
//! when something is sealed.

use std::collections::BTreeMap;
use tidegate_admin::{Histogram, Traffic, TypeCounters, Wire};
use tidegate_ads::session::Protocol;
use tidegate_ads::{Cause, ClientState, Config, Metrics};
use tidegate_model::ResourceType;

/// What the service of this configuration says of itself.
pub(crate) fn figures(ads: &Config) -> Wire {
    let metrics = &ads.metrics;
    let mut wire = Wire {
        streams: metrics.streams.get(),
        refused: metrics.refused.get(),
        closed: metrics.closed.get(),
        aged: metrics.aged.get(),
        overdue_pins: metrics.overdue_pins.get(),
        observations_dropped: metrics.observations_dropped.get(),
        queued_bytes: metrics.queued.get(),
        types: ResourceType::ALL.map(|kind| (kind.short(), of_type(metrics, kind))).into(),
        ..Wire::default()
    };
    for protocol in [Protocol::Delta, Protocol::Sotw] {
        wire.clients.extend(ClientState::ALL.map(|state| ((short(protocol), state.short()), 0)));
    }
    let newest = metrics.newest.get();
    for stats in ads.clients.snapshot() {
        let state = stats.state(newest.map(|(epoch, _)| epoch));
        *wire.clients.entry((short(stats.protocol), state.short())).or_default() += 1;
        wire.pinned += stats.session.pinned as u64;
        wire.leaving += stats.session.leaving as u64;
        if let (Some((epoch, millis)), Some(known)) = (newest, stats.session.epoch) {
            let lag = epoch.saturating_sub(known);
            wire.lag_epochs = wire.lag_epochs.max(lag);
            if lag > 0 {
                wire.lag_ms = wire.lag_ms.max(millis.saturating_sub(stats.seal_millis));
            }
        }
        for (kind, figures) in ResourceType::ALL.into_iter().zip(&stats.session.types) {
            if let Some(of) = wire.types.get_mut(kind.short()) {
                of.rejected += figures.rejected.len() as u64;
            }
        }
    }
    wire
}

fn of_type(metrics: &Metrics, kind: ResourceType) -> TypeCounters {
    let traffic = Cause::ALL.map(|cause| {
        let of = metrics.traffic.of(kind).of(cause);
        (cause.short(), Traffic { pushes: of.pushes.get(), bytes: of.bytes.get() })
    });
    TypeCounters {
        traffic: BTreeMap::from(traffic),
        resources: metrics.resources.of(kind).get(),
        acks: metrics.acks.of(kind).get(),
        nacks: metrics.nacks.of(kind).get(),
        rejected: 0,
        event_to_send: seconds(metrics.event_to_send.of(kind)),
        event_to_ack: seconds(metrics.event_to_ack.of(kind)),
    }
}

/// A histogram of milliseconds in seconds. Whole milliseconds in any number that is met here are exact as `f64`.
fn seconds(histogram: &tidegate_ads::Histogram) -> Histogram {
    let (counts, sum) = histogram.read();
    let bounds = tidegate_ads::Histogram::BOUNDS.iter().map(|bound| *bound as f64 / 1e3);
    let buckets = bounds.chain(std::iter::once(f64::INFINITY)).zip(counts).collect();
    Histogram { buckets, sum: sum as f64 / 1e3 }
}

/// The protocol as labels have it.
pub(crate) fn short(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Delta => "delta",
        Protocol::Sotw => "sotw",
    }
}
