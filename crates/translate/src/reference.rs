//! The oracle: the same outputs in plain loops over all facts, without a dataflow.
//!
//! What decides about one thing is shared with the joins (it has tables of its own); what is done independently here is
//! everything that the joins do: which facts meet, which are counted once, what exists for an empty key. Read this to
//! learn what the dataflow computes; it is never fast and never incremental.

use crate::Config;
use crate::assemble::{self, Domain};
use crate::attach::{self, Attachment};
use crate::authorities;
use crate::backends::{self, BackendAsk, Resolution};
use crate::certificates::{self, CertificateAsk};
use crate::endpoints::{self, ServiceInput, ServiceParts};
use crate::gateways::{self, Doors, GatewayState, Part, Verdict};
use crate::hold::{EntryKey, World};
use crate::identity::{self, IdentityInput};
use crate::lower::{Lead, RouteInput, RouteOutput, RouteParts};
use crate::names::{Backend, HostKey};
use crate::rank::Ranked;
use crate::references::{Ask, GrantKey};
use crate::rivals::{self, Claim, Loss};
use crate::sockets::{self, SocketOutput};
use crate::status::{self, OtherInput, ParentInput};
use crate::streams::{SocketKey, Stream};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{
    BackendTlsFact, BundleFact, ClassFact, Fact, Finding, GatewayFact, GrantFact, Kind, ListenerKey, ListenerSetFact,
    Millis, Name, NamespaceFact, NamespacedName, NodeFact, ObjectKey, ReportFact, RouteFact, RouteKey, RouteKind,
    SecretFact, ServiceFact, SliceFact, TrafficDistribution,
};
use tidegate_xds::Row;

mod clients;
mod memory;
mod policies;

pub use clients::seen_from;
pub use memory::Memory;
use memory::Wanted;
use policies::Judged;

/// All facts, sorted by what they are looked up by.
#[derive(Default)]
struct Facts<'f> {
    classes: BTreeMap<&'f Name, &'f ClassFact>,
    gateways: Vec<&'f Arc<GatewayFact>>,
    sets: Vec<&'f Arc<ListenerSetFact>>,
    routes: Vec<&'f Arc<RouteFact>>,
    grants: Vec<&'f GrantFact>,
    namespaces: BTreeMap<&'f str, &'f NamespaceFact>,
    services: BTreeMap<&'f NamespacedName, &'f Arc<ServiceFact>>,
    slices: Vec<&'f Arc<SliceFact>>,
    nodes: Vec<&'f Arc<NodeFact>>,
    secrets: BTreeMap<&'f NamespacedName, &'f SecretFact>,
    bundles: BTreeMap<&'f NamespacedName, &'f Arc<BundleFact>>,
    policies: Vec<&'f Arc<BackendTlsFact>>,
    reports: Vec<&'f ReportFact>,
    findings: Vec<(&'f ObjectKey, &'f Finding)>,
    /// What follows from policies and bundles.
    judged: Judged,
}

impl<'f> Facts<'f> {
    fn sort(facts: &'f BTreeSet<Fact>) -> Self {
        let mut sorted = Facts::default();
        for fact in facts {
            match fact {
                Fact::Class(class) => drop(sorted.classes.insert(&class.name, class)),
                Fact::Gateway(gateway) => sorted.gateways.push(gateway),
                Fact::ListenerSet(set) => sorted.sets.push(set),
                Fact::Route(route) => sorted.routes.push(route),
                Fact::Grant(grant) => sorted.grants.push(grant),
                Fact::Namespace(namespace) => drop(sorted.namespaces.insert(&namespace.name, namespace)),
                Fact::Service(service) => drop(sorted.services.insert(&service.name, service)),
                Fact::Slice(slice) => sorted.slices.push(slice),
                Fact::Node(node) => sorted.nodes.push(node),
                Fact::Secret(secret) => drop(sorted.secrets.insert(&secret.name, secret)),
                Fact::Bundle(bundle) => drop(sorted.bundles.insert(&bundle.name, bundle)),
                Fact::BackendTls(policy) => sorted.policies.push(policy),
                Fact::Report(entry) => sorted.reports.push(entry),
                Fact::Finding(object, finding) => sorted.findings.push((object, finding)),
            }
        }
        sorted.judged = Judged::of(&sorted.policies, &sorted.bundles.values().copied().collect::<Vec<_>>());
        sorted
    }

