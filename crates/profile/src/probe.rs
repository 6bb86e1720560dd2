//! The profile of a probe: routes appear one by one, each with a Service that nobody used before, and each is followed to
//! the last byte at a client which holds its cluster and endpoints by then.

use crate::client::{Client, gateway_of};
use crate::cluster::Cluster;
use crate::measure::{Memory, Operation, Times};
use crate::part::{Error, Outcome, Part, Runner};
use crate::report::{Figure, Report};
use crate::size::Size;
use std::time::Instant;
use tidegate_log::Event;
use tidegate_model::Kind;

/// Measures so many routes.
///
/// # Errors
///
/// If the process of the part fails.
pub fn probe(runner: &mut Runner<'_>, size: &Size) -> Result<Report, Error> {
    runner.expect(1);
    let mut report = Report::new("probe", Some(*size));
    let outcome = runner.run("routes", &Part::Probe(*size))?;
    (report.cold_start_ms, report.rss_bytes) = (outcome.cold_start_ms, outcome.rss_bytes);
    report.operations = outcome.operations;
    report.figures = outcome.figures;
    report.notes.push(
        "From the event in memory to the last byte, framed; the client is in this process and answers at once, so there \
         is no network in it and no Envoy. Clusters come first, then their endpoints, then the table that names them."
            .to_owned(),
    );
    Ok(report)
}

/// Adds every route, one after the other, on one Gateway.
pub(crate) fn routes(size: &Size) -> Outcome {
    let size = Size { gateways: 1, ..*size };
    let is_route = |event: &Event| matches!(event, Event::Apply(object) if object.key.kind == Kind::HttpRoute);
    let mut cluster = Cluster::start_on(size.shape(), &size.config(), |event| !is_route(event));
    let routes: Vec<Event> = cluster.fanout.list().filter(is_route).collect();
    let (mut client, _) = Client::connect(0, &gateway_of(&cluster, 0), &cluster.sealed, 1);
    let (mut times, mut sent, mut new, mut responses) = (Times::new(), 0, 0, 0);
    for (index, route) in routes.iter().enumerate() {
        let before = client.clusters();
        let start = Instant::now();
        cluster.apply(std::slice::from_ref(route));
        let received = client.follow(&cluster.sealed, 2 + index as u64);
        times.push(start.elapsed());
        assert_eq!(client.behind(), 0, "the client has the table and whatever it names");
        new += usize::from(client.clusters() > before);
        sent += received.total();
        responses += received.responses;
    }
    let count = routes.len() as f64;
    let operation = Operation { sent_bytes: Some(sent as f64 / count), ..times.operation("route to last byte") };
    Outcome {
        cold_start_ms: cluster.cold.as_secs_f64() * 1e3,
        rss_bytes: Memory::now().bytes(),
        operations: vec![operation],
        figures: vec![
            Figure::new("routes", count, ""),
            Figure::new("of these with a Service that was new to the client", new as f64, ""),
            Figure::new("responses for a route", responses as f64 / count, ""),
        ],
        ..Outcome::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_with_a_new_service_is_three_responses() {
        let size = Size::quick();
        // As many Services as routes: each route has its own.
        let outcome = routes(&Size { services: size.routes, ..size });
        let figure = |what: &str| outcome.figures.iter().find(|figure| figure.what.starts_with(what)).unwrap().value;
        assert_eq!((figure("routes"), figure("of these")), (20.0, 20.0));
        assert_eq!(figure("responses"), 3.0, "a cluster, its endpoints, the table");
        assert_eq!(outcome.operations[0].count, 20);
    }
}
