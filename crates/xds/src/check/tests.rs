use super::*;
use crate::Version;
use crate::resource::{Resource, Variants};
use crate::row::{EncodedEntry, Listener, Stream, VirtualHost};
use crate::sealed::Store;
use proptest::prelude::*;
use std::sync::Arc;
use tidegate_model::Hostname;

const GATEWAYS: [&str; 2] = ["ns/a", "ns/b"];
const SECRET: &str = "ns/cert";
const TABLES: [&str; 2] = ["http-80", "http-81"];
const CLUSTERS: [&str; 4] = ["ns/s/80", "ns/t/80", "ns/u/80", INVALID_CLUSTER];

fn gateway(index: usize) -> NamespacedName {
    NamespacedName::parse(GATEWAYS[index])
}

fn shared(content: u8) -> Variants {
    Variants::any(Resource::new("r".into(), vec![content].into()))
}

fn names(of: &[usize]) -> Vec<Name> {
    of.iter().map(|index| Name::from(CLUSTERS[*index])).collect()
}

fn listener(gateway_index: usize, table: usize, clusters: &[usize]) -> Row {
    let resource = Resource::new(TABLES[table].into(), vec![].into());
    // The second form names a secret.
    let secrets = if clusters.is_empty() { Vec::new() } else { vec![SECRET.into()] };
    let listener = Listener {
        resource,
        tables: vec![TABLES[table].into()],
        streams: vec![Stream { id: "s".into(), clusters: names(clusters) }],
        secrets,
        owners: Vec::new(),
    };
    Row::Listener(gateway(gateway_index), Arc::new(listener))
}

fn host(gateway_index: usize, table: usize, clusters: &[usize]) -> Row {
    let entry = EncodedEntry { id: "e".into(), bytes: vec![].into(), clusters: names(clusters) };
    let version = Version::of(format!("{clusters:?}").as_bytes());
    let host = VirtualHost { version, bytes: vec![].into(), entries: vec![entry] };
    Row::VirtualHost(gateway(gateway_index), TABLES[table].into(), Hostname::any(), Arc::new(host))
}

fn table(gateway_index: usize, table: usize) -> Row {
    Row::Table(gateway(gateway_index), TABLES[table].into())
}

fn member(gateway_index: usize, cluster: usize) -> Row {
    Row::Member(gateway(gateway_index), CLUSTERS[cluster].into())
}

fn cluster(index: usize) -> Row {
    Row::Cluster(CLUSTERS[index].into(), shared(0))
}

fn shows(gateway: usize, cluster: usize) -> Row {
    Row::Shows(self::gateway(gateway), CLUSTERS[cluster].into(), SECRET.into())
}

fn endpoints(index: usize) -> Row {
    Row::Endpoints(CLUSTERS[index].into(), shared(0))
}

/// A Gateway with a listener, a table with one virtual host, and its cluster.
fn sound() -> Vec<Row> {
    vec![
        Row::Gateway(gateway(0)),
        listener(0, 0, &[]),
        table(0, 0),
        host(0, 0, &[0, 3]),
        member(0, 0),
        cluster(0),
        endpoints(0),
    ]
}

fn violations(rows: &[Row]) -> Vec<Violation> {
    let mut checker = Checker::default();
    checker.apply(&rows.iter().map(|row| (row.clone(), 1)).collect::<Vec<_>>());
    checker.violations().iter().cloned().collect()
}

#[test]
fn a_closed_set_of_rows_has_no_violation() {
    assert_eq!(violations(&sound()), []);
}

#[test]
fn each_missing_row_is_a_violation() {
    let gateway = gateway(0);
    let (table, cluster) = (Name::from("http-80"), Name::from("ns/s/80"));
    let expected = [
        (0, vec![Violation::NoGateway(gateway.clone())]),
        (1, vec![]),
        (2, vec![Violation::NoTable(gateway.clone(), table)]),
        (3, vec![Violation::UnusedMember(gateway.clone(), cluster.clone())]),
        (4, vec![Violation::NotMember(gateway, cluster.clone()), Violation::UnusedCluster(cluster.clone())]),
        (5, vec![Violation::NoCluster(cluster.clone()), Violation::StrayEndpoints(cluster.clone())]),
        (6, vec![Violation::NoEndpoints(cluster)]),
    ];
    for (missing, expected) in expected {
        let mut rows = sound();
        rows.remove(missing);
        assert_eq!(violations(&rows), expected, "without row {missing}");
    }
}

