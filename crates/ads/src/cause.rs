//! Why a response was sent, told from what the session was told: figures for people, on which nothing depends.

use crate::session::{Ask, Request, TypeUrl};
use tidegate_model::ResourceType;

/// Why a response was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A new seal changed it.
    Seal,
    /// A client asked for more, or for the first time; or says that it runs elsewhere.
    Subscription,
    /// A client that brings what it held before asked for the first time on its stream.
    Reconnect,
    /// It waited for the client to accept something else, or a part of what the client rejected as a whole.
    Acceptance,
    /// The client rejected something: the rest of it, or a narrower form.
    Rejection,
    /// Endpoints that follow their cluster, which is new or has changed: Envoy warms it and waits for them.
    Cluster,
    /// A time came: the grace of a cluster is over, or something has waited as long as it may.
    Due,
}

impl Cause {
    /// All of them.
    pub const ALL: [Cause; 7] = [
        Cause::Seal,
        Cause::Subscription,
        Cause::Reconnect,
        Cause::Acceptance,
        Cause::Rejection,
        Cause::Cluster,
        Cause::Due,
    ];

    /// The word for it, as labels have it.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            Cause::Seal => "seal",
            Cause::Subscription => "subscription",
            Cause::Reconnect => "reconnect",
            Cause::Acceptance => "acceptance",
            Cause::Rejection => "rejection",
            Cause::Cluster => "cluster",
            Cause::Due => "due",
        }
    }

    /// Whether what is sent for it carries the change of a seal, so that it has a time to be measured from.
    pub(crate) fn carries_change(self) -> bool {
        match self {
            Cause::Seal | Cause::Acceptance | Cause::Cluster => true,
            Cause::Subscription | Cause::Reconnect | Cause::Rejection | Cause::Due => false,
        }
    }
}

/// What a session is told at once, and answers with any number of responses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Occasion {
    /// The first seal: it answers what was asked before it, type by type.
    FirstSeal([Option<Cause>; ResourceType::ALL.len()]),
    /// Any other seal.
    Seal,
    /// A request for a type, which itself would be answered for the one cause, and others for the other.
    Request { kind: Option<ResourceType>, own: Cause, others: Cause },
    /// A time.
    Time,
}

impl Occasion {
    /// The client says that it runs elsewhere.
    pub(crate) const MOVED: Occasion =
        Occasion::Request { kind: None, own: Cause::Subscription, others: Cause::Subscription };

    /// Why the response of this type is sent; `follows` says whether one of clusters was sent before it, on this occasion.
    pub(crate) fn cause(self, kind: ResourceType, follows: bool) -> Cause {
        let cause = match self {
            // Clusters that nobody asked for are those of a client that warms some.
            Occasion::FirstSeal(asked) => asked[kind as usize].unwrap_or(Cause::Reconnect),
            Occasion::Seal => Cause::Seal,
            Occasion::Request { kind: of, own, others } => {
                if of == Some(kind) {
                    own
                } else {
                    others
                }
            }
            Occasion::Time => Cause::Due,
        };
        if follows && kind == ResourceType::Endpoints && matches!(cause, Cause::Seal | Cause::Acceptance | Cause::Due) {
            return Cause::Cluster;
        }
        cause
    }
}

/// What has been asked for on one stream, as far as causes depend on it.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// For what cause the first answer of each type is.
    first: [Option<Cause>; ResourceType::ALL.len()],
    /// State of the world: number and bytes of the names that were asked for last. What an acknowledgement repeats cannot
    /// be told from what is new without them; two names that change places with others as long are taken for the same.
    names: [(usize, usize); ResourceType::ALL.len()],
    sealed: bool,
}

impl Asked {
    /// Takes note of a request that the session is about to get.
    pub(crate) fn request(&mut self, request: &Request) -> Occasion {
        let TypeUrl::Served(kind) = request.type_url else {
            return Occasion::Request { kind: None, own: Cause::Subscription, others: Cause::Subscription };
        };
        let more = match &request.ask {
            Ask::Sotw { version: _, names } => {
                let size = (names.len(), names.iter().map(String::len).sum());
                std::mem::replace(&mut self.names[kind as usize], size) != size
            }
            Ask::Delta { subscribe, .. } => !subscribe.is_empty(),
        };
        let (own, others) = match (request.error.is_some(), self.first[kind as usize]) {
            (true, _) => (Cause::Rejection, Cause::Rejection),
            (false, None) => {
                let cause = if brings(&request.ask) { Cause::Reconnect } else { Cause::Subscription };
                self.first[kind as usize] = Some(cause);
                (cause, cause)
            }
            (false, Some(_)) => (if more { Cause::Subscription } else { Cause::Acceptance }, Cause::Acceptance),
        };
        Occasion::Request { kind: Some(kind), own, others }
    }

    /// Takes note of a seal that the session is about to get.
    pub(crate) fn seal(&mut self) -> Occasion {
        if std::mem::replace(&mut self.sealed, true) { Occasion::Seal } else { Occasion::FirstSeal(self.first) }
    }
}

/// Whether a first request says that the client holds something.
fn brings(ask: &Ask) -> bool {
    match ask {
        Ask::Sotw { version, names: _ } => !version.is_empty(),
        Ask::Delta { initial, .. } => !initial.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceType::{Cluster, Endpoints, Listener, Table};

    fn request(kind: ResourceType, version: &str, names: &[&str], error: Option<&str>) -> Request {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Request {
            type_url: TypeUrl::Served(kind),
            nonce: String::new(),
            error: error.map(str::to_owned),
            ask: Ask::Sotw { version: version.to_owned(), names },
        }
    }

    #[test]
    fn the_first_seal_answers_what_was_asked_before_it_and_the_others_what_they_change() {
        let mut asked = Asked::default();
        let _occasion = asked.request(&request(Listener, "", &[], None));
        let _occasion = asked.request(&request(Endpoints, "v1", &["a"], None));
        let first = asked.seal();
        assert_eq!(first.cause(Listener, false), Cause::Subscription);
        assert_eq!(first.cause(Endpoints, true), Cause::Reconnect);
        assert_eq!(first.cause(Cluster, false), Cause::Reconnect, "clusters that were not asked for");
        let second = asked.seal();
        assert_eq!((second.cause(Table, false), second.cause(Endpoints, true)), (Cause::Seal, Cause::Cluster));
    }

    #[test]
    fn a_request_is_a_question_an_acceptance_or_a_rejection() {
        let mut asked = Asked::default();
        let cause = |asked: &mut Asked, names: &[&str], error, kind| {
            asked.request(&request(Endpoints, "", names, error)).cause(kind, false)
        };
        assert_eq!(cause(&mut asked, &["a"], None, Endpoints), Cause::Subscription);
        assert_eq!(cause(&mut asked, &["a"], None, Table), Cause::Acceptance);
        assert_eq!(cause(&mut asked, &["a"], None, Endpoints), Cause::Acceptance);
        assert_eq!(cause(&mut asked, &["a", "b"], None, Endpoints), Cause::Subscription);
        assert_eq!(cause(&mut asked, &["a", "b"], Some("no"), Endpoints), Cause::Rejection);
    }
}
