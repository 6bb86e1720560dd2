//! The profile of a restart: clients that hold everything come back to a controller that knows nothing of them.

use crate::client::{Client, Holding, Received, gateway_of, holding};
use crate::cluster::Cluster;
use crate::measure::{Memory, Operation, Times};
use crate::part::{Error, Outcome, Part, Runner};
use crate::report::{Figure, Report};
use crate::size::Size;
use tidegate_model::ResourceType;

/// Measures a restart.
///
/// # Errors
///
/// If the process of the part fails.
pub fn restart(runner: &mut Runner<'_>, size: &Size) -> Result<Report, Error> {
    runner.expect(1);
    let mut report = Report::new("restart", Some(*size));
    let outcome = runner.run("clients", &Part::Restart(*size))?;
    (report.cold_start_ms, report.rss_bytes) = (outcome.cold_start_ms, outcome.rss_bytes);
    report.operations = outcome.operations;
    report.sent = outcome.sent;
    report.figures = outcome.figures;
    report.notes.push(
        "Sessions in this process, planned and framed by one thread. A warm client says what it holds and is sent \
         what differs, which is nothing, for versions are hashes of content; and its endpoints, for which a cluster \
         may be waiting."
            .to_owned(),
    );
    Ok(report)
}

/// Connects clients to one controller, then again, with what they hold, to another one.
pub(crate) fn reconnects(size: &Size) -> Outcome {
    let first = Cluster::start_on(size.shape(), &size.config(), |_| true);
    let count = size.clients.max(1);
    let (mut cold, mut cold_received) = (Times::new(), Received::default());
    let mut sent = None;
    for index in 0..count {
        let gateway = gateway_of(&first, index);
        let (_, received) = cold.take(|| Client::connect(index, &gateway, &first.sealed, 1));
        sent.get_or_insert_with(|| received.bytes.clone());
        cold_received.add(Received { assignments: Vec::new(), ..received });
    }
    let gateways = first.fanout.shape().gateways;
    let holdings: Vec<Holding> =
        (0..gateways).map(|gateway| holding(&first.sealed, &gateway_of(&first, gateway))).collect();
    drop(first);
    let second = Cluster::start_on(size.shape(), &size.config(), |_| true);
    let (mut warm, mut warm_received) = (Times::new(), Received::default());
    for index in 0..count {
        let (gateway, holding) = (gateway_of(&second, index), &holdings[index % gateways]);
        let (client, received) = warm.take(|| Client::reconnect(index, &gateway, holding, &second.sealed, 1));
        assert_eq!(client.behind(), 0, "a warm client has everything");
        warm_received.add(received);
    }
    let each = |received: &Received| Some(received.total() as f64 / count as f64);
    warm_received.resources.remove(&ResourceType::Endpoints);
    let others: usize = warm_received.resources.values().sum();
    let all_ms = (second.cold + warm.sum()).as_secs_f64() * 1e3;
    Outcome {
        cold_start_ms: second.cold.as_secs_f64() * 1e3,
        rss_bytes: Memory::now().bytes(),
        operations: vec![
            Operation { sent_bytes: each(&cold_received), ..cold.operation("cold client connects") },
            Operation { sent_bytes: each(&warm_received), ..warm.operation("warm client reconnects") },
        ],
        sent: sent.unwrap_or_default().iter().map(|(kind, bytes)| (kind.short().to_owned(), *bytes)).collect(),
        figures: vec![
            Figure::new("clients", count as f64, ""),
            Figure::new("from the first list to the last client", all_ms, "ms"),
            Figure::new("sent to all clients, cold", cold_received.total() as f64, "B"),
            Figure::new("sent to all clients, warm", warm_received.total() as f64, "B"),
            Figure::new("resources sent to warm clients but endpoints", others as f64, ""),
        ],
        ..Outcome::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_clients_are_sent_their_endpoints_alone() {
        let outcome = reconnects(&Size::quick());
        let figure = |what: &str| outcome.figures.iter().find(|figure| figure.what == what).unwrap().value;
        assert_eq!(figure("resources sent to warm clients but endpoints"), 0.0);
        let (cold, warm) = (figure("sent to all clients, cold"), figure("sent to all clients, warm"));
        assert!(warm > 0.0 && warm * 1.5 < cold, "{warm} of {cold} bytes");
    }
}
