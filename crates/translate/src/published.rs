//! What is published of what the routes want: all of it as it is wanted, unless something may be held.

use crate::edges::Edges;
use crate::hold::{self, HoldOutput, Sources};
use crate::lookup::Rows;
use crate::lower::RouteOutput;
use crate::names::{Backend, HostKey};
use crate::rank::Ranked;
use std::sync::Arc;
use tidegate_model::{DerivedStatus, Held, Hostname, NamespacedName, ObjectKey, RouteKey};

/// Entries, what they use, and what is said about their routes.
pub(crate) struct Published<'s> {
    /// Entries of virtual hosts, with the hostnames of their listeners.
    pub(crate) entries: Rows<'s, (HostKey, Hostname, Arc<Ranked>)>,
    /// The clusters that a Gateway's tables name, as often as they do.
    pub(crate) used: Rows<'s, (NamespacedName, Backend)>,
    /// The status of routes.
    pub(crate) statuses: Rows<'s, (ObjectKey, Arc<DerivedStatus>)>,
    /// The entries that are held, if any may be.
    pub(crate) held: Option<Rows<'s, Arc<Held>>>,
}

impl<'s> Published<'s> {
    /// Everything as the routes want it.
    pub(crate) fn as_wanted(lowered: &Rows<'s, Lowered>) -> Self {
        Published {
            entries: lowered.clone().flat_map(entry),
            used: lowered.clone().flat_map(used),
            statuses: lowered.clone().flat_map(route_status),
            held: None,
        }
    }

    /// With entries that keep their previous form for a while.
    pub(crate) fn with_holds(edges: &Edges, sources: Sources<'s>) -> Self {
        let statuses = sources.lowered.clone().flat_map(route_status);
        let outputs = hold::outputs(edges, sources);
        let held = edges.carry("held entries", outputs.clone().flat_map(held));
        let told = edges.carry("held entries to status", held.clone());
        Published {
            entries: outputs.clone().flat_map(held_entry),
            used: outputs.flat_map(held_used),
            statuses: hold::route_statuses(statuses, told),
            held: Some(held),
        }
    }
}

/// What routes are lowered to.
pub(crate) type Lowered = (RouteKey, RouteOutput);

fn entry((_, output): Lowered) -> Option<(HostKey, Hostname, Arc<Ranked>)> {
    match output {
        RouteOutput::Entry(key, listener_host, ranked) => Some((key, listener_host, ranked)),
        RouteOutput::Uses(..) | RouteOutput::Leads(_) | RouteOutput::Stream(..) | RouteOutput::Status(_) => None,
    }
}

fn used((_, output): Lowered) -> Option<(NamespacedName, Backend)> {
    match output {
        RouteOutput::Uses(gateway, backend) => Some((gateway, backend)),
        RouteOutput::Entry(..) | RouteOutput::Leads(_) | RouteOutput::Stream(..) | RouteOutput::Status(_) => None,
    }
}

fn route_status((route, output): Lowered) -> Option<(ObjectKey, Arc<DerivedStatus>)> {
    match output {
        RouteOutput::Status(status) => Some((route.object(), status)),
        RouteOutput::Entry(..) | RouteOutput::Uses(..) | RouteOutput::Leads(_) | RouteOutput::Stream(..) => None,
    }
}

fn held_entry(output: HoldOutput) -> Option<(HostKey, Hostname, Arc<Ranked>)> {
    match output {
        HoldOutput::Entry(key, listener_host, ranked) => Some((key, listener_host, ranked)),
        HoldOutput::Uses(..) | HoldOutput::Held(_) => None,
    }
}

fn held_used(output: HoldOutput) -> Option<(NamespacedName, Backend)> {
    match output {
        HoldOutput::Uses(gateway, backend) => Some((gateway, backend)),
        HoldOutput::Entry(..) | HoldOutput::Held(_) => None,
    }
}

fn held(output: HoldOutput) -> Option<Arc<Held>> {
    match output {
        HoldOutput::Held(held) => Some(held),
        HoldOutput::Entry(..) | HoldOutput::Uses(..) => None,
    }
}
