use super::*;
use crate::ir;
use crate::row::EncodedEntry;
use prost::Message;
use tidegate_model::{HeaderModifier, HttpMatch, ListenerKey, PathMatch, Transport, Upstream};
use tidegate_proto::envoy::config::route::v3::RouteConfiguration;

fn gateway() -> NamespacedName {
    NamespacedName::new("shop", "public")
}

fn entry(id: &str, cluster: &str) -> EncodedEntry {
    encode::entry(&ir::Entry {
        id: id.into(),
        matcher: HttpMatch { path: PathMatch::Prefix("/".into()), headers: vec![], query: vec![], method: None },
        action: ir::Action::Forward(ir::Forward {
            targets: vec![ir::Target {
                cluster: cluster.into(),
                weight: 1,
                request_headers: HeaderModifier::default(),
                response_headers: HeaderModifier::default(),
            }],
            ..ir::Forward::default()
        }),
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
    })
}

fn host(host: &str, cluster: &str) -> Row {
    let host = Hostname::new(host);
    let content = encode::virtual_host(&host, vec![entry("r/0/0", cluster)]);
    Row::VirtualHost(gateway(), "http-80".into(), host, Arc::new(content))
}

fn cluster(name: &str) -> Row {
    let cluster = ir::Cluster { name: name.into(), transport: Transport::Tcp, upstream: Upstream::Http1, tls: None };
    Row::Cluster(name.into(), Variants::any(encode::cluster(&cluster)))
}

fn endpoints(name: &str, addresses: &[&str]) -> Row {
    let endpoint = |address: &&str| ir::Endpoint { address: (*address).into(), port: 80, draining: false };
    let localities = vec![ir::Locality {
        region: "".into(),
        zone: "".into(),
        sub_zone: "".into(),
        priority: 0,
        endpoints: addresses.iter().map(endpoint).collect(),
    }];
    let assignment = ir::Assignment { cluster: name.into(), localities };
    Row::Endpoints(name.into(), Variants::any(encode::endpoints(&assignment)))
}

fn member(name: &str) -> Row {
    Row::Member(gateway(), name.into())
}

fn rows() -> Vec<Row> {
    let listener = ir::Listener {
        name: "http-80".into(),
        addresses: vec!["0.0.0.0".into()],
        port: 80,
        family: ir::Family::Tls,
        chains: vec![ir::Chain {
            hostname: Hostname::any(),
            to: ir::Way::Requests("http-80".into()),
            certificates: vec!["shop/cert".into()],
            clients: None,
            listeners: vec![ListenerKey::of_gateway(&gateway(), "http")],
        }],
    };
    vec![
        Row::Secret(gateway(), encode::secret_ref("shop/cert".into(), "digest")),
        Row::Gateway(gateway()),
        Row::Listener(gateway(), Arc::new(encode::listener(&listener))),
        Row::Table(gateway(), "http-80".into()),
        host("a.example.com", "shop/a/80"),
        cluster("shop/a/80"),
        endpoints("shop/a/80", &["10.0.0.1"]),
        member("shop/a/80"),
    ]
}

fn all(rows: Vec<Row>, diff: isize) -> Vec<(Row, isize)> {
    rows.into_iter().map(|row| (row, diff)).collect()
}

#[test]
fn a_client_gets_the_resources_of_its_gateway_and_no_others() {
    let mut store = Store::new();
    let mut changes = all(rows(), 1);
    changes.extend(all(vec![cluster("other"), endpoints("other", &[])], 1));
    let sealed = store.seal(7, 1000, changes);
    assert_eq!((sealed.epoch, sealed.millis), (7, 1000));
    let names = ["shop/a/80", "shop/a/80", "http-80", "shop/cert", "http-80"];
    for (resource_type, name) in ResourceType::ALL.into_iter().zip(names) {
        assert_eq!(sealed.names(&gateway(), resource_type), [name]);
        assert_eq!(sealed.resource(&gateway(), resource_type, name).unwrap().name, name);
        assert_eq!(sealed.resource(&gateway(), resource_type, "other"), None);
        assert!(sealed.names(&NamespacedName::new("shop", "private"), resource_type).is_empty());
    }
}

#[test]
fn a_table_is_the_concatenation_of_its_virtual_hosts() {
    let mut store = Store::new();
    let mut changes = all(rows(), 1);
    changes.extend(all(vec![host("*.example.com", "shop/a/80"), host("", "shop/a/80")], 1));
    let sealed = store.seal(0, 0, changes);
    let table = sealed.gateways[&gateway()].tables["http-80"].clone();
    let message = RouteConfiguration::decode(table.resource().bytes.clone()).unwrap();
    let domains: Vec<_> = message.virtual_hosts.iter().map(|host| host.domains.concat()).collect();
    assert_eq!(domains, ["*", "*.example.com", "a.example.com"]);
    assert_eq!(message.encode_to_vec(), table.resource().bytes, "as the encoder of the whole message writes it");
    assert_eq!(table.resource().version, table.version);
}