    /// The findings of one object, as `input` takes them.
    fn findings_of<I>(&self, kind: Kind, name: &NamespacedName, input: impl Fn(Finding) -> I) -> Vec<I> {
        let of_object = self.findings.iter().filter(|(object, _)| object.kind == kind && object.name == *name);
        of_object.map(|(_, finding)| input((*finding).clone())).collect()
    }

    /// The labels of a namespace, if its object is there.
    fn labels(&self, namespace: &str) -> Option<&Arc<BTreeMap<Name, Name>>> {
        self.namespaces.get(namespace).map(|namespace| &namespace.labels)
    }
}

/// Every row that follows from `facts` alone, as at a cold start.
#[must_use]
pub fn translate(config: &Config, facts: &BTreeSet<Fact>) -> BTreeSet<Row> {
    Memory::default().translate(config, facts, 0)
}

/// Every row that follows from `facts` and from what was published before, which `memory` holds.
fn rows(config: &Config, facts: &BTreeSet<Fact>, memory: &mut Memory, millis: Millis) -> BTreeSet<Row> {
    let facts = Facts::sort(facts);
    let verdicts = verdicts(config, &facts);
    let ours: Vec<&GatewayState> = verdicts.values().filter_map(ours).collect();
    let attachments = attachments(&facts, &verdicts);
    let losses = losses(&attachments);

    let mut rows: BTreeSet<Row> = ours.iter().flat_map(|state| gateways::rows(state)).collect();
    let mut wanted = Wanted::default();
    let mut streams: BTreeMap<SocketKey, BTreeSet<Arc<Stream>>> = BTreeMap::new();
    let mut leads: BTreeSet<Lead> = BTreeSet::new();
    for route in &facts.routes {
        for output in lower_route(config, &facts, route, &attachments, &losses) {
            match output {
                RouteOutput::Entry(host, listener_host, ranked) => {
                    let key = EntryKey { host, listener_host, entry: ranked.entry.id.clone() };
                    wanted.entries.entry(key).or_insert_with(|| (route.key.clone(), Vec::new())).1.push(ranked);
                }
                RouteOutput::Uses(gateway, backend) => drop(wanted.uses.insert((gateway, backend))),
                RouteOutput::Leads(lead) => _ = leads.insert(lead),
                RouteOutput::Stream(socket, stream) => drop(streams.entry(socket).or_default().insert(stream)),
                RouteOutput::Status(status) => drop(wanted.statuses.insert(route.key.object(), status)),
            }
        }
    }
    if let Some(bound) = config.hold {
        memory.hold(&mut wanted, world(&facts, bound, millis));
    }
    let mut entries: BTreeMap<HostKey, BTreeSet<Arc<Ranked>>> = BTreeMap::new();
    let mut domains: BTreeSet<Domain> = ours.iter().flat_map(|state| assemble::listener_domains(state)).collect();
    for (key, (_, ranked)) in wanted.entries {
        domains.insert((key.host.clone(), key.listener_host));
        entries.entry(key.host).or_default().extend(ranked);
    }
    rows.extend(wanted.statuses.into_iter().map(|(object, status)| Row::Status(object, status)));
    rows.extend(wanted.held.into_iter().map(|held| Row::Held(Arc::new(held))));
    for ((gateway, socket), frame) in ours.iter().flat_map(|state| sockets::frames(state)) {
        let of_socket = streams.get(&(gateway.clone(), socket)).into_iter().flatten();
        let of_socket: Vec<&Stream> = of_socket.map(|stream| &**stream).collect();
        for output in sockets::assemble(socket, &frame, &of_socket) {
            match output {
                SocketOutput::Listener(listener) => drop(rows.insert(Row::Listener(gateway.clone(), listener))),
                SocketOutput::Uses(backend) => drop(wanted.uses.insert((gateway.clone(), backend))),
            }
        }
    }
    rows.extend(identities(&ours, &wanted.uses));
    let mut clusters: BTreeSet<Backend> = BTreeSet::new();
    for (gateway, backend) in wanted.uses {
        rows.insert(Row::Member(gateway, backend.cluster.name()));
        clusters.insert(backend);
    }
    for domain in &domains {
        let carried =
            assemble::wider(domain).into_iter().flat_map(|(from, _)| entries.get(&from).into_iter().flatten());
        let host = assemble::virtual_host(&domain.0.host, carried.map(|ranked| &ranked.entry));
        let HostKey { gateway, table, host: name } = domain.0.clone();
        rows.insert(Row::VirtualHost(gateway, table, name, host));
    }
    for backend in &clusters {
        let policy = backend.cluster.tls.as_ref().map(|tls| &tls.policy);
        let demand = policy.and_then(|policy| facts.judged.demand(policy));
        rows.insert(endpoints::cluster(backend, demand));
        rows.extend(assignment(&facts, backend));
    }
    rows.extend(facts.nodes.iter().map(|node| Row::KubeNode(node.name.clone(), node.locality.clone())));
    statuses(&facts, &verdicts, &attachments, &losses, &mut rows);
    rows.extend(other_statuses(config, &facts, &leads));
    rows
}

