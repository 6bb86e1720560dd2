//! Long scripts and long runs, one way at random through each.

use super::PATIENT;
use super::envoy::Verdict;
use super::explore::describe;
use super::run::{Event, Setup, State};
use crate::session::{Limits, Protocol};
use crate::tests::harness::BOTH;
use crate::tests::world::World;
use std::sync::Arc;
use tidegate_model::INVALID_CLUSTER;
use tidegate_xds::Sealed;

const CLUSTERS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", INVALID_CLUSTER];
const TABLES: [&str; 5] = ["http", "one", "two", "three", "four"];
const HOSTS: [&str; 3] = ["x.example", "y.example", "*.example"];
const LISTENERS: [&str; 3] = ["http", "second", "third"];
const SECRETS: [&str; 2] = ["shop/one", "shop/two"];

/// Numbers that look random: SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % sides as u64).unwrap()
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len())]
    }
}

fn edit(world: &mut World, dice: &mut Dice) {
    match dice.roll(12) {
        0..4 => {
            let (table, host) = (dice.pick(&TABLES), dice.pick(&HOSTS));
            let mut clusters = [dice.pick(&CLUSTERS), dice.pick(&CLUSTERS)];
            clusters.sort_unstable();
            let count = if clusters[0] == clusters[1] { 1 } else { 1 + dice.roll(2) };
            world.route_in(table, host, &clusters[..count]);
        }
        4..6 => {
            let (table, host) = (dice.pick(&TABLES), dice.pick(&HOSTS));
            world.tables.get_mut(table).map(|hosts| hosts.remove(host));
        }
        6 => {
            let addresses: Vec<String> = (0..dice.roll(3)).map(|number| format!("10.0.0.{}", number + 1)).collect();
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            world.endpoints(dice.pick(&CLUSTERS[..8]), &addresses);
        }
        7 | 8 => {
            let name = dice.pick(&CLUSTERS[..8]).to_owned();
            if !world.h2.remove(&name) {
                world.h2.insert(name);
            }
        }
        9 => {
            let (listener, table) = (dice.pick(&LISTENERS), dice.pick(&TABLES));
            world.tables.entry(table.to_owned()).or_default();
            world.listeners.insert(listener.to_owned(), table.to_owned());
        }
        10 => drop(world.listeners.remove(dice.pick(&LISTENERS[1..]))),
        _ => {
            let name = dice.pick(&SECRETS).to_owned();
            match dice.roll(4) {
                0 => drop(world.secrets.remove(&name)),
                content => drop(world.secrets.insert(name, format!("digest {content}"))),
            }
        }
    }
}

fn script(dice: &mut Dice, length: usize) -> Vec<Arc<Sealed>> {
    let mut world = World::new();
    let mut seals = Vec::new();
    for _ in 0..length {
        for _ in 0..=dice.roll(3) {
            edit(&mut world, dice);
        }
        seals.push(world.seal());
    }
    seals
}

/// One of what may happen. Clients differ in how fast they are, and how fast things change.
fn choose(dice: &mut Dice, events: &[Event], pace: usize) -> Event {
    loop {
        let event = dice.pick(events);
        let odds = match event {
            Event::Process(_, Verdict::Good) | Event::Request => 1,
            Event::Process(..) => 10,
            Event::Seal => pace,
            Event::Due | Event::Halt => 2 * pace,
            Event::Drained => 4,
            Event::Reconnect => 30,
        };
        if dice.roll(odds) == 0 || events.len() == 1 {
            return event;
        }
    }
}

/// What may go wrong in a run.
#[derive(Clone, Copy)]
struct Trouble {
    rejections: u8,
    reconnects: u8,
}

fn play(protocol: Protocol, limits: Limits, trouble: Trouble, seed: u64) {
    let mut dice = Dice(seed);
    let seals = script(&mut dice, 20);
    let mut setup = Setup::new(protocol, limits, seals);
    (setup.rejections, setup.reconnects, setup.halts) = (trouble.rejections, trouble.reconnects, true);
    setup.max_tries = 5;
    setup.breaks_rules = false;
    let pace = [1, 4, 16][dice.roll(3)];
    let start = State::cold(&setup);
    let mut state = start.clone();
    let mut events = Vec::new();
    let result = loop {
        let possible = state.events(&setup);
        if possible.is_empty() || possible == [Event::Reconnect] {
            break state.finish(&setup);
        }
        events.push(choose(&mut dice, &possible, pace));
        if let Err(reason) = state.step(&setup, events[events.len() - 1]) {
            break Err(reason);
        }
        if events.len() == 5_000 {
            break Err("never comes to rest".to_owned());
        }
    };
    if let Err(reason) = result {
        let text = describe(&setup, &start, &events);
        panic!("seed {seed} {protocol} pin {} grace {}: {reason}\n{text}", limits.pin_ms, limits.grace_ms);
    }
}

/// Plays `TIDEGATE_RUNS` runs, 300 if it is not set, from the seed `TIDEGATE_SEED` on.
fn play_all(protocols: &[Protocol], limits: &[Limits], trouble: Trouble) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("TIDEGATE_SEED").unwrap_or(1);
    for seed in first..first + number("TIDEGATE_RUNS").unwrap_or(300) {
        let which = usize::try_from(seed).unwrap();
        play(protocols[which % protocols.len()], limits[which / 2 % limits.len()], trouble, seed);
    }
}

const QUICK: Limits = Limits { grace_ms: 0, ..PATIENT };

#[test]
fn a_client_of_any_pace_is_never_served_wrong() {
    let hasty = Limits { grace_ms: 0, ..Limits::default() };
    play_all(&BOTH, &[PATIENT, QUICK, Limits::default(), hasty], Trouble { rejections: 0, reconnects: 0 });
}

#[test]
fn a_client_that_reconnects_is_served_right() {
    play_all(&[Protocol::Delta], &[PATIENT, QUICK], Trouble { rejections: 0, reconnects: 4 });
    play_all(&BOTH, &[Limits::default()], Trouble { rejections: 0, reconnects: 4 });
}

#[test]
fn a_client_that_rejects_now_and_then_is_served_right() {
    play_all(&BOTH, &[PATIENT, Limits::default()], Trouble { rejections: 2, reconnects: 0 });
}
