use super::*;
use crate::policies::Security;
use tidegate_model::{
    HeaderModifier, HttpMatch, INVALID_CLUSTER, PathMatch, RouteFact, RouteKind, ServiceFact, ServicePortFact,
    TrafficDistribution, Transport, Upstream,
};
use tidegate_xds::ir;

const BOUND: Millis = 10;

fn route() -> RouteKey {
    RouteKey { kind: RouteKind::Http, name: NamespacedName::new("shop", "one") }
}

/// A Service, reached over TLS if the name ends in `~`.
fn backend(name: &str) -> Backend {
    let origin = Origin::default();
    let security = if name.ends_with('~') { over_tls() } else { Security::Plain };
    origin.reach(&found(name.trim_end_matches('~')).backend, &security).expect("nothing is closed")
}

fn over_tls() -> Security {
    Security::Tls(NamespacedName::new("shop", "tls"))
}

fn found(name: &str) -> Found {
    let (namespace, name) = name.split_once('.').unwrap_or(("shop", name));
    let port = ServicePortFact { name: "".into(), port: 80, transport: Transport::Tcp, upstream: Upstream::Http1 };
    let name = NamespacedName::new(namespace, name);
    let distribution = TrafficDistribution::Any;
    let service = ServiceFact { name, external_name: None, ports: vec![port], distribution };
    crate::backends::of_service(&service, None).remove(0)
}

fn cluster(name: &str) -> Name {
    if name == "?" { INVALID_CLUSTER.into() } else { backend(name).cluster.name() }
}

/// The entry of `path` that goes to these Services; `?` is a reference that does not resolve.
fn entry(path: &str, targets: &[&str]) -> Arc<Ranked> {
    let matcher =
        HttpMatch { path: PathMatch::Prefix(path.into()), headers: Vec::new(), query: Vec::new(), method: None };
    let target = |name: &&str| ir::Target {
        cluster: cluster(name),
        weight: 1,
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
    };
    let targets_of = targets.iter().map(target).collect();
    let forward = ir::Forward { targets: targets_of, websocket: true, ..ir::Forward::default() };
    let encoded = encode::entry(&ir::Entry {
        id: "rule 0".into(),
        matcher: matcher.clone(),
        action: ir::Action::Forward(forward),
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
    });
    let fact = RouteFact {
        key: route(),
        generation: 1,
        created: 0,
        parents: Vec::new(),
        hostnames: Vec::new(),
        rules: Vec::new(),
        retarget_hold: None,
        findings: Vec::new(),
    };
    let uses = targets.iter().filter(|name| **name != "?").map(|name| backend(name)).collect();
    let rank = crate::rank::Rank::of(&fact, &matcher, (0, 0));
    Arc::new(Ranked { rank, entry: encoded, uses, origin: Origin::default() })
}

fn desired(ranked: &Arc<Ranked>) -> HoldInput {
    let host = HostKey {
        gateway: NamespacedName::new("shop", "edge"),
        table: "http/80".into(),
        host: Hostname::new("shop.example"),
    };
    HoldInput::Desired(route(), host, Hostname::any(), Arc::clone(ranked))
}

/// A state, and what is published as its outputs say.
struct Play {
    state: State,
    wanted: Option<Arc<Ranked>>,
    published: BTreeMap<HoldOutput, isize>,
}

impl Play {
    /// Services with `+` in front have endpoints; the entry goes to `targets` from the start, at the time 100.
    fn new(services: &[&str], targets: &[&str]) -> Self {
        let mut play = Play { state: State::new(BOUND), wanted: None, published: BTreeMap::new() };
        let of = |name: &&str| (HoldInput::Backend(found(name.trim_start_matches('+')), name.starts_with('+')), 1);
        play.step(100, services.iter().map(of).collect(), Some(&entry("/", targets)));
        play
    }

    /// One epoch; the clusters that the entry goes to after it.
    fn step(&mut self, now: Millis, mut updates: Vec<(HoldInput, isize)>, wanted: Option<&Arc<Ranked>>) -> Vec<Name> {
        updates.push((HoldInput::Clock(now), 1));
        if let Some(wanted) = wanted {
            updates.extend(self.wanted.iter().map(|old| (desired(old), -1)));
            updates.push((desired(wanted), 1));
            self.wanted = Some(Arc::clone(wanted));
        }
        for (output, diff) in self.state.step(updates) {
            *self.published.entry(output).or_default() += diff;
        }
        self.published.retain(|_, count| *count != 0);
        assert!(self.published.values().all(|count| *count > 0));
        let entries: Vec<&Arc<Ranked>> = self.published.keys().filter_map(entry_of).collect();
        let [only] = entries.as_slice() else { panic!("{entries:?} are published") };
        let used: BTreeSet<Name> = self.published.keys().filter_map(used).collect();
        let named: BTreeSet<Name> = only.entry.clusters.iter().filter(|c| **c != INVALID_CLUSTER).cloned().collect();
        assert_eq!(used, named, "what is named is used");
        only.entry.clusters.clone()
    }