/// The status of classes and policies, and the findings of kinds without status.
fn other_statuses(config: &Config, facts: &Facts<'_>, leads: &BTreeSet<Lead>) -> Vec<Row> {
    let mut others = other_inputs(config, facts);
    for (object, input) in facts.judged.status_inputs(leads) {
        others.entry(object).or_default().insert(input);
    }
    let status = |inputs: &BTreeSet<OtherInput>| Arc::new(status::other_status(inputs.iter()));
    others.iter().map(|(object, inputs)| Row::Status(object.clone(), status(inputs))).collect()
}

/// The certificates that Gateways show to backends.
fn identities(ours: &[&GatewayState], uses: &BTreeSet<(NamespacedName, Backend)>) -> Vec<Row> {
    let mut shown: BTreeMap<(NamespacedName, Name), BTreeSet<IdentityInput>> = BTreeMap::new();
    let secrets = ours.iter().filter_map(|state| identity::secret(state));
    for (key, input) in secrets.chain(uses.iter().filter_map(|(_, backend)| identity::shown(backend))) {
        shown.entry(key).or_default().insert(input);
    }
    shown.iter().flat_map(|(key, inputs)| identity::shown_rows(key, inputs.iter())).collect()
}

/// The assignment of a cluster in all its forms.
fn assignment(facts: &Facts<'_>, backend: &Backend) -> Vec<Row> {
    let mut inputs = vec![ServiceInput::Wanted(backend.clone())];
    inputs.extend(slices_of(facts, backend).into_iter().cloned().map(ServiceInput::Slice));
    let reports = facts.reports.iter().filter(|entry| entry.service == backend.cluster.service);
    inputs.extend(reports.map(|entry| ServiceInput::Report((*entry).clone())));
    let distribution = facts.services.get(&backend.cluster.service).map(|service| service.distribution);
    if let Some(distribution) = distribution.filter(|distribution| *distribution != TrafficDistribution::Any) {
        inputs.push(ServiceInput::Distribution(distribution));
        inputs.extend(facts.nodes.iter().copied().cloned().map(ServiceInput::Node));
    }
    ServiceParts::gather(inputs.iter()).rows().collect()
}

fn slices_of<'f>(facts: &Facts<'f>, backend: &Backend) -> Vec<&'f Arc<SliceFact>> {
    let of_service = |slice: &&&Arc<SliceFact>| slice.service.as_ref() == Some(&backend.cluster.service);
    facts.slices.iter().filter(of_service).copied().collect()
}

/// What holds depend on, looked up for everything that exists.
fn world(facts: &Facts<'_>, bound: Millis, now: Millis) -> World {
    let mut world = World { now, bound, ..World::default() };
    for service in facts.services.values() {
        let holding = facts.judged.holding(&service.name).map(|holding| &**holding);
        for found in backends::of_service(service, holding) {
            let slices: Vec<&SliceFact> = slices_of(facts, &found.backend).into_iter().map(|slice| &**slice).collect();
            let usable = endpoints::is_usable(&found.backend, &slices);
            world.backends.insert(found.backend.cluster.name(), (found, usable));
        }
    }
    let bounds = facts.routes.iter().filter_map(|route| Some((route.key.clone(), route.retarget_hold?)));
    world.bounds = bounds.collect();
    world.grants = facts.grants.iter().map(|grant| (GrantKey::of(grant), grant.to_name.clone())).collect();
    world
}

