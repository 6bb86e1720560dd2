//! The plan that was not taken: clients joined in the dataflow, an assignment for each client and Service. P5.
//!
//! Two dataflows over the same inputs, and nothing else in either: `per client` joins clients with the Services of their
//! Gateway and these with endpoints; `shared` knows no clients and derives, for each Service that some Gateway
//! references, one assignment for everybody and, where the Service prefers zones, one for each zone that has endpoints.
//! The store and the sessions, which choose among them, are not in `shared`, and the store and the streams of the other
//! one are not in `per client`.
//!
//! `cargo bench -p benches --bench per_client`.

#![allow(clippy::disallowed_methods, reason = "a bench is what clocks are for")]

use benches::{Memory, Options, Report, Target, Times, in_own_process, say};
use plans::{ClientRow, Inputs, Plan};
use std::sync::Arc;
use std::time::Instant;
use tidegate_log::Event;
use tidegate_model::{Epoch, Fact, Name, NamespacedName, SliceFact};
use tidegate_normalize::{Moment, normalize};
use tidegate_workload::{Fanout, Random, Shape};
use timely::communication::allocator::{Allocator, Thread};
use timely::dataflow::operators::probe::Handle;
use timely::worker::Worker;

mod plans;

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let options = Options::read();
    if let [plan, services, clients, count] = options.child.as_slice() {
        let number = |text: &String| text.parse().expect("sizes are numbers");
        return run(Plan::named(plan), number(services), number(clients), number(count));
    }
    let services = options.pick(10_000, 200);
    let clients = options.pick(1_000, 20);
    let count = options.pick(300, 20);
    let measure = |plan: &str| {
        let numbers = [services, clients, count].map(|number| number.to_string());
        in_own_process(&[plan, &numbers[0], &numbers[1], &numbers[2]])
    };
    let (naive, shared) = (measure("per-client"), measure("shared"));
    let report = Report::new(&format!("P5 {services} services, {clients} clients, 10 gateways, endpoints alone"));
    let figures = [
        ("memory", "MB", Target::AtLeast(10.0)),
        ("cold start", "s", Target::AtLeast(30.0)),
        ("endpoint change, p50", "ms", Target::AtLeast(1.0)),
        ("endpoint change, p99", "ms", Target::AtLeast(1.0)),
        ("client connects, p50", "ms", Target::AtLeast(1.0)),
        ("a Gateway references one Service more or less, p50", "ms", Target::AtLeast(1.0)),
    ];
    for (index, (what, unit, target)) in figures.into_iter().enumerate() {
        let target = if options.quick { Target::Free } else { target };
        report.row(&format!("{what}: per client"), naive[index], unit, Target::Free);
        report.row(&format!("{what}: shared"), shared[index], unit, Target::Free);
        report.row(&format!("{what}: per client against shared"), naive[index] / shared[index], "x", target);
    }
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

fn run(plan: Plan, services: usize, clients: usize, count: usize) {
    let mut fanout = Fanout::new(Shape { services, routes: services / 2, ..Shape::default() });
    let mut slices = vec![None; services];
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
    for client in 0..clients {
        seat.inputs.clients.update(client_row(&fanout, client), 1);
    }
    seat.settle();
    let cold = start.elapsed().as_secs_f64();
    let memory = Memory::now().resident - before.resident;
    let endpoints = endpoint_changes(&mut seat, &mut fanout, &mut slices, count);
    let connects = connects(&mut seat, &fanout, clients, count);
    let members = members(&mut seat, &fanout, &slices, count);
    say(&[memory, cold, endpoints.at(50), endpoints.at(99), connects.at(50), members.at(50)]);
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