    /// The entry shall go to `targets` from now on.
    fn want(&mut self, now: Millis, targets: &[&str]) -> Vec<Name> {
        self.step(now, Vec::new(), Some(&entry("/", targets)))
    }

    fn held(&self) -> Option<(Vec<Name>, Millis)> {
        let mut held = self.published.keys().filter_map(|output| match output {
            HoldOutput::Held(held) => Some((held.waits_for.clone(), held.until)),
            HoldOutput::Entry(..) | HoldOutput::Uses(..) => None,
        });
        held.next()
    }
}

fn entry_of(output: &HoldOutput) -> Option<&Arc<Ranked>> {
    match output {
        HoldOutput::Entry(_, _, ranked) => Some(ranked),
        HoldOutput::Uses(..) | HoldOutput::Held(_) => None,
    }
}

fn used(output: &HoldOutput) -> Option<Name> {
    match output {
        HoldOutput::Uses(_, backend) => Some(backend.cluster.name()),
        HoldOutput::Entry(..) | HoldOutput::Held(_) => None,
    }
}

fn clusters(names: &[&str]) -> Vec<Name> {
    names.iter().map(|name| cluster(name)).collect()
}

fn usable(name: &str, before: bool) -> Vec<(HoldInput, isize)> {
    vec![(HoldInput::Backend(found(name), before), -1), (HoldInput::Backend(found(name), !before), 1)]
}

#[test]
fn a_target_without_endpoints_is_waited_for_until_it_has_some_or_the_bound_ends() {
    let mut play = Play::new(&["+a", "n"], &["a"]);
    assert_eq!(play.held(), None);
    assert_eq!(play.want(200, &["n"]), clusters(&["a"]));
    assert_eq!(play.held(), Some((clusters(&["n"]), 210)));
    assert_eq!(play.step(209, usable("n", false), None), clusters(&["n"]));
    assert_eq!(play.held(), None);

    let mut play = Play::new(&["+a", "n"], &["a"]);
    play.want(200, &["n"]);
    assert_eq!(play.step(209, Vec::new(), None), clusters(&["a"]));
    assert_eq!(play.step(210, Vec::new(), None), clusters(&["n"]));
    // What was published at its end is the previous form of the next change.
    assert_eq!(play.step(300, usable("n", false), None), clusters(&["n"]));
    assert_eq!(play.step(301, usable("n", true), None), clusters(&["n"]));
}

#[test]
fn another_change_does_not_lengthen_a_hold_and_a_change_back_ends_it() {
    let mut play = Play::new(&["+a", "n", "m"], &["a"]);
    play.want(200, &["n"]);
    assert_eq!(play.want(205, &["m"]), clusters(&["a"]));
    assert_eq!(play.held(), Some((clusters(&["m"]), 210)));
    assert_eq!(play.want(206, &["a"]), clusters(&["a"]));
    assert_eq!(play.held(), None);
    play.want(207, &["n"]);
    assert_eq!(play.held(), Some((clusters(&["n"]), 217)));
}

#[test]
fn only_what_is_newly_named_is_waited_for() {
    for (from, to, waits) in [
        (&["a"][..], &["a", "n"][..], Some(&["n"][..])),
        (&["a", "n"], &["n"], None),
        (&["a"], &["b"], None),
        (&["a"], &["b", "n"], Some(&["n"])),
        (&["a"], &["?"], Some(&["?"])),
        (&["?"], &["n"], None),
        (&["a", "?"], &["n"], None),
        (&[], &["n"], None),
        (&["a"], &[], None),
    ] {
        let mut play = Play::new(&["+a", "+b", "n"], from);
        let published = play.want(200, to);
        let held = play.held().map(|(waits, _)| waits);
        assert_eq!(held, waits.map(clusters), "{from:?} to {to:?}");
        let mut expected = clusters(if waits.is_some() { from } else { to });
        expected.sort();
        assert_eq!(published, expected, "{from:?} to {to:?}");
    }
}

