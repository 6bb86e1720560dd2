use super::*;
use TrafficDistribution::{Any, Host, Network, Zone};
use tidegate_model::LEVELS;
use tidegate_xds::{When, encode};

/// `network/region/zone/sub-zone/host`, as far as it goes.
fn locality(text: &str) -> Locality {
    let mut levels = text.split('/').map(Name::from).chain(std::iter::repeat_with(Name::default));
    let mut next = || levels.next().unwrap();
    Locality { network: next(), region: next(), zone: next(), sub_zone: next(), host: next() }
}

fn members(places: &[&str]) -> Vec<Member> {
    let member = |(index, place): (usize, &&str)| Member {
        address: format!("10.0.0.{}", index + 1).into(),
        port: 80,
        locality: locality(place),
        draining: false,
        standing: Standing::Good,
    };
    places.iter().enumerate().map(member).collect()
}

/// Every form, with the number of encodings that it took to make them.
fn encoded(members: &[Member], distribution: TrafficDistribution) -> (Variants, usize) {
    let mut encodings = 0;
    let encode = |assignment: &ir::Assignment| {
        encodings += 1;
        encode::endpoints(assignment)
    };
    let variants = variants(&"c".into(), members, distribution, encode);
    (variants, encodings)
}

/// Whom the forms are for that are not for everybody.
fn whom(places: &[&str], distribution: TrafficDistribution) -> Vec<String> {
    let (variants, encodings) = encoded(&members(places), distribution);
    assert_eq!(encodings, variants.all().len(), "each form is encoded once, and nothing else is");
    let prefixes = variants.all()[1..].iter().map(|variant| match &variant.when {
        When::Any => panic!("there is one form for everybody"),
        When::Locality(prefix) => prefix.levels().iter().map(|level| &**level).collect::<Vec<_>>().join("/"),
    });
    prefixes.collect()
}

/// The fixture with Nodes in two regions.
const WORKERS: [&str; 4] = ["/r1/z2/s3/w1", "/r1/z2/s4/w2", "/r1/z3/s4/w3", "/r2/z1/s1/w4"];

#[test]
fn there_are_forms_for_the_places_that_have_members_and_no_others() {
    assert_eq!(whom(&WORKERS, Any), [""; 0]);
    assert_eq!(whom(&WORKERS, Network), [""; 0], "all are on one network");
    assert_eq!(whom(&WORKERS, Zone), ["/r1/z2", "/r1/z3", "/r1", "/r2"]);
    let by_host = ["/r1/z2/s3", "/r1/z2/s4", "/r1/z2", "/r1/z3", "/r1", "/r2"];
    assert_eq!(whom(&WORKERS, Host), by_host, "a host alone in its zone is told what the zone is told");
}

#[test]
fn a_place_that_is_told_what_a_wider_one_is_told_has_no_form() {
    assert_eq!(whom(&["/r1/z1", "/r1/z1", "/r1/z1"], Zone), [""; 0], "nobody is anywhere else");
    assert_eq!(whom(&["/r1/z1", "/r1/z2"], Zone), ["/r1/z1", "/r1/z2"]);
    assert_eq!(whom(&["n1", "n2"], Network), ["n1", "n2"]);
    assert_eq!(whom(&[], Host), [""; 0]);
}

#[test]
fn a_service_of_one_endpoint_a_node_has_a_form_for_each() {
    let places: Vec<String> = (0..40).map(|node| format!("/r/z{}/s/w{node}", node % 4)).collect();
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    assert_eq!(whom(&places, Zone).len(), 4);
    assert_eq!(whom(&places, Host).len(), 4 + 40);
}

/// The tiers of the members as a client sees them that is there.
fn tiers(places: &[&str], distribution: TrafficDistribution, client: &str) -> Vec<u32> {
    let members = members(places);
    let mut forms = BTreeMap::new();
    let variants = variants(&"c".into(), &members, distribution, |assignment| {
        let resource = encode::endpoints(assignment);
        forms.insert(resource.version, assignment.clone());
        resource
    });
    let form = &forms[&variants.choose(&locality(client)).version];
    let mut found: BTreeMap<&Name, u32> = BTreeMap::new();
    for locality in &form.localities {
        found.extend(locality.endpoints.iter().map(|endpoint| (&endpoint.address, locality.priority)));
    }
    assert_eq!(found.len(), members.len(), "everybody gets every member");
    members.iter().map(|member| found[&member.address]).collect()
}

#[test]
fn tiers_follow_the_first_level_that_differs_and_have_no_gaps() {
    for (distribution, client, expected) in [
        (Zone, "/r1/z2/s3/w1", [0, 0, 1, 2]),
        (Zone, "/r1/z3/s4/w3", [1, 1, 0, 2]),
        (Zone, "/r2/z1/s1/w4", [1, 1, 1, 0]),
        (Zone, "/r1/z9", [0, 0, 0, 1]),
        (Zone, "/r2/z2", [1, 1, 1, 0]),
        (Zone, "/r9/z2", [0, 0, 0, 0]),
        (Zone, "n/r1/z2", [0, 0, 0, 0]),
        (Host, "/r1/z2/s3/w1", [0, 1, 2, 3]),
        (Host, "/r1/z2/s4/w1", [1, 0, 2, 3]),
        (Host, "/r1/z2/s4/w3", [1, 0, 2, 3]),
        (Host, "/r1/z3/s3/w1", [1, 1, 0, 2]),
        (Host, "/r2/z1/s1/w9", [1, 1, 1, 0]),
        (Host, "", [0, 0, 0, 0]),
        (Network, "/r2", [0, 0, 0, 0]),
        (Any, "/r1/z2/s3/w1", [0, 0, 0, 0]),
    ] {
        assert_eq!(tiers(&WORKERS, distribution, client), expected, "{distribution:?} {client}");
    }
}

#[test]
fn what_drains_does_so_in_every_form() {
    let mut members = members(&WORKERS);
    members[1].draining = true;
    let mut forms = 0;
    let count = |assignment: &ir::Assignment| {
        let draining = assignment.localities.iter().flat_map(|locality| &locality.endpoints).filter(|e| e.draining);
        forms += 1;
        assert_eq!(draining.map(|endpoint| &*endpoint.address).collect::<Vec<_>>(), ["10.0.0.2"]);
        encode::endpoints(assignment)
    };
    let _variants = variants(&"c".into(), &members, Host, count);
    assert_eq!(forms, 7);
    assert_eq!(LEVELS, Host.depth());
}