fn ours(verdict: &Verdict) -> Option<&GatewayState> {
    match verdict {
        Verdict::Ours(state) => Some(state),
        Verdict::Nothing { .. } => None,
    }
}

/// The verdict on each Gateway that is ours, and on the ListenerSets that name it.
fn verdicts(config: &Config, facts: &Facts<'_>) -> BTreeMap<NamespacedName, Verdict> {
    let terms = config.terms();
    let mut parts: BTreeMap<NamespacedName, Vec<Part>> = BTreeMap::new();
    let mut asks: Vec<CertificateAsk> = Vec::new();
    for gateway in &facts.gateways {
        let class = facts.classes.get(&gateway.class).copied();
        let class = gateways::class_state(&config.controller, class);
        let Some((name, candidate)) = gateways::candidate(gateway, &class) else { continue };
        asks.extend(certificates::asks_of_gateway(gateway));
        let asked = (name.clone(), candidate);
        let parts = parts.entry(name).or_default();
        for ask in authorities::asks(&asked) {
            let permitted = is_permitted(facts, &Ask::Authority(ask.clone()));
            let bundle = facts.bundles.get(&ask.target.name).map(|bundle| &***bundle);
            let found = authorities::resolve(&ask, permitted, bundle);
            parts.push(Part::Authority(ask.target, found));
        }
        parts.push(Part::Candidate(asked.1));
    }
    for set in &facts.sets {
        asks.extend(certificates::asks_of_set(set));
        let labels = facts.labels(set.name.namespace()).cloned();
        parts.entry(set.gateway.clone()).or_default().push(Part::Set((*set).clone(), labels));
    }
    for ask in asks {
        let permitted = is_permitted(facts, &Ask::Certificate(ask.clone()));
        let found = certificates::resolve(&ask, permitted, facts.secrets.get(&ask.target.name).copied());
        parts.entry(ask.gateway).or_default().push(Part::Certificate(ask.owner, ask.target, found));
    }
    parts.into_iter().filter_map(|(name, parts)| Some((name, gateways::verdict(&terms, parts.iter())?))).collect()
}

fn attachments(facts: &Facts<'_>, verdicts: &BTreeMap<NamespacedName, Verdict>) -> BTreeMap<RouteKey, Vec<Attachment>> {
    let doors: BTreeMap<ObjectKey, Doors> = verdicts.values().filter_map(ours).flat_map(gateways::doors).collect();
    let mut attachments: BTreeMap<RouteKey, Vec<Attachment>> = BTreeMap::new();
    for route in &facts.routes {
        let labels = facts.labels(route.key.name.namespace()).map(|labels| &**labels);
        for ask in attach::asks(route) {
            let Some((gateway, listeners)) = doors.get(&ask.key) else { continue };
            let outcome = attach::attach(&ask, labels, listeners);
            let (index, gateway, created, written) = (ask.index, gateway.clone(), ask.created, ask.written());
            let attachment = Attachment { index, gateway, created, written, outcome };
            attachments.entry(route.key.clone()).or_default().push(attachment);
        }
    }
    attachments
}

/// The listeners that do not take a route, by route.
fn losses(attachments: &BTreeMap<RouteKey, Vec<Attachment>>) -> BTreeMap<RouteKey, BTreeSet<Loss>> {
    let mut claims: BTreeMap<ListenerKey, BTreeSet<Claim>> = BTreeMap::new();
    for (route, attachment) in attachments.iter().flat_map(|(route, all)| all.iter().map(move |one| (route, one))) {
        for (listener, claim) in rivals::claims((route.clone(), attachment.clone())) {
            claims.entry(listener).or_default().insert(claim);
        }
    }
    let mut losses: BTreeMap<RouteKey, BTreeSet<Loss>> = BTreeMap::new();
    for (listener, claims) in &claims {
        for (route, loss) in rivals::lost(listener, claims.iter()) {
            losses.entry(route).or_default().insert(loss);
        }
    }
    losses
}

