//! What is configured: twenty hosts and what comes and goes beside them. Pure data; [`super::manifests`] writes it as files,
//! [`super::change`] changes it at random.

use std::collections::{BTreeMap, BTreeSet};
use testkit::tls::Pair;

/// Hosts that are always there.
pub(super) const HOSTS: usize = 20;
/// The first of them are served over TLS too, each with a certificate of its own.
pub(super) const SECURE: usize = 4;
/// Hosts that come and go, each with its Service.
pub(super) const GUESTS: usize = 4;
/// Listeners that come and go.
pub(super) const DOORS: usize = 2;
/// Services that hosts share.
pub(super) const POOL: usize = 8;
/// Services of hosts that nobody asks.
pub(super) const IDLE: usize = 2;

/// Everything.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// Counts the routes that were written, so that each can be told by its answers.
    pub(super) written: u32,
    pub(super) hosts: Vec<Route>,
    /// `None`: not there.
    pub(super) guests: Vec<Option<Route>>,
    pub(super) doors: Vec<Door>,
    pub(super) certificates: Vec<Pair>,
    pub(super) pool: Vec<Service>,
    /// Whether they have endpoints.
    pub(super) idle: Vec<bool>,
}

/// A listener with a port and a host of its own.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub(super) open: bool,
    pub(super) route: Route,
}

/// A Service that hosts share. It has two endpoints, whose backends speak both versions of HTTP.
#[derive(Clone, Debug)]
pub(super) struct Service {
    /// HTTP/2 by prior knowledge: `appProtocol: kubernetes.io/h2c`.
    pub(super) h2c: bool,
    /// How many of its endpoints are in its slices: one or two.
    pub(super) endpoints: usize,
}

/// Where a host's requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Set by the route as a header of every answer.
    pub(super) mark: u32,
    /// Backends and their weights.
    pub(super) backends: Vec<(Backend, u32)>,
}

/// A Service that a route names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Backend {
    /// One of those that hosts share.
    Pool(usize),
    /// One that stands in the file of its only route, and comes and goes with it.
    Own {
        /// Whose: the hosts first, then the guests.
        owner: usize,
        /// Part of its name, so that it is a new Service each time.
        number: u32,
    },
}

impl Backend {
    /// The name of the Service.
    pub(super) fn service(self) -> String {
        match self {
            Backend::Pool(index) => format!("pool-{index}"),
            Backend::Own { owner, number } => format!("own-{owner}-{number}"),
        }
    }

    /// Who answers behind it.
    pub(super) fn answers(self) -> String {
        match self {
            Backend::Pool(index) => format!("churn/pool-{index}"),
            Backend::Own { owner, .. } => format!("churn/own-{owner}"),
        }
    }
}

/// What asks: one host at one listener of one Envoy is one view, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Host(usize),
    Secure(usize),
    Guest(usize),
    Door(usize),
}

impl View {
    /// All, in the order in which forms and targets are listed.
    pub(super) fn all() -> impl Iterator<Item = View> {
        let hosts = (0..HOSTS).map(View::Host).chain((0..SECURE).map(View::Secure));
        hosts.chain((0..GUESTS).map(View::Guest)).chain((0..DOORS).map(View::Door))
    }

    /// What is asked for.
    pub(super) fn host(self) -> String {
        match self {
            View::Host(index) | View::Secure(index) => format!("host-{index}.churn.example"),
            View::Guest(index) => format!("guest-{index}.churn.example"),
            View::Door(index) => format!("door-{index}.churn.example"),
        }
    }

    /// For people.
    pub(super) fn shown(self) -> String {
        let scheme = if matches!(self, View::Secure(_)) { "https" } else { "http" };
        format!("{scheme}://{}", self.host())
    }
}

/// What a view may answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Nobody listens.
    NoListener,
    /// The proxy answers 404.
    NoHost,
    /// A backend answers, by this route.
    Routed {
        /// The mark of the route.
        mark: u32,
        /// Who may answer, and what the proxy speaks to it.
        backends: BTreeMap<String, &'static str>,
        /// The clusters that may be picked. Those without weight are left out: whether they changed could not be seen.
        clusters: BTreeSet<String>,
    },
}

impl World {
    /// The beginning: each host goes to one shared Service, no guests, closed doors.
    pub(super) fn new() -> Self {
        let mut written = 0;
        let mut route = |index: usize| {
            written += 1;
            Route { mark: written, backends: vec![(Backend::Pool(index % POOL), 1)] }
        };
        let hosts = (0..HOSTS).map(&mut route).collect();
        let doors = (0..DOORS).map(|index| Door { open: false, route: route(index) }).collect();
        let certificates = (0..SECURE).map(|index| Pair::new(&[&View::Secure(index).host()])).collect();
        let pool = (0..POOL).map(|index| Service { h2c: index % 2 == 1, endpoints: 2 }).collect();
        World { written, hosts, guests: vec![None; GUESTS], doors, certificates, pool, idle: vec![true; IDLE] }
    }

    /// A mark that no route had.
    pub(super) fn mark(&mut self) -> u32 {
        self.written += 1;
        self.written
    }

    /// What each view answers when all of this has arrived.
    pub(super) fn forms(&self) -> Vec<Form> {
        View::all().map(|view| self.form(view)).collect()
    }

    fn form(&self, view: View) -> Form {
        match view {
            View::Host(index) | View::Secure(index) => self.routed(&self.hosts[index]),
            View::Guest(index) => self.guests[index].as_ref().map_or(Form::NoHost, |route| self.routed(route)),
            View::Door(index) if self.doors[index].open => self.routed(&self.doors[index].route),
            View::Door(_) => Form::NoListener,
        }
    }

    fn routed(&self, route: &Route) -> Form {
        let answering = route.backends.iter().filter(|(_, weight)| *weight > 0).map(|(backend, _)| *backend);
        let backends = answering.clone().map(|backend| (backend.answers(), self.speaks(backend))).collect();
        Form::Routed { mark: route.mark, backends, clusters: answering.map(|backend| self.cluster(backend)).collect() }
    }

    /// What the proxy speaks to a Service.
    fn speaks(&self, backend: Backend) -> &'static str {
        match backend {
            Backend::Pool(index) if self.pool[index].h2c => "HTTP/2.0",
            Backend::Pool(_) | Backend::Own { .. } => "HTTP/1.1",
        }
    }

    /// A Service with another protocol is another cluster.
    fn cluster(&self, backend: Backend) -> String {
        format!("{} by {}", backend.service(), self.speaks(backend))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_changes_no_form() {
        let mut world = World::new();
        world.hosts[0].backends = vec![(Backend::Pool(0), 0), (Backend::Pool(1), 1)];
        let form = world.forms()[0].clone();
        world.pool[0].h2c = true;
        assert_eq!(world.forms()[0], form, "the Service has no weight here");
        world.pool[1].h2c = false;
        assert_ne!(world.forms()[0], form);
    }
}
