//! Objects as an API server would hold them, changed value by value. Whatever they hold: the same facts every time; the
//! dataflow equals the reference at every epoch; nothing is named that is not there; no field rule of Envoy is broken; a
//! finding says what to do; and when the objects are as they were, so is everything that follows from them.

use super::Seen;
use crate::choices::Choices;
use crate::{mutate, seeds};
use prost::Message;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use testkit::rules;
use tidegate_engine::{Applied, Config, Core};
use tidegate_log::{Event, Object};
use tidegate_model::{Fact, Finding, Kind, ObjectKey};
use tidegate_normalize::{Moment, admit, normalize};
use tidegate_proto::envoy::config::endpoint::v3::ClusterLoadAssignment;
use tidegate_proto::envoy::config::route::v3::{RouteConfiguration, VirtualHost, route, route_action};
use tidegate_scenarios::{difference, rows_of};
use tidegate_workload::World;
use tidegate_xds::{Resource, Row, Sealed, Variants, Version};

/// The longest text that a finding may show, in bytes: status messages are bounded by the API server at 32 KiB, and a
/// Gateway has many.
const MESSAGE_MAX: usize = 2000;

/// How many random worlds there are among the groups.
const WORLDS: u64 = 12;

/// How many versions are remembered as checked.
const CHECKED_MAX: usize = 100_000;

/// Some objects of one cluster, of which a few change, one an epoch.
pub(super) fn objects(input: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut choices = Choices::new(input);
    let number = choices.below(groups().len());
    let start = &groups()[number];
    let (mut core, first) = CORES.with_borrow_mut(|cores| cores.remove(&number)).unwrap_or_else(|| {
        let mut core = Core::new(&Config::default());
        let mut events: Vec<Event> = start.values().cloned().map(Event::Apply).collect();
        events.extend(Kind::ALL.map(Event::Synced));
        let first = epoch(&mut core, &events, 0, &mut seen);
        (core, first)
    });
    let keys: Vec<ObjectKey> = start.keys().cloned().collect();
    let mut changed = BTreeSet::new();
    for number in 1..=1 + choices.below(4) {
        let event = change(start, choices.pick(&keys), &mut choices);
        changed.insert(key_of(&event).clone());
        check_event(&event, &mut seen);
        epoch(&mut core, &[event], number as u64, &mut seen);
    }
    // Back to what it was: nothing stays.
    let back: Vec<Event> = changed
        .into_iter()
        .map(|key| start.get(&key).map_or_else(|| Event::Delete(key.clone()), |object| Event::Apply(object.clone())))
        .collect();
    let last = epoch(&mut core, &back, 99, &mut seen);
    let (before, after) = (rows_of(&first), rows_of(&last));
    let stays: Vec<&Row> = before.symmetric_difference(&after).collect();
    assert!(stays.is_empty(), "everything is as it was, but for {stays:?}");
    assert_eq!(first.digest, last.digest, "equal rows have unequal digests");
    CORES.with_borrow_mut(|cores| cores.insert(number, (core, first)));
    seen
}

type Objects = BTreeMap<ObjectKey, Object>;

/// Groups of objects that belong together: those of the scenarios, and random worlds, which are larger.
fn groups() -> &'static [Objects] {
    static GROUPS: OnceLock<Vec<Objects>> = OnceLock::new();
    GROUPS.get_or_init(|| {
        let worlds = (0..WORLDS).map(|seed| World::new(seed).list().into_iter().filter_map(object_of).collect());
        let groups = seeds::groups().iter().cloned().chain(worlds);
        let by_key = |objects: Vec<Object>| objects.into_iter().map(|object| (object.key.clone(), object)).collect();
        groups.map(by_key).collect()
    })
}

fn object_of(event: Event) -> Option<Object> {
    if let Event::Apply(object) = event { Some(object) } else { None }
}

fn key_of(event: &Event) -> &ObjectKey {
    match event {
        Event::Apply(object) => &object.key,
        Event::Delete(key) => key,
        other => unreachable!("only objects change here, not {other:?}"),
    }
}

