//! The two dataflows.

use differential_dataflow::VecCollection;
use differential_dataflow::input::InputSession;
use differential_dataflow::operators::ThresholdTotal;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{Epoch, Name, NamespacedName, SliceFact};
use tidegate_xds::{Resource, encode, ir};
use timely::dataflow::operators::probe::Handle;
use timely::worker::Worker;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Plan {
    /// An assignment for each client and Service.
    PerClient,
    /// Assignments that do not know clients.
    Shared,
}

/// A client, under its Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct ClientRow {
    pub(crate) id: u32,
    pub(crate) zone: Name,
}

/// A Service that a Gateway references, and whether it prefers zones.
type Member = (NamespacedName, bool);

/// The inputs, of both.
pub(crate) struct Inputs {
    pub(crate) clients: InputSession<Epoch, (NamespacedName, ClientRow), isize>,
    pub(crate) members: InputSession<Epoch, (NamespacedName, Member), isize>,
    pub(crate) slices: InputSession<Epoch, Arc<SliceFact>, isize>,
}

impl Inputs {
    pub(crate) fn advance_to(&mut self, epoch: Epoch) {
        self.clients.advance_to(epoch);
        self.members.advance_to(epoch);
        self.slices.advance_to(epoch);
        self.clients.flush();
        self.members.flush();
        self.slices.flush();
    }
}

type Rows<'s, D> = VecCollection<'s, Epoch, D, isize>;

pub(crate) fn build(worker: &mut Worker, plan: Plan) -> (Inputs, Handle<Epoch>) {
    let mut inputs = Inputs { clients: InputSession::new(), members: InputSession::new(), slices: InputSession::new() };
    let probe = Handle::new();
    worker.dataflow::<Epoch, _, _>(|scope| {
        let clients = inputs.clients.to_collection(scope);
        // Several routes of a Gateway may reference one Service.
        let members = inputs.members.to_collection(scope).distinct_total();
        let slices = inputs.slices.to_collection(scope);
        let slices = slices.flat_map(|slice| slice.service.clone().map(|service| (service, slice)));
        match plan {
            Plan::PerClient => drop(per_client(clients, members, slices).probe_with(&probe)),
            Plan::Shared => {
                clients.probe_with(&probe);
                shared(members, slices).probe_with(&probe);
            }
        }
    });
    (inputs, probe)
}

/// An assignment for each client and each Service of its Gateway.
fn per_client<'s>(
    clients: Rows<'s, (NamespacedName, ClientRow)>,
    members: Rows<'s, (NamespacedName, Member)>,
    slices: Rows<'s, (NamespacedName, Arc<SliceFact>)>,
) -> Rows<'s, ((u32, NamespacedName), Resource)> {
    let wanted = clients.arrange_by_key_named("clients by gateway").join_core(
        members.arrange_by_key_named("members by gateway"),
        |_gateway, client, (service, prefers)| {
            let zone = prefers.then(|| client.zone.clone());
            Some((service.clone(), (client.id, zone)))
        },
    );
    // A Service without endpoints has an assignment too.
    let empty = wanted.clone().map(|(service, (client, zone))| ((client, service), (zone, None)));
    let placed = wanted
        .arrange_by_key_named("clients by service")
        .join_core(slices.arrange_by_key_named("slices by service"), |service, (client, zone), slice| {
            Some(((*client, service.clone()), (zone.clone(), Some(slice.clone()))))
        });
    empty.concat(placed).reduce_named("assignment by client and service", |(_, service), input, output| {
        let zone = input[0].0.0.as_ref();
        let slices: Vec<&SliceFact> = input.iter().filter_map(|((_, slice), _)| slice.as_deref()).collect();
        output.push((assignment(service, &slices, zone), 1));
    })
}

/// What a Service's assignments are made of. The wish sorts first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum ServiceInput {
    Wanted(bool),
    Slice(Arc<SliceFact>),
}

/// For each Service that is referenced an assignment for everybody, and where it prefers zones one for each zone.
fn shared<'s>(
    members: Rows<'s, (NamespacedName, Member)>,
    slices: Rows<'s, (NamespacedName, Arc<SliceFact>)>,
) -> Rows<'s, (NamespacedName, (Option<Name>, Resource))> {
    let wanted = members.map(|(_gateway, member)| member).distinct_total();
    let wanted = wanted.map(|(service, prefers)| (service, ServiceInput::Wanted(prefers)));
    let slices = slices.map(|(service, slice)| (service, ServiceInput::Slice(slice)));
    wanted.concat(slices).reduce_named("assignments by service", |service, input, output| {
        let ServiceInput::Wanted(prefers) = input[0].0 else { return };
        let slices: Vec<&SliceFact> = input[1..]
            .iter()
            .filter_map(|(input, _)| match input {
                ServiceInput::Wanted(_) => None,
                ServiceInput::Slice(slice) => Some(&**slice),
            })
            .collect();
        output.push(((None, assignment(service, &slices, None)), 1));
        if *prefers {
            let zones: BTreeSet<&Name> = slices
                .iter()
                .flat_map(|slice| &slice.endpoints)
                .filter_map(|endpoint| endpoint.zone.as_ref())
                .collect();
            for zone in zones {
                output.push(((Some(zone.clone()), assignment(service, &slices, Some(zone))), 1));
            }
        }
    })
}

/// The endpoints of a Service by zone; those of the preferred zone first.
fn assignment(service: &NamespacedName, slices: &[&SliceFact], preferred: Option<&Name>) -> Resource {
    let mut zones: BTreeMap<Name, BTreeSet<ir::Endpoint>> = BTreeMap::new();
    for slice in slices {
        for endpoint in &slice.endpoints {
            let member = ir::Endpoint { address: endpoint.address.clone(), port: slice.ports[0].port, draining: false };
            zones.entry(endpoint.zone.clone().unwrap_or_default()).or_default().insert(member);
        }
    }
    let there = preferred.is_some_and(|zone| zones.contains_key(zone));
    let localities = zones.into_iter().map(|(zone, endpoints)| ir::Locality {
        region: Name::default(),
        sub_zone: Name::default(),
        priority: u32::from(there && preferred != Some(&zone)),
        zone,
        endpoints: endpoints.into_iter().collect(),
    });
    let cluster = Name::from(service.as_str());
    encode::endpoints(&ir::Assignment { cluster, localities: localities.collect() })
}
