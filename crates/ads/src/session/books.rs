//! What a client holds of one type, kept as its difference from what it shall hold: a client that is up to date costs
//! nothing but its subscription.

use crate::session::fold::Fold;
use crate::session::halving::Halving;
use crate::session::subscription::Subscription;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tidegate_model::{Epoch, Name};
use tidegate_xds::{Resource, Version};

/// What a client holds under one name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Held {
    /// Nothing.
    Nothing,
    /// Something, in a form that we do not know.
    Unknown,
    /// What the client says has this version.
    Listed(Name),
    /// This.
    Form(Resource),
}

impl Held {
    pub(crate) fn of(resource: Option<&Resource>) -> Self {
        resource.map_or(Held::Nothing, |resource| Held::Form(resource.clone()))
    }

    /// What is held, if it is known.
    pub(crate) fn form(&self) -> Option<&Resource> {
        match self {
            Held::Nothing | Held::Unknown | Held::Listed(_) => None,
            Held::Form(resource) => Some(resource),
        }
    }

    fn version(&self) -> Option<Version> {
        self.form().map(|resource| resource.version)
    }

    /// Whether a client that holds this has what it shall have.
    pub(crate) fn is(&self, wanted: Option<&Resource>) -> bool {
        match (self, wanted) {
            (Held::Nothing, None) => true,
            (Held::Form(held), Some(wanted)) => held.version == wanted.version,
            (Held::Listed(version), Some(wanted)) => wanted.version.to_string() == **version,
            (Held::Nothing | Held::Unknown, Some(_)) => false,
            (Held::Unknown | Held::Listed(_) | Held::Form(_), None) => false,
        }
    }
}

/// A response that is neither accepted nor rejected yet.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// Its nonce.
    pub(crate) nonce: u64,
    /// Epoch of the seal that it was made of.
    pub(crate) epoch: Epoch,
    /// Its `version_info`.
    pub(crate) version: String,
    /// What it changed at the client.
    pub(crate) changes: Vec<SentChange>,
}

impl Sent {
    /// Counts an earlier response as part of this one.
    pub(crate) fn absorb(&mut self, earlier: Sent) {
        let places = self.changes.iter().enumerate().map(|(place, change)| (change.name.clone(), place));
        let places: BTreeMap<Name, usize> = places.collect();
        for change in earlier.changes {
            match places.get(&change.name) {
                Some(place) => self.changes[*place].before = change.before,
                None => self.changes.push(change),
            }
        }
    }
}

/// One change that a response makes at the client.
#[derive(Clone, Debug)]
pub(crate) struct SentChange {
    /// Of this resource.
    pub(crate) name: Name,
    /// To this version; `None` removes it.
    pub(crate) version: Option<Version>,
    /// What the client held before.
    pub(crate) before: Held,
}

/// The first request of a type, kept until there is a seal to answer it from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opening {
    /// State of the world: the version that the client brings, empty if none.
    pub(crate) version: String,
    /// Delta: what the client brings.
    pub(crate) initial: BTreeMap<Name, String>,
    /// The client did not ask; what it brings is not known.
    pub(crate) implied: bool,
}

impl Opening {
    /// Whether the client brings something from an earlier stream.
    pub(crate) fn is_warm(&self) -> bool {
        self.implied || !self.version.is_empty() || !self.initial.is_empty()
    }
}

/// A version of a resource that a client rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedResource {
    /// The version.
    pub version: Version,
    /// Why, in the words of the client.
    pub detail: Name,
    /// What the client has instead, if that is known: the form that it accepted last.
    pub kept: Option<Resource>,
}

/// How many rejected versions of one resource are remembered; the oldest is forgotten, and then tried again.
const MAX_REJECTED_VERSIONS: usize = 8;

/// Of how many resources of a type rejections are remembered; the first by name are forgotten, and then tried again.
const MAX_REJECTED_NAMES: usize = 1024;

/// How far a type is opened on a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Not asked for.
    #[default]
    No,
    /// Asked for, before there was a seal.
    Asked(Opening),
    /// Served.
    Yes,
}

/// What one client holds of one type.
///
/// *Invariant*: `behind` has exactly the names whose [`Held`] is not what the target wants; every other name that is
/// tracked is held as the target has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    /// What is asked for.
    pub(crate) subscription: Subscription,
    /// Whether the type is served.
    pub(crate) opened: Opened,
    /// Where the client differs from the target.
    pub(crate) behind: BTreeMap<Name, Held>,
    /// What the client rejects, the newest last: parked until its content changes.
    pub(crate) rejected: BTreeMap<Name, Vec<RejectedResource>>,
    /// Resources of a response that was rejected and named nobody: which of them is it?
    pub(crate) suspects: Halving<Name>,
    /// Why that response was rejected.
    pub(crate) suspects_detail: Name,
    /// What the client accepted of them before.
    pub(crate) suspects_kept: BTreeMap<Name, Resource>,
    /// Responses before this nonce were sent before the last rejection was known.
    pub(crate) judged_below: u64,
    /// Responses without an answer, oldest first.
    pub(crate) inflight: VecDeque<Sent>,
    /// Names asked for that are not there, still to be answered.
    pub(crate) missing: BTreeSet<Name>,
    /// An answer is owed, be it an empty one.
    pub(crate) must_answer: bool,
    /// The client may hold resources whose very names are not known, until it accepts a complete response.
    pub(crate) holds_unlisted: bool,
    /// Something was sent on this stream.
    pub(crate) has_sent: bool,
    /// Hash over what the client holds.
    pub(crate) fold: Fold,
    /// Version of the last response.
    pub(crate) sent_version: String,
    /// Version of the last response that was accepted.
    pub(crate) acked_version: String,
    /// Responses rejected on this stream.
    pub(crate) nacks: u64,
}