/// The object, changed in one to three places; deleted if that left it without an identity.
fn change(objects: &Objects, key: &ObjectKey, choices: &mut Choices<'_>) -> Event {
    let object = &objects[key];
    let others: Vec<&Object> = objects.values().collect();
    let mut value = (*object.body).clone();
    for _ in 0..1 + choices.below(3) {
        let other = choices.pick(&others).body.clone();
        if choices.chance(60) && value["spec"].is_object() {
            // Most of what means something stands here.
            mutate::mutate(&mut value["spec"], &other["spec"], choices);
        } else {
            mutate::mutate(&mut value, &other, choices);
        }
    }
    Object::new(value).map_or_else(|_| Event::Delete(key.clone()), Event::Apply)
}

fn check_event(event: &Event, seen: &mut Seen) {
    let Event::Apply(object) = event else { return };
    let moment = Moment::default();
    let (one, two) = (normalize(object, &moment), normalize(object, &moment));
    assert_eq!(one, two, "the same object gives two facts");
    let ends = one.endings.iter().flat_map(|ending| &ending.ends);
    assert!(ends.clone().all(|fact| one.facts.contains(fact)), "what was never there ends");
    let after = one.endings.iter().flat_map(|ending| &ending.after);
    for fact in one.facts.iter().chain(after) {
        let json = serde_json::to_string(fact).expect("facts can be written");
        assert_eq!(serde_json::from_str::<Fact>(&json).ok().as_ref(), Some(fact), "a fact comes back otherwise");
        if let Some(key) = fact.object() {
            assert_eq!(key, object.key, "a fact about another object");
        }
        for finding in findings(fact) {
            check_finding(object.key.kind, finding, seen);
        }
    }
    let refused = admit(object);
    seen.note(&format!("{}: {} reasons to refuse", object.key.kind, "x".repeat(refused.len().min(3))));
}

fn findings(fact: &Fact) -> &[Finding] {
    match fact {
        Fact::Class(class) => &class.findings,
        Fact::Gateway(gateway) => &gateway.findings,
        Fact::ListenerSet(set) => &set.findings,
        Fact::Route(route) => &route.findings,
        Fact::Finding(_, finding) => std::slice::from_ref(finding),
        _ => &[],
    }
}

fn check_finding(kind: Kind, finding: &Finding, seen: &mut Seen) {
    let shape: String = finding.field.chars().filter(|c| c.is_ascii_alphabetic() || *c == '.').take(60).collect();
    seen.note(&format!("{kind} {:?} {shape}: {}", finding.reason, finding.message));
    assert!(finding.message.len() <= MESSAGE_MAX && finding.field.len() <= MESSAGE_MAX, "too long: {finding:?}");
    assert!(!finding.message.chars().any(char::is_control), "control characters: {finding:?}");
    assert!(!finding.field.chars().any(char::is_control), "control characters: {finding:?}");
    let says_what_to_do = finding.message.contains("; ") || finding.message.contains("must be");
    assert!(says_what_to_do, "does not say what to do: {finding:?}");
}

/// Applies a batch and checks what follows from it.
fn epoch(core: &mut Core, events: &[Event], millis: u64, seen: &mut Seen) -> Arc<Sealed> {
    let sealed = match core.apply(events, millis) {
        Applied::Sealed(sealed) => sealed,
        Applied::Pending { missing } => panic!("still waiting for {missing:?}"),
    };
    let differs = difference(&sealed, &core.facts());
    assert!(differs.is_empty(), "{} rows differ from the reference:\n{}", differs.len(), differs.join("\n"));
    assert!(core.store().violations().is_empty(), "{:?}", core.store().violations());
    assert_eq!(tidegate_xds::check::full(&sealed), [], "the counts do not see what is wrong");
    for row in rows_of(&sealed) {
        check_row(&row, seen);
    }
    check_tables(&sealed);
    sealed
}