#[test]
fn the_version_of_a_table_changes_with_its_content_and_its_name() {
    let table = |name: &str, hosts: &[Row]| {
        let hosts = hosts.iter().map(|row| match row {
            Row::VirtualHost(_, _, host, content) => (host.clone(), content.clone()),
            other => panic!("{other:?} is no virtual host"),
        });
        Table::new(name.into(), hosts.collect()).version
    };
    let one = table("t", &[host("a.com", "a")]);
    assert_eq!(one, table("t", &[host("a.com", "a")]));
    assert_ne!(one, table("t", &[host("a.com", "b")]));
    assert_ne!(one, table("t", &[host("b.com", "a")]));
    assert_ne!(one, table("t", &[]));
    assert_ne!(one, table("u", &[host("a.com", "a")]));
}

#[test]
fn an_endpoint_change_touches_nothing_but_its_assignment() {
    let mut store = Store::new();
    let before = store.seal(0, 0, all(rows(), 1));
    let changes = vec![
        // The addition first: the order of one epoch's changes means nothing.
        (endpoints("shop/a/80", &["10.0.0.2"]), 1),
        (endpoints("shop/a/80", &["10.0.0.1"]), -1),
    ];
    let after = store.seal(1, 1, changes);
    assert!(before.endpoints.diff(&after.endpoints).count() == 1);
    assert!(before.gateways.ptr_eq(&after.gateways) && before.clusters.ptr_eq(&after.clusters));
    assert_ne!(before.digest, after.digest);
}

#[test]
fn changes_that_cancel_out_change_nothing() {
    let mut store = Store::new();
    let before = store.seal(0, 0, all(rows(), 1));
    let mut changes = all(vec![cluster("x"), endpoints("x", &[])], 1);
    changes.extend(all(vec![cluster("x"), endpoints("x", &[])], -1));
    let after = store.seal(1, 0, changes);
    assert!(before.clusters.ptr_eq(&after.clusters) && before.endpoints.ptr_eq(&after.endpoints));
    assert_eq!(before.digest, after.digest);
    assert!(store.violations().is_empty());
}

#[test]
fn a_replaced_virtual_host_replaces_the_table_and_no_other() {
    let mut store = Store::new();
    let mut first = all(rows(), 1);
    first.push((Row::Table(gateway(), "http-81".into()), 1));
    let before = store.seal(0, 0, first);
    let changes = vec![(host("a.example.com", "shop/b/80"), 1), (host("a.example.com", "shop/a/80"), -1)];
    let after = store.seal(1, 0, changes);
    let table = |sealed: &Sealed, name: &str| sealed.gateways[&gateway()].tables[name].clone();
    assert!(!Arc::ptr_eq(&table(&before, "http-80"), &table(&after, "http-80")));
    assert!(Arc::ptr_eq(&table(&before, "http-81"), &table(&after, "http-81")));
    let entries = &table(&after, "http-80").hosts[&Hostname::new("a.example.com")].entries;
    assert_eq!(entries[0].clusters, ["shop/b/80"]);
}

#[test]
fn nothing_is_left_when_everything_is_retracted() {
    let mut store = Store::new();
    store.seal(0, 0, all(rows(), 1));
    let end = store.seal(1, 0, all(rows(), -1));
    assert!(end.gateways.is_empty() && end.clusters.is_empty() && end.endpoints.is_empty() && end.status.is_empty());
    assert_eq!(end.digest, Digest::default());
    assert!(store.drafts.is_empty());
}

#[test]
fn a_gateway_that_is_served_with_nothing_is_there() {
    let mut store = Store::new();
    let sealed = store.seal(0, 0, vec![(Row::Gateway(gateway()), 1)]);
    assert!(sealed.gateways.contains_key(&gateway()));
    let sealed = store.seal(1, 0, vec![(Row::Gateway(gateway()), -1)]);
    assert!(sealed.gateways.is_empty());
}

#[test]
#[should_panic(expected = "two rows for")]
#[cfg(debug_assertions)]
fn two_values_of_one_key_are_a_broken_invariant() {
    Store::new().seal(0, 0, all(vec![endpoints("a", &["10.0.0.1"]), endpoints("a", &["10.0.0.2"])], 1));
}

#[test]
fn material_is_counted_while_some_gateway_names_it() {
    let mut store = Store::new();
    let other = NamespacedName::new("shop", "other");
    let row = |gateway: &NamespacedName, digest| Row::Secret(gateway.clone(), encode::secret_ref("a/b".into(), digest));
    let named = |sealed: &Sealed| sealed.materials.keys().map(ToString::to_string).collect::<Vec<_>>();
    let sealed = store.seal(0, 0, vec![(row(&gateway(), "one"), 1), (row(&other, "one"), 1)]);
    assert_eq!(named(&sealed), ["one"]);
    let sealed = store.seal(1, 0, vec![(row(&gateway(), "one"), -1), (row(&gateway(), "two"), 1)]);
    assert_eq!(named(&sealed), ["one", "two"]);
    let sealed = store.seal(2, 0, vec![(row(&other, "one"), -1)]);
    assert_eq!(named(&sealed), ["two"]);
}
