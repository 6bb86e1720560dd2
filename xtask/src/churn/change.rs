//! The changes: each is one edit of the world, as an owner makes it, that saves or removes one file.

use super::world::{Backend, DOORS, GUESTS, HOSTS, IDLE, POOL, Route, SECURE, View, World};
use testkit::tls::Pair;
use tidegate_workload::Random;

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A route goes to another shared Service.
    Retarget,
    /// A route is split over two shared Services, with new weights.
    Weights,
    /// A route goes to a new Service that comes with it; the Service that came with its last form goes.
    Replace,
    /// A host with its Service comes, or both go.
    Guest,
    /// A listener comes or goes.
    Listener,
    /// A certificate is renewed, with a new key.
    Certificate,
    /// The protocol of a shared Service changes.
    Protocol,
    /// A shared Service loses one of two endpoints, or gets it back.
    Endpoints,
    /// A Service whose host nobody asks loses its last endpoint, or gets it back.
    Elsewhere,
}

impl Kind {
    pub(super) const ALL: [Kind; 9] = [
        Kind::Retarget,
        Kind::Weights,
        Kind::Replace,
        Kind::Guest,
        Kind::Listener,
        Kind::Certificate,
        Kind::Protocol,
        Kind::Endpoints,
        Kind::Elsewhere,
    ];

    /// For people.
    pub(super) fn shown(self) -> &'static str {
        match self {
            Kind::Retarget => "retarget a route",
            Kind::Weights => "shift weights",
            Kind::Replace => "new Service with its route, old one gone",
            Kind::Guest => "host with its Service comes or goes",
            Kind::Listener => "listener comes or goes",
            Kind::Certificate => "renew a certificate",
            Kind::Protocol => "backend protocol h2c or http",
            Kind::Endpoints => "one endpoint of two goes or comes back",
            Kind::Elsewhere => "elsewhere: no endpoints, or some again",
        }
    }

    /// One of them, the edits of routes more often than others.
    pub(super) fn random(random: &mut Random) -> Kind {
        match random.below(100) {
            0..20 => Kind::Retarget,
            20..38 => Kind::Weights,
            38..56 => Kind::Replace,
            56..72 => Kind::Guest,
            72..78 => Kind::Listener,
            78..84 => Kind::Certificate,
            84..90 => Kind::Protocol,
            90..95 => Kind::Endpoints,
            _ => Kind::Elsewhere,
        }
    }

    /// Makes such a change somewhere in the world. Says where, in words and as the view that was meant, if it is one.
    pub(super) fn make(self, world: &mut World, random: &mut Random) -> String {
        match self {
            Kind::Retarget => {
                let view = routed(random);
                let current = route(world, view).backends[0].0;
                let others: Vec<_> = (0..POOL).map(Backend::Pool).filter(|other| *other != current).collect();
                put(world, view, vec![(*random.pick(&others), 1)])
            }
            Kind::Weights => {
                let view = routed(random);
                let mut all: Vec<_> = (0..POOL).map(Backend::Pool).collect();
                random.shuffle(&mut all);
                // At least a tenth, or nothing: what is rarer would hardly be seen to arrive.
                let weights = [(1, 9), (5, 5), (9, 1), (1, 1), (0, 1)][random.below(5)];
                put(world, view, vec![(all[0], weights.0), (all[1], weights.1)])
            }
            Kind::Replace => {
                let index = random.below(HOSTS);
                let number = world.mark();
                put(world, View::Host(index), vec![(Backend::Own { owner: index, number }, 1)])
            }
            Kind::Guest => {
                let index = random.below(GUESTS);
                if world.guests[index].take().is_some() {
                    return format!("guest-{index} goes");
                }
                let mark = world.mark();
                let backends = vec![(Backend::Own { owner: HOSTS + index, number: mark }, 1)];
                world.guests[index] = Some(Route { mark, backends });
                format!("guest-{index} comes")
            }
            Kind::Listener => {
                let index = random.below(DOORS);
                let door = &mut world.doors[index];
                door.open = !door.open;
                format!("door-{index} {}", if door.open { "opens" } else { "closes" })
            }
            Kind::Certificate => {
                let index = random.below(SECURE);
                world.certificates[index] = Pair::new(&[&View::Secure(index).host()]);
                format!("certificate of host-{index}")
            }
            Kind::Protocol => {
                let index = random.below(POOL);
                let service = &mut world.pool[index];
                service.h2c = !service.h2c;
                format!("pool-{index} speaks {}", if service.h2c { "h2c" } else { "http" })
            }
            Kind::Endpoints => {
                let index = random.below(POOL);
                let service = &mut world.pool[index];
                service.endpoints = 3 - service.endpoints;
                format!("pool-{index} has {} endpoints", service.endpoints)
            }
            Kind::Elsewhere => {
                let index = random.below(IDLE);
                world.idle[index] = !world.idle[index];
                format!("idle-{index} has {} endpoints", u8::from(world.idle[index]))
            }
        }
    }
}

/// A host that is always there, or one behind a listener that comes and goes.
fn routed(random: &mut Random) -> View {
    let index = random.below(HOSTS + DOORS);
    if index < HOSTS { View::Host(index) } else { View::Door(index - HOSTS) }
}

fn route(world: &mut World, view: View) -> &mut Route {
    match view {
        View::Host(index) | View::Secure(index) => &mut world.hosts[index],
        View::Door(index) => &mut world.doors[index].route,
        View::Guest(index) => world.guests[index].as_mut().expect("only guests that are there are changed"),
    }
}

fn put(world: &mut World, view: View, backends: Vec<(Backend, u32)>) -> String {
    let mark = world.mark();
    let named: Vec<_> = backends.iter().map(|(backend, weight)| format!("{} x{weight}", backend.service())).collect();
    *route(world, view) = Route { mark, backends };
    format!("{} to {} ({mark})", view.shown(), named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_changes_the_world_and_only_edits_of_routes_make_marks() {
        let mut random = Random::new(1);
        for kind in Kind::ALL {
            let mut world = World::new();
            let (before, written) = (format!("{world:?}"), world.written);
            let _said = kind.make(&mut world, &mut random);
            assert_ne!(format!("{world:?}"), before, "{kind:?}");
            let marks = matches!(kind, Kind::Retarget | Kind::Weights | Kind::Replace | Kind::Guest);
            assert_eq!(world.written > written, marks, "{kind:?}");
        }
    }

    #[test]
    fn a_seed_makes_the_same_changes_again() {
        let run = || {
            let (mut world, mut random) = (World::new(), Random::new(7));
            (0..200).map(|_| Kind::random(&mut random).make(&mut world, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
    }
}
