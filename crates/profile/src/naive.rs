//! The plan that was not taken: clients joined in the dataflow, an assignment for each client and Service.
//!
//! Two dataflows over the same inputs, and nothing else in either: `per client` joins clients with the Services of their
//! Gateway and these with endpoints; `shared` knows no clients and derives, for each Service that some Gateway
//! references, one assignment for everybody and, where the Service prefers zones, one for each zone that has endpoints.
//! The store and the sessions, which choose among them, are not in `shared`, and the store and the streams of the other
//! one are not in `per client`.

mod plans;

pub use plans::Plan;

use crate::measure::{Memory, Operation, Times};
use crate::size::Size;
use plans::{ClientRow, Inputs};
use std::sync::Arc;
use std::time::Instant;
use tidegate_log::Event;
use tidegate_model::{Epoch, Fact, Name, NamespacedName, SliceFact};
use tidegate_normalize::{Moment, normalize};
use tidegate_workload::{Fanout, Random};
use timely::communication::allocator::{Allocator, Thread};
use timely::dataflow::operators::probe::Handle;
use timely::worker::Worker;

/// What a plan costs.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// Until everything is derived for the first time, in milliseconds.
    pub cold_start_ms: f64,
    /// What is resident because of it, in bytes. Of a process of its own, or it means nothing.
    pub rss_bytes: f64,
    /// `endpoint change`, `client connect`, `Service referenced or not`.
    pub operations: Vec<Operation>,
}

/// A dataflow and what drives it.
struct Seat {
    worker: Worker,
    inputs: Inputs,
    probe: Handle<Epoch>,
    epoch: Epoch,
}

impl Seat {
    fn new(plan: Plan) -> Self {
        let mut worker = Worker::new(timely::WorkerConfig::default(), Allocator::Thread(Thread::default()), None);
        let (inputs, probe) = plans::build(&mut worker, plan);
        Seat { worker, inputs, probe, epoch: 0 }
    }

    /// Ends the epoch: what was fed is derived.
    fn settle(&mut self) {
        self.epoch += 1;
        self.inputs.advance_to(self.epoch);
        while self.probe.less_than(&self.epoch) {
            self.worker.step();
        }
    }
}

/// Runs a plan.
///
/// # Panics
///
/// If the generator makes what it does not make.
#[must_use]
pub fn naive(plan: Plan, size: &Size) -> Costs {
    let mut fanout = Fanout::new(size.shape());
    let mut slices = vec![None; size.services];
    for event in fanout.list() {
        if let Some(slice) = slice_of(&event) {
            let index = service_index(&slice);
            slices[index] = Some(slice);
        }
    }
    let mut slices: Vec<Arc<SliceFact>> = slices.into_iter().map(|slice| slice.expect("each has one")).collect();
    let before = Memory::now();
    let start = Instant::now();
    let mut seat = Seat::new(plan);
    for slice in &slices {
        seat.inputs.slices.update(slice.clone(), 1);
    }
    for route in 0..fanout.shape().routes {
        let gateway = fanout.gateway_name(fanout.gateway_of(route));
        for rule in 0..fanout.rules() {
            let service = fanout.target(route, rule);
            seat.inputs.members.update((gateway.clone(), (name_of(&slices[service]), fanout.prefers_zone(service))), 1);
        }
    }
    for client in 0..size.clients {
        seat.inputs.clients.update(client_row(&fanout, client), 1);
    }
    seat.settle();
    let cold_start_ms = start.elapsed().as_secs_f64() * 1e3;
    let rss_bytes = (Memory::now().bytes() - before.bytes()).max(0.0);
    let count = size.count.div_ceil(7);
    let endpoints = endpoint_changes(&mut seat, &mut fanout, &mut slices, count);
    let connects = connects(&mut seat, &fanout, size.clients, count);
    let members = members(&mut seat, &fanout, &slices, count);
    let operations = vec![
        endpoints.operation("endpoint change"),
        connects.operation("client connect"),
        members.operation("Service referenced or not"),
    ];
    Costs { cold_start_ms, rss_bytes, operations }
}

fn slice_of(event: &Event) -> Option<Arc<SliceFact>> {
    let Event::Apply(object) = event else { return None };
    normalize(object, &Moment::default())
        .facts
        .into_iter()
        .find_map(|fact| if let Fact::Slice(slice) = fact { Some(slice) } else { None })
}

fn name_of(slice: &SliceFact) -> NamespacedName {
    slice.service.clone().expect("every generated slice has a Service")
}

fn service_index(slice: &SliceFact) -> usize {
    let name = name_of(slice);
    name.name().trim_start_matches("svc-").parse().expect("Services are numbered")
}

fn client_row(fanout: &Fanout, client: usize) -> (NamespacedName, ClientRow) {
    let gateway = fanout.gateway_name(client % fanout.shape().gateways);
    let zone = Name::from(format!("zone-{}", client / 10 % fanout.shape().zones));
    (gateway, ClientRow { id: u32::try_from(client).expect("fewer than 2^32 clients"), zone })
}

fn endpoint_changes(seat: &mut Seat, fanout: &mut Fanout, slices: &mut [Arc<SliceFact>], count: usize) -> Times {
    let (mut random, mut times) = (Random::new(7), Times::new());
    for _ in 0..count {
        let service = random.below(slices.len());
        let new = slice_of(&fanout.change_endpoint(service)).expect("a change of a slice is a slice");
        let old = std::mem::replace(&mut slices[service], new.clone());
        times.take(|| {
            seat.inputs.slices.update(old, -1);
            seat.inputs.slices.update(new, 1);
            seat.settle();
        });
    }
    times
}

fn connects(seat: &mut Seat, fanout: &Fanout, clients: usize, count: usize) -> Times {
    let mut times = Times::new();
    for client in clients..clients + count {
        let row = client_row(fanout, client);
        times.take(|| {
            seat.inputs.clients.update(row.clone(), 1);
            seat.settle();
        });
        // Gone again, not counted: the size stays.
        seat.inputs.clients.update(row, -1);
        seat.settle();
    }
    times
}

/// A Gateway references a Service that another one has already, and then no more.
fn members(seat: &mut Seat, fanout: &Fanout, slices: &[Arc<SliceFact>], count: usize) -> Times {
    let (mut random, mut times) = (Random::new(9), Times::new());
    for round in 0..count / 2 {
        let service = random.below(slices.len());
        let gateway = fanout.gateway_name(round % fanout.shape().gateways);
        let row = (gateway, (name_of(&slices[service]), fanout.prefers_zone(service)));
        for diff in [1, -1] {
            times.take(|| {
                seat.inputs.members.update(row.clone(), diff);
                seat.settle();
            });
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_plans_run() {
        for plan in [Plan::PerClient, Plan::Shared] {
            let costs = naive(plan, &Size::quick());
            assert_eq!(costs.operations.len(), 3);
            assert!(costs.cold_start_ms > 0.0 && costs.operations.iter().all(|of| of.p50_us > 0.0), "{costs:?}");
        }
    }
}