#[test]
fn a_previous_target_that_is_gone_is_not_kept() {
    let mut play = Play::new(&["+a", "n"], &["a"]);
    play.want(200, &["n"]);
    assert_eq!(play.step(201, vec![(HoldInput::Backend(found("a"), true), -1)], None), clusters(&["n"]));
    // One that has lost its endpoints is still there.
    let mut play = Play::new(&["+a", "n"], &["a"]);
    play.want(200, &["n"]);
    assert_eq!(play.step(201, usable("a", true), None), clusters(&["a"]));
}

#[test]
fn a_previous_target_in_another_namespace_is_kept_only_while_a_grant_permits_it() {
    let target =
        BackendRef { group_kind: Kind::Service.into(), name: NamespacedName::new("store", "a"), port: Some(80) };
    let key = Ask::Backend(BackendAsk { route: route(), target }).grant_key();
    for name in [None, Some(Name::from("a"))] {
        let grant = HoldInput::Grant(key.clone(), name);
        let mut play = Play::new(&["+store.a", "n"], &["store.a"]);
        play.step(150, vec![(grant.clone(), 1)], None);
        assert_eq!(play.want(200, &["n"]), clusters(&["store.a"]));
        assert_eq!(play.step(201, vec![(grant, -1)], None), clusters(&["n"]));
    }
    let mut play = Play::new(&["+store.a", "n"], &["store.a"]);
    play.step(150, vec![(HoldInput::Grant(key, Some("other".into())), 1)], None);
    assert_eq!(play.want(200, &["n"]), clusters(&["n"]));
}

#[test]
fn a_route_has_its_own_bound_and_a_new_one_counts_at_once() {
    let bound = |millis| HoldInput::Bound(route(), millis);
    let mut play = Play::new(&["+a", "n"], &["a"]);
    play.step(150, vec![(bound(30), 1)], None);
    play.want(200, &["n"]);
    assert_eq!(play.held().map(|(_, until)| until), Some(230));
    play.step(201, vec![(bound(30), -1), (bound(20), 1)], None);
    assert_eq!(play.held().map(|(_, until)| until), Some(220));
    assert_eq!(play.step(202, vec![(bound(20), -1), (bound(0), 1)], None), clusters(&["n"]));
}

#[test]
fn an_entry_that_begins_to_match_something_else_is_a_new_one() {
    let mut play = Play::new(&["+a", "n"], &["a"]);
    assert_eq!(play.step(200, Vec::new(), Some(&entry("/x", &["n"]))), clusters(&["n"]));
    assert_eq!(play.held(), None);
}

/// The policies on a Service change.
fn secured(name: &str, usable: bool, from: Security, to: Security) -> Vec<(HoldInput, isize)> {
    let with = |security: Security| {
        let has_policies = security != Security::Plain;
        HoldInput::Backend(Found { security, has_policies, ..found(name) }, usable)
    };
    vec![(with(from), -1), (with(to), 1)]
}

#[test]
fn nothing_goes_on_in_plaintext_that_is_to_be_encrypted() {
    for security in [over_tls(), Security::Closed] {
        let mut play = Play::new(&["+a", "n"], &["a"]);
        play.want(200, &["n"]);
        let policy = secured("a", true, Security::Plain, security.clone());
        assert_eq!(play.step(201, policy.clone(), None), clusters(&["n"]));
        let mut play = Play::new(&["+a", "n"], &["a"]);
        assert_eq!(play.step(200, policy, Some(&entry("/", &["n"]))), clusters(&["n"]));
    }
    // The Service itself is to be encrypted, and has no endpoints.
    let mut play = Play::new(&["a"], &["a"]);
    let policy = secured("a", false, Security::Plain, over_tls());
    assert_eq!(play.step(200, policy, Some(&entry("/", &["a~"]))), clusters(&["a~"]));
    assert_eq!(play.held(), None);
}

#[test]
fn what_is_encrypted_is_waited_for_and_kept_like_anything_else() {
    let mut play = Play::new(&["+a", "n"], &["a"]);
    play.step(150, secured("n", false, Security::Plain, over_tls()), None);
    assert_eq!(play.want(200, &["n~"]), clusters(&["a"]));
    assert_eq!(play.held(), Some((clusters(&["n~"]), 210)));
    let mut play = Play::new(&["+a", "n"], &["a"]);
    play.step(150, secured("a", true, Security::Plain, over_tls()), Some(&entry("/", &["a~"])));
    assert_eq!(play.want(200, &["n"]), clusters(&["a~"]));
    // Nor does it go on encrypted where nobody says how any more.
    assert_eq!(play.step(201, secured("a", true, over_tls(), Security::Plain), None), clusters(&["n"]));
}
