//! The joins from facts to resources and status, and the plain reference they must equal.
//!
//! *Comes in*: [`tidegate_model::Fact`]s at epochs. *Goes out*: [`tidegate_xds::Row`]s, complete when the probe has
//! passed the epoch. *Must not know*: Kubernetes clients, tokio, clocks, files; there is no `Result` here: whatever is
//! wrong with an object is a row about that object. *Start at* [`build`], the table of contents of the whole project.
//!
//! Each module is one stage: pure functions that decide, and the joins that bring together what they decide on.
//! [`reference`](mod@reference) calls the same functions in plain loops over all facts; equality of the two, at every
//! epoch and in any order of events, is what the joins are tested for.

use differential_dataflow::input::InputSession;
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_model::{
    AddressRange, BackendRef, BackendTlsFact, BundleFact, ClassFact, DerivedStatus, Epoch, Fact, Finding, GatewayFact,
    GrantFact, Kind, ListenerKey, ListenerSetFact, Millis, Name, NamespaceFact, NamespacedName, NodeFact, ObjectKey,
    ReportFact, RouteFact, RouteKey, RouteKind, SecretFact, ServiceFact, SliceFact,
};
use tidegate_xds::Row;
use timely::dataflow::Scope;
use timely::dataflow::operators::probe::Handle as ProbeHandle;
use timely::worker::Worker;

mod addresses;
mod assemble;
mod attach;
mod authorities;
mod backends;
mod certificates;
mod edges;
mod endpoints;
mod gateways;
mod hold;
mod identity;
mod labels;
mod lookup;
mod lower;
mod names;
mod origin;
mod policies;
mod published;
mod rank;
pub mod reference;
mod references;
mod reports;
mod rivals;
mod sockets;
mod speech;
mod status;
mod streams;
mod variants;

pub use addresses::Bind;
use addresses::Terms;
use attach::Attachment;
use backends::Resolution;
use edges::Edges;
pub use edges::{EDGES, HOLD_EDGES};
use hold::{Clock, Sources};
use lookup::Rows;
use lower::RouteInput;
use policies::Judged;
use published::Published;
use references::Ask;
use rivals::Loss;
use status::{OtherInput, ParentInput};

/// What translation is told from outside.
#[derive(Clone, Debug)]
pub struct Config {
    /// `spec.controllerName` of the classes that are ours.
    pub controller: Name,
    /// What listeners bind to.
    pub bind: Bind,
    /// Addresses that Gateways may have. With none of them nobody says so, and what a Gateway asks for stays undecided.
    pub usable: Vec<AddressRange>,
    /// How long an entry may keep its previous form when its target changes to one without a usable endpoint, in
    /// milliseconds, unless its route says otherwise; none holds nothing, whatever routes say, and costs nothing.
    pub hold: Option<Millis>,
    /// The one of [`EDGES`] or [`HOLD_EDGES`] that is cut, so that a test can show that it would notice; none in earnest.
    pub cut: Option<Name>,
}

impl Config {
    /// The whole dataflow, for the classes of this controller.
    #[must_use]
    pub fn new(controller: Name) -> Self {
        Config { controller, bind: Bind::default(), usable: Vec::new(), hold: None, cut: None }
    }

    /// By what is decided on addresses.
    fn terms(&self) -> Terms {
        Terms { bind: self.bind, usable: self.usable.clone() }
    }
}

/// Where one worker's output rows go: batches of changes, each with its epoch.
pub type Output = std::sync::mpsc::Sender<Vec<(Row, Epoch, isize)>>;

/// The inputs of the dataflow on one worker: few, since each costs a little at every epoch.
pub struct Inputs {
    classes: InputSession<Epoch, ClassFact, isize>,
    gateways: InputSession<Epoch, Arc<GatewayFact>, isize>,
    sets: InputSession<Epoch, Arc<ListenerSetFact>, isize>,
    routes: InputSession<Epoch, Arc<RouteFact>, isize>,
    grants: InputSession<Epoch, GrantFact, isize>,
    namespaces: InputSession<Epoch, NamespaceFact, isize>,
    nodes: InputSession<Epoch, Arc<NodeFact>, isize>,
    services: InputSession<Epoch, Arc<ServiceFact>, isize>,
    slices: InputSession<Epoch, Arc<SliceFact>, isize>,
    secrets: InputSession<Epoch, Arc<SecretFact>, isize>,
    bundles: InputSession<Epoch, Arc<BundleFact>, isize>,
    policies: InputSession<Epoch, Arc<BackendTlsFact>, isize>,
    reports: InputSession<Epoch, ReportFact, isize>,
    findings: InputSession<Epoch, (ObjectKey, Finding), isize>,
    /// The time, where something depends on it.
    clock: Option<Clock>,
}