thread_local! {
    /// A core of each group, as an input left it, which is as it was: so that an input costs only what it changes.
    static CORES: RefCell<BTreeMap<usize, (Core, Arc<Sealed>)>> = const { RefCell::new(BTreeMap::new()) };

    /// Contents whose rules were checked: most are the same at every epoch and in every input.
    static CHECKED: RefCell<BTreeSet<Version>> = const { RefCell::new(BTreeSet::new()) };
}

fn is_new(version: Version) -> bool {
    CHECKED.with_borrow_mut(|checked| {
        if checked.len() > CHECKED_MAX {
            checked.clear();
        }
        checked.insert(version)
    })
}

fn check_row(row: &Row, seen: &mut Seen) {
    let forms = |kind, forms: &Variants| {
        let forms = forms.all().iter().map(|form| (form.resource.version, form.resource.bytes.clone()));
        (kind, forms.collect())
    };
    let (kind, contents): (_, Vec<_>) = match row {
        Row::Listener(_, listener) => {
            let Resource { version, bytes, .. } = listener.resource.clone();
            ("envoy.config.listener.v3.Listener", vec![(version, bytes)])
        }
        Row::VirtualHost(_, _, _, host) => {
            ("envoy.config.route.v3.VirtualHost", vec![(host.version, host.bytes.clone())])
        }
        Row::Cluster(_, all) => forms("envoy.config.cluster.v3.Cluster", all),
        Row::Endpoints(_, all) => forms("envoy.config.endpoint.v3.ClusterLoadAssignment", all),
        Row::Status(key, status) => {
            for finding in &status.findings {
                assert!(finding.message.len() <= MESSAGE_MAX, "{finding:?}");
                seen.note(&format!("status {} {:?}", key.kind, finding.reason));
            }
            return;
        }
        // What is sent in place of it is encoded from what the vault has judged.
        Row::Gateway(_) | Row::Table(..) | Row::Shows(..) | Row::Member(..) | Row::Secret(..) | Row::Held(_) => return,
        Row::KubeNode(..) => return,
    };
    for (_, bytes) in contents.into_iter().filter(|(version, _)| is_new(*version)) {
        let broken = rules::broken(tidegate_proto::json::pool(), kind, &bytes);
        assert!(broken.is_empty(), "Envoy would reject {row:?}: {broken:#?}");
        check_more(row, &bytes);
    }
}

/// What Envoy demands without saying so in its field rules.
fn check_more(row: &Row, bytes: &[u8]) {
    if matches!(row, Row::VirtualHost(..)) {
        let host = VirtualHost::decode(bytes).expect("what is encoded decodes");
        for route in &host.routes {
            let Some(route::Action::Route(action)) = &route.action else { continue };
            let Some(route_action::ClusterSpecifier::WeightedClusters(weighted)) = &action.cluster_specifier else {
                continue;
            };
            let sum: u64 = weighted.clusters.iter().map(|c| u64::from(c.weight.map_or(0, |w| w.value))).sum();
            assert!(sum > 0 && sum <= u64::from(u32::MAX), "weights add up to {sum}: {row:?}");
        }
    }
    if matches!(row, Row::Endpoints(..)) {
        let assignment = ClusterLoadAssignment::decode(bytes).expect("what is encoded decodes");
        let priorities: BTreeSet<u32> = assignment.endpoints.iter().map(|locality| locality.priority).collect();
        assert!(priorities.iter().copied().eq(0..priorities.len() as u32), "a gap between priorities: {row:?}");
    }
}

/// No domain stands in a table twice: Envoy would reject all of it.
fn check_tables(sealed: &Sealed) {
    for (gateway, view) in &sealed.gateways {
        for (name, table) in &view.tables {
            if !is_new(table.version) {
                continue;
            }
            let table = RouteConfiguration::decode(table.resource().bytes.clone()).expect("what is encoded decodes");
            let mut domains = BTreeSet::new();
            let mut names = BTreeSet::new();
            for host in &table.virtual_hosts {
                assert!(names.insert(host.name.clone()), "{gateway} {name}: two hosts {}", host.name);
                for domain in &host.domains {
                    assert!(domains.insert(domain.to_lowercase()), "{gateway} {name}: {domain} stands twice");
                }
            }
        }
    }
}
