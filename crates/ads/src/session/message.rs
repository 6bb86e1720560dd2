//! What a session takes and what it answers: the words of both protocols, without their encoding.

use super::isolation::Rejections;
use std::collections::BTreeMap;
use std::fmt;
use tidegate_model::{ClientId, Locality, Millis, Name, NamespacedName, Observation, ResourceType};
use tidegate_xds::Resource;

/// The two forms of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// State of the world: a response of clusters or listeners holds all of them.
    Sotw,
    /// Incremental: responses hold changes and removals.
    Delta,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Protocol::Sotw => "sotw",
            Protocol::Delta => "delta",
        })
    }
}

/// Who is at the other end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The client.
    pub id: ClientId,
    /// The Gateway whose configuration it gets.
    pub gateway: NamespacedName,
    /// Where it says that it runs; the host is the name of its Node.
    pub locality: Locality,
}

/// In which order a client learns things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sequencing {
    /// What is named before what names it, and the other way round for removals.
    #[default]
    Ordered,
    /// Everything at each seal, removals included: nothing waits for clusters, acceptance or grace. For tests that show
    /// what the rules prevent; nothing that a user can set leads here.
    Eager,
    /// Ordered but for one rule. For tests that show what that rule prevents.
    Without(Rule),
}

/// A rule of the order, as far as one can be left out by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A listener or table waits for clusters that are new to the client.
    AddBeforeUse,
    /// A cluster is taken back when nothing that the client holds names it any more.
    RemoveAfterUse,
    /// Endpoints follow a cluster that changed.
    Rewarm,
    /// What is rejected is not sent again.
    Isolation,
    /// What waits stays as it is: newer forms wait behind it.
    Pinning,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 5] = [Rule::AddBeforeUse, Rule::RemoveAfterUse, Rule::Rewarm, Rule::Isolation, Rule::Pinning];
}

/// Bounds of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a cluster stays after nothing that the client holds names it any more, in milliseconds. Covers
    /// requests that retry, or wait before the router; 0 is allowed.
    pub grace_ms: Millis,
    /// How long a table or listener waits at most for clusters that are new to the client, in milliseconds.
    pub pin_ms: Millis,
    /// How long Envoy drains the connections of a listener that was replaced, in milliseconds: until then they may use
    /// the clusters that it named directly. Envoy's `--drain-time-s`.
    pub drain_ms: Millis,
    /// How many responses of one type are remembered while the client acknowledges none of them. Older ones are then
    /// remembered as one.
    pub max_inflight: usize,
    /// How many names a client may ask for, of one type.
    pub max_names: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { grace_ms: 5_000, pin_ms: 1_000, drain_ms: 600_000, max_inflight: 64, max_names: 1_000_000 }
    }
}

/// The type that a message speaks of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TypeUrl {
    /// A type that is served.
    Served(ResourceType),
    /// A type that is not served, by its URL.
    Other(Name),
}

impl TypeUrl {
    /// The type of this URL.
    #[must_use]
    pub fn new(url: &str) -> Self {
        ResourceType::of_url(url).map_or_else(|| TypeUrl::Other(Name::from(url)), TypeUrl::Served)
    }

    /// The URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            TypeUrl::Served(kind) => kind.url(),
            TypeUrl::Other(url) => url,
        }
    }
}

/// A discovery request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The type asked for.
    pub type_url: TypeUrl,
    /// Nonce of the response that this acknowledges or rejects, empty if none.
    pub nonce: String,
    /// Why the response was rejected; `None` accepts it.
    pub error: Option<String>,
    /// What is asked for.
    pub ask: Ask,
}

/// What a request asks for, in the words of its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// State of the world.
    Sotw {
        /// Version that was last accepted, empty if none.
        version: String,
        /// All names asked for. Texts: with every acknowledgement they come again, nearly always unchanged.
        names: Vec<String>,
    },
    /// Incremental.
    Delta {
        /// Names asked for from now on.
        subscribe: Vec<Name>,
        /// Names not asked for any more.
        unsubscribe: Vec<Name>,
        /// On the first request of a type: what the client holds, with versions.
        initial: BTreeMap<Name, String>,
    },
}

/// What a session wants done. Order matters: sends go out in the order in which they are returned.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Send this response.
    Send(Response),
    /// End the stream.
    Close(Close),
    /// Tell the rest of the program.
    Observe(Observation),
    /// Keep this for the next stream of the client: what it rejects.
    Remember(Rejections),
}

/// A discovery response of either protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The type.
    pub type_url: TypeUrl,
    /// Nonce, unique on its stream.
    pub nonce: String,
    /// `version_info` or `system_version_info`: a hash over all that the client then holds of the type.
    pub version: String,
    /// Resources, each name once, sorted by name.
    pub resources: Vec<Resource>,
    /// Names that are gone or not there. Empty in the state-of-the-world protocol.
    pub removed: Vec<Name>,
}

/// Why a session ends its stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Close {
    /// The client asks for more names than it may.
    #[error(
        "client {client} asks for {names} resources of {type_url}, at most {limit} are allowed: raise the limit or ask for less"
    )]
    TooManyNames {
        /// Who.
        client: ClientId,
        /// Of which type.
        type_url: &'static str,
        /// How many.
        names: usize,
        /// The bound.
        limit: usize,
    },
}
