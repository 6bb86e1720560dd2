//! A delta client in this process, on a session: it asks for everything of its Gateway, accepts it, and asks for the
//! endpoints of whatever cluster it gets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tidegate_ads::messages::encode;
use tidegate_ads::session::{Ask, Client as Peer, Limits, Protocol, Reply, Request, Response, Session, TypeUrl};
use tidegate_model::{ClientId, Locality, Millis, Name, NamespacedName, ResourceType};
use tidegate_xds::Sealed;

/// What a client holds: versions by name, of each type.
pub type Holding = BTreeMap<ResourceType, BTreeMap<Name, String>>;

/// A client and its session.
pub struct Client {
    session: Session,
    /// Clusters whose endpoints it asked for; none if it shall ask for no more.
    clusters: Option<BTreeSet<Name>>,
    now: Millis,
}

/// What a client was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Responses.
    pub responses: usize,
    /// Resources in them, by type.
    pub resources: BTreeMap<ResourceType, usize>,
    /// Bytes on the wire, by type: frames as they would be sent.
    pub bytes: BTreeMap<ResourceType, usize>,
    /// Where the bytes of endpoint assignments lie: what is shared counts once.
    pub assignments: Vec<usize>,
}

impl Received {
    /// Bytes of all types.
    #[must_use]
    pub fn total(&self) -> usize {
        self.bytes.values().sum()
    }

    fn take(&mut self, response: &Response) {
        let TypeUrl::Served(kind) = response.type_url else { return };
        self.responses += 1;
        *self.resources.entry(kind).or_default() += response.resources.len();
        let frames = encode(Protocol::Delta, response);
        *self.bytes.entry(kind).or_default() += frames.iter().map(bytes::Bytes::len).sum::<usize>();
        if kind == ResourceType::Endpoints {
            self.assignments.extend(response.resources.iter().map(|resource| resource.bytes.as_ptr() as usize));
        }
    }

    /// Adds what another one was sent.
    pub fn add(&mut self, other: Received) {
        self.responses += other.responses;
        for (kind, resources) in other.resources {
            *self.resources.entry(kind).or_default() += resources;
        }
        for (kind, bytes) in other.bytes {
            *self.bytes.entry(kind).or_default() += bytes;
        }
        self.assignments.extend(other.assignments);
    }
}

impl Client {
    /// A client that holds nothing connects and gets everything.
    ///
    /// # Panics
    ///
    /// If the session gives up.
    #[must_use]
    pub fn connect(index: usize, gateway: &NamespacedName, sealed: &Arc<Sealed>, now: Millis) -> (Self, Received) {
        Client::reconnect(index, gateway, &Holding::new(), sealed, now)
    }

    /// The same with a client that says what it holds.
    ///
    /// # Panics
    ///
    /// If the session gives up.
    #[must_use]
    pub fn reconnect(
        index: usize,
        gateway: &NamespacedName,
        holding: &Holding,
        sealed: &Arc<Sealed>,
        now: Millis,
    ) -> (Self, Received) {
        let id = ClientId { stream: index as u64, node: Name::from(format!("client-{index}")) };
        let peer = Peer { id, gateway: gateway.clone(), locality: Locality::default() };
        let session = Session::new(Protocol::Delta, peer, Limits::default());
        let held = holding.get(&ResourceType::Endpoints).into_iter().flat_map(BTreeMap::keys).cloned();
        let mut client = Client { session, clusters: Some(held.collect()), now };
        let mut received = Received::default();
        let replies = client.session.on_sealed(Arc::clone(sealed), now);
        client.accept(replies, &mut received);
        for kind in ResourceType::ALL {
            let initial = holding.get(&kind).cloned().unwrap_or_default();
            let subscribe = match kind {
                ResourceType::Cluster | ResourceType::Listener => Vec::new(),
                // They were asked for when their clusters came.
                ResourceType::Endpoints if initial.is_empty() => continue,
                ResourceType::Endpoints | ResourceType::Secret | ResourceType::Table => sealed.names(gateway, kind),
            };
            let replies = client.ask(kind, String::new(), subscribe, initial);
            client.accept(replies, &mut received);
        }
        (client, received)
    }

    /// Takes a new seal to the last byte that follows from it.
    pub fn follow(&mut self, sealed: &Arc<Sealed>, now: Millis) -> Received {
        let mut received = Received::default();
        let replies = self.plan(sealed, now);
        self.accept(replies, &mut received);
        received
    }

    /// What the session makes of a new seal; to be [accepted](Client::accept).
    #[must_use]
    pub fn plan(&mut self, sealed: &Arc<Sealed>, now: Millis) -> Vec<Reply> {
        self.now = now;
        self.session.on_sealed(Arc::clone(sealed), now)
    }

