//! What one change costs, from the event in memory to the seal: P1 and P3.
//!
//! `cargo bench -p benches --bench changes`, with `-- --operators` for what each operator costs.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use benches::{Cluster, Options, Report, Target, Times, changes};
use tidegate_engine::{Config, Picture};
use tidegate_log::{Event, Object};
use tidegate_normalize::{Moment, normalize};
use tidegate_profile::Drawing;
use tidegate_workload::{Fanout, Shape};

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Operators that the whole dataflow may have: each costs a little at every epoch.
const MAX_OPERATORS: usize = 350;

fn main() {
    let options = Options::read();
    if options.operators {
        return operators(&options);
    }
    count_operators();
    endpoints(&options);
    others(&options);
    retargets(&options);
}

fn count_operators() {
    let cluster = Cluster::profiled(Shape { services: 100, routes: 100, ..Shape::default() }, &Config::default());
    let count = cluster.first_picture().operators.len();
    Report::new("P1 the dataflow").row("operators", count as f64, "", Target::AtMost(MAX_OPERATORS as f64));
    assert!(count <= MAX_OPERATORS, "the dataflow has {count} operators, at most {MAX_OPERATORS} are wanted");
}

fn change_endpoint(fanout: &mut Fanout, service: usize) -> Vec<Event> {
    vec![fanout.change_endpoint(service)]
}

fn endpoints(options: &Options) {
    let report = Report::new("P1 endpoint change");
    let count = options.pick(5_000, 200);
    let mut figures = Vec::new();
    for (services, targets) in [
        (1_000, [Target::Free, Target::Free]),
        (10_000, [Target::AtMost(0.35), Target::AtMost(0.8)]),
        (50_000, [Target::Free, Target::Free]),
    ] {
        let mut cluster = Cluster::start(Shape { services, ..Shape::default() });
        let times = changes(&mut cluster, count, services, change_endpoint);
        assert_eq!((cluster.core.changed_facts(), cluster.core.changed_rows()), (2, 2), "one fact, one assignment");
        report.row(&format!("p50 at {services} services"), times.at(50), "ms", targets[0]);
        report.row(&format!("p99 at {services} services"), times.at(99), "ms", targets[1]);
        figures.push(times.at(50));
        if options.quick {
            return;
        }
    }
    report.row("p50 at 50000 services against 1000", figures[2] / figures[0], "x", Target::AtMost(1.3));
}

fn others(options: &Options) {
    let shape = Shape { services: options.pick(10_000, 1_000), ..Shape::default() };
    normalization(options, shape);
    let report = Report::new(&format!("other changes at {} services, 5000 routes", shape.services));
    let count = options.pick(1_000, 50);
    let mut cluster = Cluster::start(shape);
    let mut row = |what: &str, of: usize, batch: &dyn Fn(&mut Fanout, usize) -> Vec<Event>| {
        let times = changes(&mut cluster, count, of, batch);
        report.row(&format!("{what}, p50"), times.at(50), "ms", Target::Free);
        report.row(&format!("{what}, p99"), times.at(99), "ms", Target::Free);
        cluster.core.changed_facts() + cluster.core.changed_rows()
    };
    row("retarget of a route", shape.routes, &|fanout, route| vec![fanout.retarget(route)]);
    let changed = row("edit of fields that nobody reads", shape.services, &Fanout::edit_unread);
    assert_eq!(changed, 0, "what nobody reads changes no fact and no row");
    let changed = row("empty epoch", shape.services, &|_, _| Vec::new());
    assert_eq!(changed, 0, "nothing comes of nothing");
    row("removal or return of a Service", shape.services, &|fanout, service| {
        // Every second time something comes back: removals and additions alike.
        if fanout.has_service(service) { fanout.remove_service(service) } else { fanout.add_service(service) }
    });
}

/// What of a change is normalization: of the new form of its object.
fn normalization(options: &Options, shape: Shape) {
    let mut fanout = Fanout::new(shape);
    let report = Report::new("of that, normalization of one object");
    let row = |what: &str, make: &mut dyn FnMut(usize) -> Event| {
        let mut times = Times::new();
        for index in 0..options.pick(2_000, 100) {
            let Event::Apply(object) = make(index) else { panic!("what is edited is there") };
            times.take(|| normalize(&object, &Moment::default()));
        }
        report.row(&format!("{what}, p50"), times.at(50) * 1e3, "us", Target::Free);
    };
    row("EndpointSlice of an API server", &mut |index| fanout.change_endpoint(index % shape.services));
    row("EndpointSlice of a file", &mut |index| without_uid(fanout.change_endpoint(index % shape.services)));
    row("Service", &mut |index| fanout.edit_unread(index % shape.services).swap_remove(0));
    row("HTTPRoute", &mut |index| fanout.retarget(index % shape.routes));
}

fn without_uid(event: Event) -> Event {
    let Event::Apply(object) = event else { return event };
    let mut body = (*object.body).clone();
    body["metadata"].as_object_mut().expect("every object has metadata").remove("uid");
    Event::Apply(Object::new(body).expect("it was one before"))
}

fn retargets(options: &Options) {
    let report = Report::new("P3 retarget of a route on one Gateway");
    for per_host in [4, 1] {
        let shape = Shape {
            gateways: 1,
            routes: options.pick(5_000, 500),
            services: options.pick(10_000, 1_000),
            routes_per_host: per_host,
            ..Shape::default()
        };
        let mut cluster = Cluster::start(shape);
        let times =
            changes(&mut cluster, options.pick(2_000, 50), shape.routes, |fanout, route| vec![fanout.retarget(route)]);
        let of = format!("{} routes, {per_host} to a virtual host", shape.routes);
        report.row(&format!("p50 with {of}"), times.at(50), "ms", Target::Free);
        report.row(&format!("p99 with {of}"), times.at(99), "ms", Target::AtMost(1.0));
    }
}

fn operators(options: &Options) {
    let shape = Shape { services: options.pick(10_000, 1_000), ..Shape::default() };
    let count = options.pick(2_000, 100);
    let mut cluster = Cluster::profiled(shape, &Config::default());
    show(&cluster.first_picture(), "cold start");
    changes(&mut cluster, count, shape.services, change_endpoint);
    show(&cluster.picture(), "endpoint change");
    changes(&mut cluster, count, shape.routes, |fanout, route| vec![fanout.retarget(route)]);
    show(&cluster.picture(), "retarget of a route");
}

fn show(picture: &Picture, what: &str) {
    let drawing = Drawing::new(what, picture);
    println!("\n{what}: {:.1} us an epoch in {} operators", drawing.total_us(), drawing.operators.len());
    println!("{:>12} {:>9}  operator", "us an epoch", "calls");
    for index in drawing.dearest().into_iter().take(30) {
        let operator = &drawing.operators[index];
        println!("{:>12.2} {:>9.2}  {} {:?}", operator.self_us, operator.calls, operator.name, operator.address);
    }
}
