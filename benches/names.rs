//! What it costs that rows carry names instead of interned numbers: arrangement and per-epoch cost by key type.
//!
//! `cargo bench -p benches --bench names`. Decides `docs/design/names.md`.

#![allow(clippy::disallowed_methods, reason = "a bench is what clocks are for")]
#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use differential_dataflow::ExchangeData;
use differential_dataflow::input::InputSession;
use std::hash::Hash;
use std::time::Instant;
use tidegate_model::{Epoch, Name, NamespacedName};
use timely::dataflow::operators::probe::Handle;
use timely::worker::Worker;

#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;

const KEYS: u32 = 50_000;
const EPOCHS: u32 = 5_000;

fn main() {
    println!("{:<28} {:>9} {:>14} {:>14} {:>12}", "key", "cold", "epoch p50", "epoch p99", "batched");
    measure("u32", |i| i);
    measure("Name (Arc<str>)", |i| Name::from(text(i)));
    measure("NamespacedName (Arc<str>)", |i| NamespacedName::parse(&text(i)));
    measure("String", text);
    measure("(String, String)", |i| (format!("ns-{}", i % 100), format!("service-{i}")));
}

fn text(i: u32) -> String {
    format!("ns-{}/service-{i}", i % 100)
}

fn measure<K: ExchangeData + Hash>(name: &str, key: impl Fn(u32) -> K + Send + Sync + 'static) {
    let name = name.to_owned();
    timely::execute_directly(move |worker| run(worker, &name, &key));
}

/// Two arrangements of the key joined, then counted: what a stage of the translator does.
fn run<K: ExchangeData + Hash>(worker: &mut Worker, name: &str, key: &impl Fn(u32) -> K) {
    let mut left: InputSession<Epoch, (K, u32), isize> = InputSession::new();
    let mut right: InputSession<Epoch, (K, u32), isize> = InputSession::new();
    let probe = Handle::new();
    worker.dataflow(|scope| {
        left.to_collection(scope)
            .arrange_by_key_named("left")
            .join_core(right.to_collection(scope).arrange_by_key_named("right"), |key, a, b| Some((key.clone(), a ^ b)))
            .reduce_named("newest", |_, input, output| output.push((*input[0].0, 1)))
            .probe_with(&probe);
    });
    let mut epoch = 0;
    let mut settle = |left: &mut InputSession<_, _, _>, right: &mut InputSession<_, _, _>, worker: &mut Worker| {
        epoch += 1;
        left.advance_to(epoch);
        right.advance_to(epoch);
        left.flush();
        right.flush();
        worker.step_while(|| probe.less_than(&epoch));
    };

    let start = Instant::now();
    for i in 0..KEYS {
        left.update((key(i), 0), 1);
        right.update((key(i), 0), 1);
    }
    settle(&mut left, &mut right, worker);
    let cold = start.elapsed();

    let mut times: Vec<f64> = Vec::new();
    for i in 0..EPOCHS {
        let of = i.wrapping_mul(2_654_435_761) % KEYS;
        left.update((key(of), i + 1), 1);
        let start = Instant::now();
        settle(&mut left, &mut right, worker);
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);

    let start = Instant::now();
    for round in 0..10 {
        for i in 0..10_000 {
            left.update((key((i * 5 + round) % KEYS), 1_000_000 + round), 1);
        }
        settle(&mut left, &mut right, worker);
    }
    let batched = 100_000.0 / start.elapsed().as_secs_f64();
    println!(
        "{name:<28} {:>6.0} ms {:>11.1} us {:>11.1} us {:>9.0}/s",
        cold.as_secs_f64() * 1e3,
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        batched
    );
}