#[test]
fn a_certificate_that_a_cluster_shows_exists_and_so_does_the_cluster() {
    let (secret, shows) = (Row::Secret(gateway(0), crate::encode::secret_ref(SECRET.into(), "one")), shows(0, 0));
    let sound = || sound().into_iter();
    assert_eq!(violations(&sound().chain([secret.clone(), shows.clone()]).collect::<Vec<_>>()), []);
    let (owner, name) = (gateway(0), Name::from(SECRET));
    let lacks = violations(&sound().chain([shows.clone()]).collect::<Vec<_>>());
    assert_eq!(lacks, [Violation::NoSecret(owner.clone(), name.clone())]);
    assert_eq!(
        violations(&sound().chain([secret.clone()]).collect::<Vec<_>>()),
        [Violation::UnusedSecret(owner, name)]
    );
    let alone = violations(&[Row::Gateway(gateway(0)), secret, shows]);
    assert_eq!(alone, [Violation::NotMember(gateway(0), CLUSTERS[0].into())]);
}

#[test]
fn the_cluster_of_unresolved_references_must_not_exist() {
    let mut rows = sound();
    rows.push(endpoints(3));
    assert!(violations(&rows).contains(&Violation::InvalidExists));
}

#[test]
fn a_violation_goes_when_what_was_missing_comes() {
    let mut checker = Checker::default();
    for row in sound() {
        checker.apply(&[(row, 1)]);
    }
    assert!(checker.violations().is_empty());
    for row in sound() {
        checker.apply(&[(row, -1)]);
    }
    assert!(checker.violations().is_empty());
    assert!(checker.cluster_uses.0.is_empty() && checker.table_uses.0.is_empty(), "counts of nothing are kept");
}

/// Every row that may stand, each key with a choice of contents.
fn universe() -> Vec<Vec<Row>> {
    let mut keys = Vec::new();
    for g in 0..GATEWAYS.len() {
        keys.push(vec![Row::Gateway(gateway(g))]);
        let secret = |digest| Row::Secret(gateway(g), crate::encode::secret_ref(SECRET.into(), digest));
        keys.push(vec![secret("one"), secret("two")]);
        for t in 0..TABLES.len() {
            keys.push(vec![listener(g, t, &[]), listener(g, t, &[2])]);
            keys.push(vec![table(g, t)]);
            keys.push(vec![host(g, t, &[]), host(g, t, &[0, 3]), host(g, t, &[0, 1])]);
        }
        keys.extend((0..CLUSTERS.len()).map(|c| vec![member(g, c)]));
        keys.push(vec![shows(g, 0), Row::Shows(gateway(g), CLUSTERS[0].into(), "ns/other".into())]);
    }
    keys.extend((0..CLUSTERS.len()).map(|c| vec![cluster(c)]));
    keys.extend((0..CLUSTERS.len()).map(|c| vec![endpoints(c), Row::Endpoints(CLUSTERS[c].into(), shared(1))]));
    keys
}

/// Of `rows` those that are published: their Gateway is there, and of a virtual host its table.
fn founded(rows: Vec<Row>) -> Vec<Row> {
    let has = |wanted: &Row| rows.contains(wanted);
    let keep = |row: &&Row| match row {
        Row::Gateway(_) | Row::Cluster(..) | Row::Endpoints(..) => true,
        Row::KubeNode(..) | Row::Status(..) | Row::Held(_) => true,
        Row::Listener(gateway, _)
        | Row::Secret(gateway, _)
        | Row::Shows(gateway, ..)
        | Row::Table(gateway, _)
        | Row::Member(gateway, _) => has(&Row::Gateway(gateway.clone())),
        Row::VirtualHost(gateway, table, _, _) => {
            has(&Row::Gateway(gateway.clone())) && has(&Row::Table(gateway.clone(), table.clone()))
        }
    };
    rows.iter().filter(keep).cloned().collect()
}

proptest! {
    #[test]
    fn counting_finds_what_looking_at_everything_finds(
        steps in prop::collection::vec(prop::collection::vec(0..6_usize, universe().len()), 1..8)
    ) {
        let mut store = Store::new();
        let mut standing: Vec<Row> = Vec::new();
        for (epoch, picks) in (0..).zip(steps) {
            // A pick beyond the contents of a key leaves the key out.
            let picked = universe().into_iter().zip(picks).filter_map(|(key, pick)| key.into_iter().cycle().nth(pick).filter(|_| pick < 4));
            let next = founded(picked.collect());
            let gone = standing.iter().map(|row| (row.clone(), -1));
            let come = next.iter().map(|row| (row.clone(), 1));
            let sealed = store.seal(epoch, 0, come.chain(gone).collect());
            standing = next;
            prop_assert_eq!(store.violations().iter().cloned().collect::<Vec<_>>(), full(&sealed));
            let mut digest = crate::Digest::default();
            standing.iter().for_each(|row| digest.add(row, 1));
            prop_assert_eq!(digest, sealed.digest);
        }
    }
}
