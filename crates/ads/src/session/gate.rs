//! What names clusters at a client: which forms of listeners and tables it may be using, and which ones wait for
//! clusters that are new to it.

use crate::session::target::{Target, User};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tidegate_model::{Millis, Name, ResourceType};
use tidegate_xds::Table;

/// A form that waits for clusters or tables. Newer forms wait behind it, so that no churn starves the resource.
#[derive(Clone, Debug)]
pub(crate) struct Pin {
    /// The form.
    pub(crate) form: User,
    /// The clusters that it waits for.
    pub(crate) needs: BTreeSet<Name>,
    /// The tables that it waits for.
    pub(crate) tables: BTreeSet<Name>,
    /// When it is sent as it is.
    pub(crate) deadline: Millis,
}

/// What a client uses under one name, as far as it said so.
#[derive(Clone, Debug)]
pub(crate) enum Accepted {
    /// Nothing.
    Nothing,
    /// Something, in a form that we do not know: it may name any cluster.
    Unknown,
    /// This.
    Form(User),
}

#[derive(Clone, Debug)]
struct Uses {
    /// Whether the client still asks for it. If not, only what is on its way to it counts.
    wanted: bool,
    accepted: Accepted,
    /// Sent after that, oldest first.
    sent: VecDeque<SentForm>,
}

#[derive(Clone, Debug)]
struct SentForm {
    nonce: u64,
    /// `None`: a removal.
    form: Option<User>,
    /// Rejected: the client may have applied it as the good part of a bad response, or not.
    rejected: bool,
}

/// How many rejected forms of one name are counted as maybe in use; the oldest are dropped.
const MAX_REJECTED: usize = 8;

/// The listeners or tables of one client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    pub(crate) pins: BTreeMap<Name, Pin>,
    uses: BTreeMap<Name, Uses>,
}

impl Gate {
    /// Begins to track a name.
    pub(crate) fn begin(&mut self, name: &Name, accepted: Accepted) {
        let uses = self.uses.entry(name.clone()).or_insert_with(Uses::nothing);
        uses.wanted = true;
        uses.accepted = accepted;
    }

    /// What the client uses turns out to be this.
    pub(crate) fn learn(&mut self, name: &Name, form: User) {
        if let Some(uses) = self.uses.get_mut(name).filter(|uses| uses.sent.is_empty()) {
            uses.accepted = Accepted::Form(form);
        }
    }

    /// The client does not use the name any more. What is on its way may still be used, if the client asks for the name
    /// again before that arrives.
    pub(crate) fn end(&mut self, name: &Name) {
        self.pins.remove(name);
        if let Some(uses) = self.uses.get_mut(name) {
            uses.wanted = false;
            uses.accepted = Accepted::Nothing;
            uses.sent.retain(|sent| !sent.rejected);
        }
        self.forget_unused();
    }

    /// A form, or a removal, was sent.
    pub(crate) fn sent(&mut self, name: &Name, nonce: u64, form: Option<User>) {
        let uses = self.uses.entry(name.clone()).or_insert_with(Uses::nothing);
        uses.sent.push_back(SentForm { nonce, form, rejected: false });
    }

    /// Everything sent up to `nonce` was processed, and accepted unless it was rejected before. Returns the clusters that
    /// the forms which are replaced by that name directly, be they named by others too.
    pub(crate) fn accept(&mut self, nonce: u64) -> BTreeSet<Name> {
        let mut replaced = BTreeSet::new();
        for uses in self.uses.values_mut() {
            if let Some(last) = uses.sent.iter().rposition(|sent| sent.nonce <= nonce && !sent.rejected) {
                if let Accepted::Form(User::Listener(listener)) = &uses.accepted {
                    replaced.extend(listener.clusters().cloned());
                }
                uses.accept_up_to(last);
            }
        }
        self.forget_unused();
        replaced
    }