    /// Accepts what is sent, and what is sent because of that.
    ///
    /// # Panics
    ///
    /// If the session gives up.
    pub fn accept(&mut self, replies: Vec<Reply>, received: &mut Received) {
        let mut queue = VecDeque::from(replies);
        while let Some(reply) = queue.pop_front() {
            match reply {
                Reply::Send(response) => {
                    received.take(&response);
                    queue.extend(self.answer(&response));
                }
                Reply::Observe(_) | Reply::Remember(_) => {}
                Reply::Close(close) => panic!("a session gave up: {close}"),
            }
        }
    }

    /// Accepts a response; asks for the endpoints of clusters that are new.
    fn answer(&mut self, response: &Response) -> Vec<Reply> {
        let TypeUrl::Served(kind) = response.type_url else { panic!("nobody asked for {:?}", response.type_url) };
        let mut replies = self.ask(kind, response.nonce.clone(), Vec::new(), BTreeMap::new());
        if kind == ResourceType::Cluster
            && let Some(clusters) = &mut self.clusters
        {
            response.removed.iter().for_each(|name| _ = clusters.remove(name));
            let names = response.resources.iter().map(|resource| resource.name.clone());
            let new: Vec<Name> = names.filter(|name| clusters.insert(name.clone())).collect();
            if !new.is_empty() {
                replies.extend(self.ask(ResourceType::Endpoints, String::new(), new, BTreeMap::new()));
            }
        }
        replies
    }

    fn ask(
        &mut self,
        kind: ResourceType,
        nonce: String,
        subscribe: Vec<Name>,
        initial: BTreeMap<Name, String>,
    ) -> Vec<Reply> {
        let ask = Ask::Delta { subscribe, unsubscribe: Vec::new(), initial };
        let request = Request { type_url: TypeUrl::Served(kind), nonce, error: None, ask };
        self.session.on_request(request, self.now)
    }

    /// Resources in which it differs from the newest seal.
    #[must_use]
    pub fn behind(&self) -> usize {
        self.session.stats().types.iter().map(|figures| figures.behind).sum()
    }

    /// Clusters whose endpoints it asked for.
    #[must_use]
    pub fn clusters(&self) -> usize {
        self.clusters.as_ref().map_or(0, BTreeSet::len)
    }

    /// Asks for no further endpoints, and remembers nothing that only this needs.
    #[must_use]
    pub fn content(self) -> Self {
        Client { clusters: None, ..self }
    }
}

/// What a client of the Gateway holds that has everything.
#[must_use]
pub fn holding(sealed: &Sealed, gateway: &NamespacedName) -> Holding {
    let of_type = |kind: ResourceType| {
        let names = sealed.names(gateway, kind).into_iter();
        let version = |name: Name| Some((name.clone(), sealed.resource(gateway, kind, &name)?.version.to_string()));
        (kind, names.filter_map(version).collect())
    };
    ResourceType::ALL.into_iter().map(of_type).collect()
}

/// That many clients, spread over the Gateways, that ask for nothing more.
#[must_use]
pub fn fleet(cluster: &crate::Cluster, count: usize, now: Millis) -> Vec<Client> {
    let connect = |index| Client::connect(index, &gateway_of(cluster, index), &cluster.sealed, now).0.content();
    (0..count).map(connect).collect()
}

/// The Gateway of a client.
#[must_use]
pub fn gateway_of(cluster: &crate::Cluster, client: usize) -> NamespacedName {
    cluster.fanout.gateway_name(client % cluster.fanout.shape().gateways)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, Size};

    #[test]
    fn a_client_gets_everything_once_and_its_endpoints_alone_when_it_comes_back() {
        let cluster = Cluster::start(Size::quick().shape());
        for index in [0, 1] {
            let gateway = gateway_of(&cluster, index);
            let (client, received) = Client::connect(index, &gateway, &cluster.sealed, 1);
            assert_eq!(client.behind(), 0);
            let names = cluster.sealed.names(&gateway, ResourceType::Endpoints).len();
            assert_eq!((client.clusters(), received.resources[&ResourceType::Endpoints]), (names, names));
            assert!(names > 0 && received.total() > 1_000, "{received:?}");
            // A cluster may be warming and wait for them.
            let holding = holding(&cluster.sealed, &gateway);
            let (back, again) = Client::reconnect(index, &gateway, &holding, &cluster.sealed, 2);
            assert_eq!((back.behind(), again.resources), (0, BTreeMap::from([(ResourceType::Endpoints, names)])));
        }
    }
}
