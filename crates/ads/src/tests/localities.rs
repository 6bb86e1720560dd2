//! Clients that are at different places.

use super::harness::{BOTH, EDS, Harness};
use super::raw::{self, Raw};
use super::server::start;
use super::world::{GATEWAY, World, in_zone};
use crate::Config;
use crate::session::{Ask, Client, Limits, Protocol, Reply, Request, Session, TypeUrl};
use prost::Message;
use std::sync::Arc;
use tidegate_model::{ClientId, Locality, Name, NamespacedName};
use tidegate_proto::envoy::config::core::v3 as envoy;
use tidegate_proto::envoy::config::core::v3::address::Address;
use tidegate_proto::envoy::config::endpoint::v3::{ClusterLoadAssignment, lb_endpoint};
use tidegate_proto::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use tidegate_xds::Sealed;

/// The endpoints of `a` differ by zone, those of `z` do not.
fn shop() -> World {
    let mut world = World::new();
    world.route("a.example", &["a"]).route("z.example", &["z"]);
    world.endpoints_in("a", "z1", &["10.0.0.11"]).endpoints_in("a", "z2", &["10.0.0.12"]);
    world
}

fn on_node(name: &str) -> Locality {
    Locality { host: Name::from(name), ..Locality::default() }
}

fn client(protocol: Protocol, locality: Locality, sealed: &Arc<Sealed>) -> Harness {
    let mut harness = Harness::at(protocol, Limits::default(), locality);
    harness.plan(sealed.clone());
    harness.run();
    harness.assert_clean();
    harness.assert_current();
    harness.take_log();
    harness
}

#[test]
fn a_change_for_one_zone_is_sent_there_and_nowhere_else() {
    for protocol in BOTH {
        let mut world = shop();
        let sealed = world.seal();
        let mut clients = [in_zone("z1"), in_zone("z2"), in_zone("z3")].map(|at| client(protocol, at, &sealed));
        world.endpoints_in("a", "z2", &["10.0.0.22"]);
        let sealed = world.seal();
        let sent = clients.each_mut().map(|client| {
            client.plan(sealed.clone());
            let behind: usize = client.stats().types.iter().map(|figures| figures.behind).sum();
            client.run();
            client.assert_current();
            (behind, client.take_log())
        });
        let nothing = (0, vec![]);
        assert_eq!(sent, [nothing.clone(), (0, vec!["eds a".to_owned()]), nothing], "{protocol}");
    }
}

#[test]
fn a_node_that_is_relabelled_moves_its_clients_on_their_open_streams() {
    for protocol in BOTH {
        let mut world = shop();
        world.node("left", "z1").node("right", "z2");
        let sealed = world.seal();
        let mut clients = ["left", "left", "right"].map(|node| client(protocol, on_node(node), &sealed));
        world.node("left", "z2");
        let sealed = world.seal();
        let sent = clients.each_mut().map(|client| {
            client.plan(sealed.clone());
            client.run();
            client.assert_clean();
            client.assert_current();
            client.take_log()
        });
        assert_eq!(sent, [vec!["eds a".to_owned()], vec!["eds a".to_owned()], vec![]], "{protocol}");
        // To a zone of which nothing is said in particular, and back in one step with another change.
        world.node("left", "z3");
        clients[0].seal(&mut world);
        world.node("left", "z2").endpoints("z", &["10.0.0.9"]);
        clients[0].seal(&mut world);
        clients[0].run();
        clients[0].assert_current();
    }
}

#[test]
fn a_client_that_says_that_it_is_elsewhere_gets_what_differs_there() {
    for protocol in BOTH {
        let mut world = shop();
        let sealed = world.seal();
        let mut client = client(protocol, in_zone("z1"), &sealed);
        client.moves(in_zone("z2"));
        client.run();
        assert_eq!(client.take_log(), ["eds a"], "{protocol}");
        client.moves(in_zone("z2"));
        client.moves(Locality { host: "any".into(), ..in_zone("z2") });
        client.run();
        assert_eq!(client.take_log(), [""; 0], "{protocol}");
        client.assert_clean();
        client.assert_current();
        // It may connect anew wherever it is.
        client.reconnect(Some(sealed));
        client.run();
        client.assert_clean();
        client.assert_current();
    }
}

