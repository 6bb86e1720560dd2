//! The hold as a stage of the dataflow: its inputs on one stream, one operator with the state, its outputs apart.
//!
//! The wishes for one entry all go to one worker; what every entry may depend on goes to all of them.

use super::{HoldInput, HoldOutput, State};
use crate::backends::Found;
use crate::edges::Edges;
use crate::lookup::Rows;
use crate::lower::RouteOutput;
use crate::policies::Holding;
use crate::references::GrantKey;
use crate::{backends, endpoints};
use differential_dataflow::AsCollection;
use differential_dataflow::hashable::Hashable;
use differential_dataflow::input::InputSession;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_model::{Epoch, GrantFact, Millis, NamespacedName, RouteFact, RouteKey, ServiceFact, SliceFact};
use timely::dataflow::Scope;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::Operator;

/// An input and whom it is for: a worker, or any number that says the same for the same entry.
type Sent = (u64, HoldInput);

/// The time as an input: every worker tells its own operator.
pub(crate) struct Clock {
    bound: Millis,
    worker: usize,
    workers: usize,
    input: InputSession<Epoch, Sent, isize>,
}

/// What a [`Clock`] says, and to whom.
pub(crate) struct Ticks<'s> {
    times: Rows<'s, Sent>,
    bound: Millis,
    workers: usize,
}

impl Clock {
    /// The clock of one of the `workers`; `bound` is that of routes without their own.
    pub(crate) fn new(bound: Millis, worker: usize, workers: usize) -> Self {
        Clock { bound, worker, workers, input: InputSession::new() }
    }

    pub(crate) fn ticks<'s>(&mut self, scope: Scope<'s, Epoch>) -> Ticks<'s> {
        Ticks { times: self.input.to_collection(scope), bound: self.bound, workers: self.workers }
    }

    /// The batch of the current epoch was taken then.
    pub(crate) fn tell(&mut self, millis: Millis) {
        self.input.update((self.worker as u64, HoldInput::Clock(millis)), 1);
    }

    pub(crate) fn advance_to(&mut self, epoch: Epoch) {
        self.input.advance_to(epoch);
        self.input.flush();
    }
}

/// What a hold is made from.
pub(crate) struct Sources<'s> {
    pub(crate) ticks: Ticks<'s>,
    pub(crate) lowered: Rows<'s, (RouteKey, RouteOutput)>,
    pub(crate) routes: Rows<'s, Arc<RouteFact>>,
    pub(crate) grants: Rows<'s, GrantFact>,
    pub(crate) services: Rows<'s, Arc<ServiceFact>>,
    pub(crate) holdings: Rows<'s, (NamespacedName, Arc<Holding>)>,
    pub(crate) slices: Rows<'s, Arc<SliceFact>>,
}

/// What is published of what the routes want.
pub(crate) fn outputs<'s>(edges: &Edges, sources: Sources<'s>) -> Rows<'s, HoldOutput> {
    let Ticks { times, bound, workers } = sources.ticks;
    let to_all = move |input: HoldInput| (0..workers as u64).map(move |worker| (worker, input.clone()));
    let backends = usable(edges, sources.services, sources.holdings, sources.slices);
    let backends = edges.carry("backends to holds", backends);
    let backends = backends.flat_map(move |(_, (found, usable))| to_all(HoldInput::Backend(found, usable)));
    let grants = edges.carry("grants to holds", sources.grants);
    let grants = grants.flat_map(move |grant| to_all(HoldInput::Grant(GrantKey::of(&grant), grant.to_name)));
    let bounds = edges.carry("bounds to holds", sources.routes);
    let bounds = bounds.flat_map(move |route| {
        let bound = route.retarget_hold.map(|bound| to_all(HoldInput::Bound(route.key.clone(), bound)));
        bound.into_iter().flatten()
    });
    let times = edges.carry("time to holds", times);
    let inputs = sources.lowered.flat_map(desired).concatenate([backends, grants, bounds, times]);
    hold(inputs, bound)
}

fn desired((route, output): (RouteKey, RouteOutput)) -> Option<Sent> {
    match output {
        RouteOutput::Entry(key, listener_host, ranked) => {
            let shard = (&key, &ranked.entry.id).hashed();
            Some((shard, HoldInput::Desired(route, key, listener_host, ranked)))
        }
        // A stream stands in a listener, which is published as it is wanted.
        RouteOutput::Uses(..) | RouteOutput::Leads(_) | RouteOutput::Stream(..) | RouteOutput::Status(_) => None,
    }
}

/// What the usability of a Service's ports is made of. The Service sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum ServiceInput {
    Service(Arc<ServiceFact>),
    Holding(Arc<Holding>),
    Slice(Arc<SliceFact>),
}

/// Every backend that exists, and whether it has a member.
fn usable<'s>(
    edges: &Edges,
    services: Rows<'s, Arc<ServiceFact>>,
    holdings: Rows<'s, (NamespacedName, Arc<Holding>)>,
    slices: Rows<'s, Arc<SliceFact>>,
) -> Rows<'s, (NamespacedName, (Found, bool))> {
    let services = services.map(|service| (service.name.clone(), ServiceInput::Service(service)));
    let holdings = edges.carry("policies to holds", holdings);
    let holdings = holdings.map(|(service, holding)| (service, ServiceInput::Holding(holding)));
    let slices = edges.carry("slices to holds", slices);
    let slices = slices.flat_map(|slice| slice.service.clone().map(|service| (service, ServiceInput::Slice(slice))));
    services.concatenate([holdings, slices]).reduce_named("usable backends by service", |_service, input, output| {
        let (mut service, mut holding, mut slices) = (None, None, Vec::new());
        for (input, _) in input {
            match input {
                ServiceInput::Service(fact) => service = Some(fact),
                ServiceInput::Holding(found) => holding = Some(&**found),
                ServiceInput::Slice(slice) => slices.push(&**slice),
            }
        }
        let backends = service.map(|service| backends::of_service(service, holding)).unwrap_or_default();
        output.extend(backends.into_iter().map(|found| {
            let usable = endpoints::is_usable(&found.backend, &slices);
            ((found, usable), 1)
        }));
    })
}

/// An epoch whose updates are not all there yet, and the right to answer it.
type Open = (Capability<Epoch>, Vec<(HoldInput, isize)>);

/// The operator: keeps the updates of each epoch until all are there, then makes one step.
fn hold<'s>(inputs: Rows<'s, Sent>, bound: Millis) -> Rows<'s, HoldOutput> {
    let by_entry = Exchange::new(|((shard, _), _, _): &(Sent, Epoch, isize)| *shard);
    let outputs = inputs.inner.unary_frontier(by_entry, "hold retargets", move |_capability, _info| {
        let mut state = State::new(bound);
        let mut open: BTreeMap<Epoch, Open> = BTreeMap::new();
        move |(input, frontier), output| {
            let port = output.output_index();
            input.for_each(|capability, data| {
                for ((_, input), epoch, diff) in data.drain(..) {
                    let of_epoch = open.entry(epoch);
                    let (_, updates) = of_epoch.or_insert_with(|| (capability.delayed(&epoch, port), Vec::new()));
                    updates.push((input, diff));
                }
            });
            while let Some(first) = open.first_entry().filter(|first| !frontier.less_equal(first.key())) {
                let (epoch, (capability, updates)) = first.remove_entry();
                let mut session = output.session(&capability);
                for (row, diff) in state.step(updates) {
                    session.give((row, epoch, diff));
                }
            }
        }
    });
    outputs.as_collection()
}