/// What the inputs hold, within the dataflow.
struct Given<'s> {
    classes: Rows<'s, ClassFact>,
    gateways: Rows<'s, Arc<GatewayFact>>,
    sets: Rows<'s, Arc<ListenerSetFact>>,
    routes: Rows<'s, Arc<RouteFact>>,
    grants: Rows<'s, GrantFact>,
    namespaces: Rows<'s, NamespaceFact>,
    nodes: Rows<'s, Arc<NodeFact>>,
    services: Rows<'s, Arc<ServiceFact>>,
    slices: Rows<'s, Arc<SliceFact>>,
    secrets: Rows<'s, Arc<SecretFact>>,
    bundles: Rows<'s, Arc<BundleFact>>,
    policies: Rows<'s, Arc<BackendTlsFact>>,
    reports: Rows<'s, ReportFact>,
    findings: Rows<'s, FindingRow>,
}

impl Inputs {
    fn given<'s>(&mut self, scope: Scope<'s, Epoch>) -> Given<'s> {
        Given {
            classes: self.classes.to_collection(scope),
            gateways: self.gateways.to_collection(scope),
            sets: self.sets.to_collection(scope),
            routes: self.routes.to_collection(scope),
            grants: self.grants.to_collection(scope),
            namespaces: self.namespaces.to_collection(scope),
            nodes: self.nodes.to_collection(scope),
            services: self.services.to_collection(scope),
            slices: self.slices.to_collection(scope),
            secrets: self.secrets.to_collection(scope),
            bundles: self.bundles.to_collection(scope),
            policies: self.policies.to_collection(scope),
            reports: self.reports.to_collection(scope),
            findings: self.findings.to_collection(scope),
        }
    }

    fn new(clock: Option<Clock>) -> Self {
        Inputs {
            classes: InputSession::new(),
            gateways: InputSession::new(),
            sets: InputSession::new(),
            routes: InputSession::new(),
            grants: InputSession::new(),
            namespaces: InputSession::new(),
            nodes: InputSession::new(),
            services: InputSession::new(),
            slices: InputSession::new(),
            secrets: InputSession::new(),
            bundles: InputSession::new(),
            policies: InputSession::new(),
            reports: InputSession::new(),
            findings: InputSession::new(),
            clock,
        }
    }

    /// Adds (`diff` 1) or retracts (`diff` -1) a fact at the current epoch.
    pub fn update(&mut self, fact: Fact, diff: isize) {
        match fact {
            Fact::Class(class) => self.classes.update(class, diff),
            Fact::Gateway(gateway) => self.gateways.update(gateway, diff),
            Fact::ListenerSet(set) => self.sets.update(set, diff),
            Fact::Route(route) => self.routes.update(route, diff),
            Fact::Grant(grant) => self.grants.update(grant, diff),
            Fact::Namespace(namespace) => self.namespaces.update(namespace, diff),
            Fact::Node(node) => self.nodes.update(node, diff),
            Fact::Service(service) => self.services.update(service, diff),
            Fact::Slice(slice) => self.slices.update(slice, diff),
            Fact::Secret(secret) => self.secrets.update(secret, diff),
            Fact::Bundle(bundle) => self.bundles.update(bundle, diff),
            Fact::BackendTls(policy) => self.policies.update(policy, diff),
            Fact::Report(entry) => self.reports.update(entry, diff),
            Fact::Finding(object, finding) => self.findings.update((object, finding), diff),
        }
    }

    /// Says when the batch of the current epoch was taken. Every worker must, at every epoch that is derived.
    pub fn tell(&mut self, millis: Millis) {
        if let Some(clock) = &mut self.clock {
            clock.tell(millis);
        }
    }

    /// Moves every input on to `epoch` and flushes it: an input left behind would hold the frontier for all.
    pub fn advance_to(&mut self, epoch: Epoch) {
        macro_rules! advance {
            ($($input:ident)*) => { $( self.$input.advance_to(epoch); self.$input.flush(); )* };
        }
        advance!(classes gateways sets routes grants namespaces nodes services slices);
        advance!(secrets bundles policies reports findings);
        self.clock.iter_mut().for_each(|clock| clock.advance_to(epoch));
    }
}