#[test]
fn a_client_that_says_so_before_the_first_seal_gets_that_alone() {
    for protocol in BOTH {
        let mut world = shop();
        let mut client = Harness::at(protocol, Limits::default(), in_zone("z1"));
        client.moves(in_zone("z2"));
        let mut client = client.start(&mut world);
        client.assert_current();
        assert_eq!(client.take_log(), [""; 0]);
    }
}

/// The address of the only endpoint that a response has.
fn address(response: &DeltaDiscoveryResponse) -> String {
    let resource = response.resources[0].resource.as_ref().unwrap();
    let assignment = ClusterLoadAssignment::decode(&*resource.value).unwrap();
    let endpoint = assignment.endpoints[0].lb_endpoints[0].host_identifier.clone().unwrap();
    let lb_endpoint::HostIdentifier::Endpoint(endpoint) = endpoint else { panic!("{endpoint:?}") };
    match endpoint.address.and_then(|address| address.address) {
        Some(Address::SocketAddress(socket)) => socket.address,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_node_says_where_it_is_with_its_first_request_and_may_say_another_place_later() {
    let server = start(Config::default(), 100).await;
    server.seal(&mut shop());
    let there = |zone: &str| envoy::Locality { zone: zone.to_owned(), ..envoy::Locality::default() };
    let node = |zone| envoy::Node { locality: Some(there(zone)), ..raw::node("raw", GATEWAY) };
    let first = raw::ask_delta(EDS.url(), &["a"]);
    let mut stream = Raw::delta(&server, DeltaDiscoveryRequest { node: Some(node("z1")), ..first.clone() }).await;
    let (response, _) = stream.delta_of(EDS.url()).await;
    assert_eq!(address(&response), "10.0.0.11");
    let accepts = DeltaDiscoveryRequest {
        node: Some(node("z2")),
        type_url: EDS.url().to_owned(),
        response_nonce: response.nonce,
        ..DeltaDiscoveryRequest::default()
    };
    stream.send(&accepts).await;
    let (response, _) = stream.delta_of(EDS.url()).await;
    assert_eq!(address(&response), "10.0.0.12");
    assert_eq!(server.config.clients.snapshot()[0].session.locality, in_zone("z2"));
    server.stop().await;
}

/// Nothing is encoded for a client: every one of a zone is sent the very bytes that were sealed, and there are as many
/// different ones as there are forms.
#[test]
fn clients_share_the_bytes_of_their_form() {
    let mut world = shop();
    let sealed = world.seal();
    let mut pointers: Vec<*const u8> = (0..30)
        .map(|number: u64| {
            let id = ClientId { stream: number, node: Name::from("envoy") };
            let locality = in_zone(["z1", "z2", "z3"][usize::try_from(number % 3).unwrap()]);
            let client = Client { id, gateway: NamespacedName::parse(GATEWAY), locality };
            let mut session = Session::new(Protocol::Sotw, client, Limits::default());
            let ask = Ask::Sotw { version: String::new(), names: vec!["a".to_owned()] };
            let request = Request { type_url: TypeUrl::Served(EDS), nonce: String::new(), error: None, ask };
            session.on_request(request, 1);
            let replies = session.on_sealed(sealed.clone(), 1);
            let sent = replies.into_iter().find_map(|reply| match reply {
                Reply::Send(response) if response.type_url == TypeUrl::Served(EDS) => Some(response),
                Reply::Send(_) | Reply::Observe(_) | Reply::Remember(_) | Reply::Close(_) => None,
            });
            sent.unwrap().resources[0].bytes.as_ptr()
        })
        .collect();
    pointers.sort_unstable();
    pointers.dedup();
    assert_eq!(pointers.len(), 3);
    assert_eq!(sealed.endpoints["a"].all().len(), 3);
}