impl Books {
    /// Whether the type is served on this stream.
    pub(crate) fn is_open(&self) -> bool {
        self.opened == Opened::Yes
    }

    /// What the client holds under a tracked name.
    pub(crate) fn held(&self, name: &Name, wanted: Option<&Resource>) -> Held {
        self.behind.get(name).cloned().unwrap_or_else(|| Held::of(wanted))
    }

    /// Whether the client holds something under a tracked name.
    pub(crate) fn holds(&self, name: &Name, wanted: Option<&Resource>) -> bool {
        self.behind.get(name).map_or(wanted.is_some(), |held| *held != Held::Nothing)
    }

    /// Whether exactly this was rejected.
    pub(crate) fn is_parked(&self, name: &Name, wanted: &Resource) -> bool {
        self.rejection(name, wanted).is_some()
    }

    /// What is known of the rejection of exactly this.
    pub(crate) fn rejection(&self, name: &Name, wanted: &Resource) -> Option<&RejectedResource> {
        self.rejected.get(name)?.iter().find(|rejected| rejected.version == wanted.version)
    }

    /// Whether the resource was rejected in this version.
    pub(crate) fn has_rejected(&self, name: &Name, version: Version) -> bool {
        self.rejected.get(name).is_some_and(|all| all.iter().any(|rejected| rejected.version == version))
    }

    /// Whether the client holds something that is not known, in place of a version that it is known to reject.
    pub(crate) fn is_unknown_and_rejected(&self, name: &Name, version: Version) -> bool {
        let is_unknown = matches!(self.behind.get(name), Some(Held::Unknown | Held::Listed(_)));
        is_unknown && self.has_rejected(name, version)
    }

    /// Parks what was rejected.
    pub(crate) fn park(&mut self, name: &Name, rejected: RejectedResource) {
        let all = self.rejected.entry(name.clone()).or_default();
        all.retain(|other| other.version != rejected.version);
        all.push(rejected);
        if all.len() > MAX_REJECTED_VERSIONS {
            all.remove(0);
        }
        while self.rejected.len() > MAX_REJECTED_NAMES {
            self.rejected.pop_first();
        }
    }

    /// What the client had before it rejected a response, also as far as a later response that is on its way assumes that
    /// it was accepted. True if there is such a later one.
    pub(crate) fn rebase(&mut self, name: &Name, before: &Held) -> bool {
        let later = self.inflight.iter_mut().flat_map(|sent| &mut sent.changes).find(|change| change.name == *name);
        match later {
            Some(change) => {
                change.before = before.clone();
                true
            }
            None => false,
        }
    }

    /// The target changes from `old` to `new`; what the client holds does not.
    pub(crate) fn retarget(&mut self, name: &Name, old: Option<&Resource>, new: Option<&Resource>) {
        let held = self.behind.remove(name).unwrap_or_else(|| Held::of(old));
        self.keep_if_behind(name, held, new);
    }

    /// Begins to track a name of which the client is known to hold this.
    pub(crate) fn begin(&mut self, name: &Name, held: Held, wanted: Option<&Resource>) {
        if let Some(version) = held.version() {
            self.fold.add(name, version);
        }
        self.keep_if_behind(name, held, wanted);
    }

    /// What the client holds becomes `held`; returns what it was.
    pub(crate) fn put(&mut self, name: &Name, held: Held, wanted: Option<&Resource>) -> Held {
        let before = self.behind.remove(name).unwrap_or_else(|| Held::of(wanted));
        if let Some(version) = before.version() {
            self.fold.remove(name, version);
        }
        self.begin(name, held, wanted);
        before
    }

    /// Ends tracking a name: the client does not hold it, and need not.
    pub(crate) fn end(&mut self, name: &Name, wanted: Option<&Resource>) {
        self.put(name, Held::Nothing, wanted);
        self.behind.remove(name);
        self.missing.remove(name);
    }

    fn keep_if_behind(&mut self, name: &Name, mut held: Held, wanted: Option<&Resource>) {
        if let (Held::Listed(_), Some(wanted)) = (&held, wanted)
            && held.is(Some(wanted))
        {
            self.fold.add(name, wanted.version);
            held = Held::Form(wanted.clone());
        }
        if !held.is(wanted) {
            self.behind.insert(name.clone(), held);
        }
    }