    fn forget_unused(&mut self) {
        self.uses.retain(|_, uses| !uses.sent.is_empty() || !matches!(uses.accepted, Accepted::Nothing));
    }

    /// The response with `nonce` was rejected, `whole` or for some resources alone: then removals in it are applied all
    /// the same. Of the rest the client may have applied any part: the old and the rejected form both count, until a
    /// later one is accepted.
    pub(crate) fn reject(&mut self, nonce: u64, whole: bool) {
        for uses in self.uses.values_mut() {
            if !whole
                && let Some(removal) = uses.sent.iter().rposition(|sent| sent.nonce == nonce && sent.form.is_none())
            {
                uses.accept_up_to(removal);
            }
            if !uses.wanted {
                // Let go before it was judged: nothing of it is held.
                uses.sent.retain(|sent| sent.nonce != nonce);
            }
            uses.sent.iter_mut().filter(|sent| sent.nonce == nonce).for_each(|sent| sent.rejected = true);
            if uses.sent.iter().filter(|sent| sent.rejected).count() > MAX_REJECTED
                && let Some(oldest) = uses.sent.iter().position(|sent| sent.rejected)
            {
                uses.sent.remove(oldest);
            }
        }
        self.forget_unused();
    }

    /// The table that the client accepted last, if it is known.
    pub(crate) fn accepted_table(&self, name: &Name) -> Option<&Arc<Table>> {
        match &self.uses.get(name)?.accepted {
            Accepted::Form(User::Table(table)) => Some(table),
            Accepted::Form(User::Listener(_)) | Accepted::Nothing | Accepted::Unknown => None,
        }
    }

    /// The table that the response with `nonce` held.
    pub(crate) fn sent_table(&self, name: &Name, nonce: u64) -> Option<&Arc<Table>> {
        let sent = self.uses.get(name)?.sent.iter().find(|sent| sent.nonce == nonce)?;
        match sent.form.as_ref()? {
            User::Table(table) => Some(table),
            User::Listener(_) => None,
        }
    }

    /// The newest form that the client has, or will have unless it rejects it.
    pub(crate) fn newest(&self, name: &Name) -> Option<&User> {
        let uses = self.uses.get(name)?;
        match (uses.sent.iter().rev().find(|sent| !sent.rejected), &uses.accepted) {
            (Some(sent), _) => sent.form.as_ref(),
            (None, Accepted::Form(form)) => Some(form),
            (None, Accepted::Nothing | Accepted::Unknown) => None,
        }
    }

    /// Clusters that the client may be using and the target's forms do not name, maybe with some that they do.
    /// `None`: any cluster at all. Costs what differs between the forms and the target.
    pub(crate) fn clusters_in_use(&self, kind: ResourceType, target: &Target) -> Option<BTreeSet<Name>> {
        let mut clusters = BTreeSet::new();
        let mut count = |name: &Name, form: &User| {
            let wanted = target.user(kind, name);
            if wanted.as_ref().is_none_or(|wanted| wanted.version() != form.version()) {
                clusters.extend(form.clusters_beyond(wanted.as_ref()));
            }
        };
        for (name, uses) in &self.uses {
            match &uses.accepted {
                Accepted::Unknown => return None,
                Accepted::Nothing => {}
                Accepted::Form(form) => count(name, form),
            }
            uses.sent.iter().filter_map(|sent| sent.form.as_ref()).for_each(|form| count(name, form));
        }
        self.pins.iter().for_each(|(name, pin)| count(name, &pin.form));
        Some(clusters)
    }
}

impl Uses {
    fn nothing() -> Self {
        Uses { wanted: true, accepted: Accepted::Nothing, sent: VecDeque::new() }
    }

    fn accept_up_to(&mut self, last: usize) {
        self.accepted = match self.sent.drain(..=last).next_back() {
            Some(SentForm { form: Some(form), .. }) if self.wanted => Accepted::Form(form),
            Some(_) | None => Accepted::Nothing,
        };
    }
}