/// Builds the dataflow on `worker`. Rows of an epoch are complete when the probe is no longer less than the next one.
pub fn build(worker: &mut Worker, config: &Config, output: Output) -> (Inputs, ProbeHandle<Epoch>) {
    let clock = config.hold.map(|bound| Clock::new(bound, worker.index(), worker.peers()));
    let holds = clock.is_some();
    let mut inputs = Inputs::new(clock);
    let probe = ProbeHandle::new();
    let (controller, terms) = (config.controller.clone(), config.terms());
    let edges = Edges { cut: config.cut.clone() };
    worker.dataflow_named::<Epoch, _, _>("tidegate", |scope| {
        let given = inputs.given(scope);
        let Given { classes, gateways, sets, routes, grants, namespaces, services, slices, .. } = given;
        let Given { nodes, secrets, bundles, policies, reports, findings, .. } = given;
        let ticks = inputs.clock.as_mut().map(|clock| clock.ticks(scope));

        // What the references of Gateways, ListenerSets and routes lead to.
        let candidates = gateways::candidates(&edges, controller.clone(), classes.clone(), gateways);
        let asks = asks(&edges, candidates.clone(), sets.clone(), routes.clone());
        let asks = references::permitted(&edges, asks, grants.clone());
        let certificates =
            certificates::resolutions(&edges, asks.clone().flat_map(references::to_certificate), secrets);
        let to_authorities = asks.clone().flat_map(references::to_authority);
        let authorities = authorities::resolutions(&edges, to_authorities, bundles.clone());
        let Judged { holdings, demands, standings } = policies::judged(&edges, policies, bundles);
        let asks = asks.flat_map(references::to_backend);
        let resolutions = backends::resolutions(&edges, asks, services.clone(), holdings.clone());

        // In which namespaces what shall attach to something stands.
        let asks = edges.carry("routes to attachment", routes.clone().flat_map(|route| attach::asks(&route)));
        let asks = asks.map(|ask| (Name::from(ask.route.name.namespace()), ask));
        let sets = sets.map(|set| (Name::from(set.name.namespace()), set));
        let wanted = edges
            .carry("namespaces of routes", asks.clone().map(|(namespace, _)| namespace))
            .concat(edges.carry("namespaces of ListenerSets", sets.clone().map(|(namespace, _)| namespace)));
        let labels = labels::labels(&edges, wanted, namespaces);

        // Gateways of our classes with their ListenerSets, and the verdict on their listeners.
        let sets = labels::of_sets(sets, labels.clone());
        let verdicts = gateways::judge(&edges, terms, candidates, sets, certificates, authorities);
        let ours = edges.carry("verdicts to Gateways of ours", verdicts.clone()).flat_map(gateways::ours);

        // Which listeners take which route, for which hosts.
        let doors = edges.carry("listeners to attachment", ours.clone().flat_map(|state| gateways::doors(&state)));
        let attachments = attach::attachments(asks, labels, doors);

        // Routes of other kinds may have been there before.
        let losses = rivals::losses(&edges, attachments.clone());

        // Routes to entries, uses and status.
        let (attached, lost) = (attachments.clone(), losses.clone());
        let route_inputs = route_inputs(&edges, routes.clone(), attached, lost, resolutions, findings.clone());
        let lowered = lower::lowered(route_inputs, holds);
        let leads = lowered.clone().flat_map(status::policies::lead);

        // Sockets, and the clusters that their streams use.
        let streams = lowered.clone().flat_map(streams::wanted);
        let frames = ours.clone().flat_map(|state| sockets::frames(&state));
        let sockets = sockets::sockets(&edges, frames, streams);
        let streamed = edges.carry("clusters of sockets", sockets.clone().flat_map(sockets::used));

        // What of it is published: all of it as wanted, unless something may be held.
        let published = match ticks {
            None => Published::as_wanted(&lowered),
            Some(ticks) => {
                let (services, slices) = (services.clone(), slices.clone());
                Published::with_holds(&edges, Sources { ticks, lowered, routes, grants, services, holdings, slices })
            }
        };

        // Virtual hosts, and the clusters that somebody references.
        let domains = ours.clone().flat_map(|state| assemble::listener_domains(&state));
        let hosts = assemble::virtual_hosts(&edges, domains, published.entries);
        let members = edges.once("members, each once", published.used.concat(streamed));
        let wanted = edges.once("wanted clusters, each once", members.clone().map(|(_, backend)| backend));
        let routed = endpoints::Sources { wanted, demands, services, slices, nodes, reports }.rows(&edges);
        let identities = identity::rows(&edges, ours.clone(), members.clone());

        // Status, from the same rows.
        let others = others(&edges, controller, classes, status::policies::inputs(&edges, standings, leads));
        let statuses = statuses(&edges, verdicts, attachments, losses, others, findings)
            .concat(edges.carry("status of routes", published.statuses));

        let rows = ours
            .flat_map(|state| gateways::rows(&state))
            .concat(sockets.flat_map(sockets::listener_row))
            .concat(hosts)
            .concat(members.map(|(gateway, backend)| Row::Member(gateway, backend.cluster.name())))
            .concat(routed)
            .concat(identities)
            .concat(statuses.map(|(object, status)| Row::Status(object, status)));
        let rows = published.held.into_iter().fold(rows, |rows, held| rows.concat(held.map(Row::Held)));
        deliver(rows, output, &probe);
    });
    (inputs, probe)
}