    /// Remembers a response. While a client answers none, the oldest two become one, so that there is a bound.
    pub(crate) fn remember(&mut self, sent: Sent, max_inflight: usize) {
        self.has_sent = true;
        self.sent_version.clone_from(&sent.version);
        self.inflight.push_back(sent);
        if self.inflight.len() > max_inflight.max(1)
            && let Some(oldest) = self.inflight.pop_front()
            && let Some(next) = self.inflight.front_mut()
        {
            next.absorb(oldest);
        }
    }

    /// The client asks for nothing any more: responses that held nothing, it takes without a word.
    pub(crate) fn forget_unanswered(&mut self) {
        self.inflight.retain(|sent| !sent.changes.is_empty());
    }

    /// Takes the responses up to `nonce` out; the last one is the one that has it. Empty if there is none: a stale nonce.
    pub(crate) fn answered(&mut self, nonce: u64) -> Vec<Sent> {
        match self.inflight.iter().position(|sent| sent.nonce == nonce) {
            Some(position) => self.inflight.drain(..=position).collect(),
            None => Vec::new(),
        }
    }

    /// Whether a client that had nothing under the name has not answered yet what it was sent.
    pub(crate) fn is_first_on_its_way(&self, name: &Name) -> bool {
        let mut changes = self.inflight.iter().flat_map(|sent| &sent.changes).filter(|change| change.name == *name);
        changes.any(|change| change.before == Held::Nothing)
    }

    /// Whether a later response than the answered ones carried the name.
    pub(crate) fn superseded(&self, name: &Name) -> bool {
        self.inflight.iter().any(|sent| sent.changes.iter().any(|change| change.name == *name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(name: &str, content: &str) -> Resource {
        Resource::new(Name::from(name), bytes::Bytes::copy_from_slice(content.as_bytes()))
    }

    #[test]
    fn a_target_that_comes_back_to_what_is_held_leaves_nothing_behind() {
        let (one, two) = (resource("a", "1"), resource("a", "2"));
        let mut books = Books::default();
        books.begin(&one.name, Held::Form(one.clone()), Some(&one));
        books.retarget(&one.name, Some(&one), Some(&two));
        assert_eq!(books.behind.get(&one.name), Some(&Held::Form(one.clone())));
        books.retarget(&one.name, Some(&two), None);
        books.retarget(&one.name, None, Some(&one));
        assert!(books.behind.is_empty());
        assert_eq!(books.fold, Fold::of([("a", one.version)]));
    }

    #[test]
    fn what_is_rejected_is_parked_by_its_version_and_remembered_within_bounds() {
        let rejected = |number: usize| RejectedResource {
            version: Version::of(&number.to_le_bytes()),
            detail: Name::default(),
            kept: None,
        };
        let (mut books, bad) = (Books::default(), resource("a", "bad"));
        books.park(&bad.name, RejectedResource { version: bad.version, ..rejected(0) });
        assert!(books.is_parked(&bad.name, &bad));
        assert!(!books.is_parked(&bad.name, &resource("a", "good")));
        for number in 0..2 * MAX_REJECTED_NAMES {
            books.park(&bad.name, rejected(number));
            books.park(&Name::from(format!("b{number}")), rejected(number));
        }
        assert_eq!(books.rejected[&Name::from(format!("b{}", 2 * MAX_REJECTED_NAMES - 1))].len(), 1);
        assert!(books.rejected.len() <= MAX_REJECTED_NAMES);
        assert!(books.rejected.values().all(|versions| versions.len() <= MAX_REJECTED_VERSIONS));
    }

    #[test]
    fn a_rejected_change_is_taken_out_of_what_a_later_response_assumes() {
        let (mut books, held) = (Books::default(), Held::Form(resource("a", "1")));
        let change = SentChange { name: Name::from("a"), version: None, before: Held::Form(resource("a", "2")) };
        books.remember(Sent { nonce: 2, epoch: 0, version: String::new(), changes: vec![change] }, 4);
        assert!(books.rebase(&Name::from("a"), &held));
        assert!(!books.rebase(&Name::from("b"), &held));
        assert_eq!(books.inflight[0].changes[0].before, held);
    }

    #[test]
    fn the_memory_of_a_client_that_never_answers_is_bounded() {
        let mut books = Books::default();
        for nonce in 0..100 {
            let changes = vec![SentChange { name: Name::from("a"), version: None, before: Held::Nothing }];
            books.remember(Sent { nonce, epoch: 0, version: String::new(), changes }, 4);
        }
        assert_eq!(books.inflight.len(), 4);
        assert!(books.inflight.iter().all(|sent| sent.changes.len() == 1));
        assert!(books.answered(3).is_empty(), "merged away");
        assert_eq!(books.answered(99).len(), 4);
    }
}