fn lower_route(
    config: &Config,
    facts: &Facts<'_>,
    route: &Arc<RouteFact>,
    attachments: &BTreeMap<RouteKey, Vec<Attachment>>,
    losses: &BTreeMap<RouteKey, BTreeSet<Loss>>,
) -> Vec<RouteOutput> {
    let mut inputs = vec![RouteInput::Fact(route.clone())];
    let attached = attachments.get(&route.key).into_iter().flatten();
    inputs.extend(attached.cloned().map(RouteInput::Attached));
    inputs.extend(losses.get(&route.key).into_iter().flatten().cloned().map(RouteInput::Lost));
    for ask in backends::asks(route) {
        let found = resolve(facts, &ask);
        inputs.push(RouteInput::Backend(ask.target, found));
    }
    inputs.extend(facts.findings_of(route.key.kind.kind(), &route.key.name, RouteInput::Finding));
    let parts = RouteParts::gather(inputs.iter(), config.hold.is_some());
    parts.map(|parts| parts.lower()).unwrap_or_default()
}

fn resolve(facts: &Facts<'_>, ask: &BackendAsk) -> Resolution {
    let permitted = is_permitted(facts, &Ask::Backend(ask.clone()));
    let name = &ask.target.name;
    backends::resolve(ask, permitted, &facts.judged.state(name, facts.services.get(name).copied()))
}

fn is_permitted(facts: &Facts<'_>, ask: &Ask) -> bool {
    let key = ask.grant_key();
    let filed = facts.grants.iter().filter(|grant| GrantKey::of(grant) == key);
    !ask.needs_grant() || ask.is_among(&filed.map(|grant| grant.to_name.clone()).collect::<Vec<_>>())
}

fn statuses(
    facts: &Facts<'_>,
    verdicts: &BTreeMap<NamespacedName, Verdict>,
    attachments: &BTreeMap<RouteKey, Vec<Attachment>>,
    losses: &BTreeMap<RouteKey, BTreeSet<Loss>>,
    rows: &mut BTreeSet<Row>,
) {
    let mut inputs: BTreeMap<ObjectKey, Vec<(ParentInput, u32)>> = BTreeMap::new();
    for (object, input) in verdicts.iter().flat_map(|(gateway, verdict)| status::verdicts(gateway, verdict)) {
        inputs.entry(object).or_default().push((input, 1));
    }
    let mut attached: BTreeMap<ListenerKey, BTreeSet<&RouteKey>> = BTreeMap::new();
    for (route, attachment) in attachments.iter().flat_map(|(route, all)| all.iter().map(move |one| (route, one))) {
        let lost: Vec<&Loss> = losses.get(route).into_iter().flatten().collect();
        if let attach::Outcome::Bound(bindings) = &rivals::without(attachment, &lost).outcome {
            for binding in bindings {
                attached.entry(binding.listener.clone()).or_default().insert(route);
            }
        }
    }
    for (listener, routes) in attached {
        let count = u32::try_from(routes.len()).expect("fewer routes than 2^32 fit into memory");
        inputs.entry(listener.parent).or_default().push((ParentInput::Attached(listener.name), count));
    }
    for (object, finding) in facts.findings.iter().filter(|(object, _)| is_parent(object.kind)) {
        let input = ParentInput::Finding((*finding).clone());
        inputs.entry((*object).clone()).or_default().push((input, 1));
    }
    for (object, inputs) in inputs {
        let status = status::parent_status(&object, inputs.iter().map(|(input, count)| (input, *count)));
        rows.extend(status.map(|status| Row::Status(object, Arc::new(status))));
    }
}

/// What the status of classes is made of, and what there is to say of kinds without status.
fn other_inputs(config: &Config, facts: &Facts<'_>) -> BTreeMap<ObjectKey, BTreeSet<OtherInput>> {
    let mut others: BTreeMap<ObjectKey, BTreeSet<OtherInput>> = BTreeMap::new();
    for class in facts.classes.values().filter(|class| class.controller == config.controller) {
        let object = ObjectKey::new(Kind::GatewayClass, "", &class.name);
        others.entry(object).or_default().insert(OtherInput::Class((*class).clone()));
    }
    for (object, finding) in &facts.findings {
        if !is_parent(object.kind) && RouteKind::of(object.kind).is_none() {
            others.entry((*object).clone()).or_default().insert(OtherInput::Finding((*finding).clone()));
        }
    }
    others
}

fn is_parent(kind: Kind) -> bool {
    kind == Kind::Gateway || kind == Kind::ListenerSet
}