/// Sends what changes, epoch by epoch.
fn deliver(rows: Rows<'_, Row>, output: Output, probe: &ProbeHandle<Epoch>) {
    rows.inspect_batch(move |_epoch, rows| {
        // The receiver is gone only when the engine is being torn down.
        let _ = output.send(rows.to_vec());
    })
    .probe_with(probe);
}

/// What the status of classes of ours and of policies is made of.
fn others<'s>(
    edges: &Edges,
    controller: Name,
    classes: Rows<'s, ClassFact>,
    policies: Rows<'s, (ObjectKey, OtherInput)>,
) -> Rows<'s, (ObjectKey, OtherInput)> {
    let classes = classes.filter(move |class| class.controller == controller).map(other_class);
    edges.carry("classes to status", classes).concat(policies)
}

/// The status of everything but routes.
fn statuses<'s>(
    edges: &Edges,
    verdicts: Rows<'s, (NamespacedName, gateways::Verdict)>,
    attachments: Rows<'s, (RouteKey, Attachment)>,
    losses: Rows<'s, (RouteKey, Loss)>,
    others: Rows<'s, (ObjectKey, OtherInput)>,
    findings: Rows<'s, FindingRow>,
) -> Rows<'s, (ObjectKey, Arc<DerivedStatus>)> {
    let verdicts = verdicts.flat_map(|(gateway, verdict)| status::verdicts(&gateway, &verdict));
    let lost = edges.carry("lost listeners to status", losses.flat_map(rivals::not_attached));
    let attached = attachments.flat_map(attached);
    let parent_inputs = edges
        .carry("verdicts to status", verdicts)
        .concat(edges.carry("attachments to status", attached))
        .concat(lost.negate())
        .concat(edges.carry("findings to Gateways and ListenerSets", findings.clone().flat_map(parent_finding)));
    let other_inputs = others.concat(edges.carry("findings to others", findings.flat_map(other_finding)));
    status::parent_statuses(parent_inputs).concat(status::other_statuses(other_inputs))
}

/// What Gateways that may be ours, ListenerSets and routes refer to.
fn asks<'s>(
    edges: &Edges,
    candidates: Rows<'s, (NamespacedName, gateways::Candidate)>,
    sets: Rows<'s, Arc<ListenerSetFact>>,
    routes: Rows<'s, Arc<RouteFact>>,
) -> Rows<'s, Ask> {
    let to_authorities = candidates.clone().flat_map(|candidate| authorities::asks(&candidate)).map(Ask::Authority);
    let to_backends = routes.flat_map(|route| backends::asks(&route)).map(Ask::Backend);
    certificate_asks(edges, candidates, sets).map(Ask::Certificate).concat(to_authorities).concat(to_backends)
}

/// The certificate references of Gateways that may be ours and of ListenerSets.
fn certificate_asks<'s>(
    edges: &Edges,
    candidates: Rows<'s, (NamespacedName, gateways::Candidate)>,
    sets: Rows<'s, Arc<ListenerSetFact>>,
) -> Rows<'s, certificates::CertificateAsk> {
    let of_gateways = candidates.flat_map(|(_, candidate)| certificates::asks_of_gateway(&candidate.fact));
    let of_sets = sets.flat_map(|set| certificates::asks_of_set(&set));
    edges.carry("certificates of Gateways", of_gateways).concat(edges.carry("certificates of ListenerSets", of_sets))
}

/// Everything that a route is lowered from.
fn route_inputs<'s>(
    edges: &Edges,
    routes: Rows<'s, Arc<RouteFact>>,
    attachments: Rows<'s, (RouteKey, Attachment)>,
    losses: Rows<'s, (RouteKey, Loss)>,
    resolutions: Rows<'s, (RouteKey, (BackendRef, Resolution))>,
    findings: Rows<'s, FindingRow>,
) -> Rows<'s, (RouteKey, RouteInput)> {
    edges
        .carry("routes to lowering", routes.map(|route| (route.key.clone(), RouteInput::Fact(route))))
        .concat(edges.carry("attachments to lowering", attachments.map(lower::attached)))
        .concat(edges.carry("lost listeners to lowering", losses.map(lower::lost)))
        .concat(edges.carry("resolutions to lowering", resolutions.map(lower::resolved)))
        .concat(edges.carry("findings to routes", findings.flat_map(route_finding)))
}

/// Listeners that the route is attached to, each name once: of a Gateway that is not accepted several may have one name.
/// Several references to one parent must differ in section or port, so no listener is reached twice.
fn attached((_route, attachment): (RouteKey, Attachment)) -> Vec<(ObjectKey, ParentInput)> {
    match attachment.outcome {
        attach::Outcome::Refused(..) => Vec::new(),
        attach::Outcome::Bound(bindings) => bindings
            .into_iter()
            .map(|binding| binding.listener)
            .collect::<BTreeSet<ListenerKey>>()
            .into_iter()
            .map(|listener| (listener.parent, ParentInput::Attached(listener.name)))
            .collect(),
    }
}

fn other_class(class: ClassFact) -> (ObjectKey, OtherInput) {
    (ObjectKey::new(Kind::GatewayClass, "", &class.name), OtherInput::Class(class))
}

type FindingRow = (ObjectKey, Finding);

fn route_finding((object, finding): FindingRow) -> Option<(RouteKey, RouteInput)> {
    let kind = RouteKind::of(object.kind)?;
    Some((RouteKey { kind, name: object.name }, RouteInput::Finding(finding)))
}

fn parent_finding((object, finding): FindingRow) -> Option<(ObjectKey, ParentInput)> {
    let is_parent = matches!(object.kind, Kind::Gateway | Kind::ListenerSet);
    is_parent.then_some((object, ParentInput::Finding(finding)))
}

fn other_finding((object, finding): FindingRow) -> Option<(ObjectKey, OtherInput)> {
    match object.kind {
        Kind::HttpRoute | Kind::GrpcRoute | Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute => None,
        Kind::Gateway | Kind::ListenerSet => None,
        Kind::GatewayClass
        | Kind::ReferenceGrant
        | Kind::BackendTlsPolicy
        | Kind::Namespace
        | Kind::Node
        | Kind::Service
        | Kind::EndpointSlice
        | Kind::Secret
        | Kind::ConfigMap
        | Kind::EndpointReport => Some((object, OtherInput::Finding(finding))),
    }
}
