//! How long changes take on one stream, from the batch that brought them.

use crate::cause::Cause;
use std::collections::VecDeque;
use tidegate_model::{Millis, ResourceType};

/// Responses whose acceptance is waited for, of all types; of more than these the oldest are not measured.
const MAX_UNANSWERED: usize = 64;

/// What is under way on one stream.
#[derive(Debug, Default)]
pub(super) struct Timing {
    /// When the batch of the newest seal was taken, as long as something of it may be on its way.
    event: Option<Millis>,
    unanswered: VecDeque<Sent>,
}

#[derive(Debug)]
struct Sent {
    kind: ResourceType,
    nonce: u64,
    event: Millis,
}

impl Timing {
    /// The session is about to get a seal. The first one brings no change: it answers what was asked before it.
    pub(super) fn sealed(&mut self, event: Millis, first: bool) {
        self.event = (!first).then_some(event);
    }

    /// Nothing of the newest seal waits any more: what is sent from now on was caused by something else.
    pub(super) fn settled(&mut self) {
        self.event = None;
    }

    /// A response is sent; returns the time of the event that it carries, if there is one.
    pub(super) fn sent(&mut self, kind: ResourceType, nonce: &str, cause: Cause) -> Option<Millis> {
        let event = self.event.filter(|_| cause.carries_change())?;
        if let Ok(nonce) = nonce.parse() {
            if self.unanswered.len() == MAX_UNANSWERED {
                self.unanswered.pop_front();
            }
            self.unanswered.push_back(Sent { kind, nonce, event });
        }
        Some(event)
    }

    /// A response is answered; returns the time of the event that it carried, if that is known. Who answers it has
    /// answered the earlier ones of its type.
    pub(super) fn answered(&mut self, kind: ResourceType, nonce: &str) -> Option<Millis> {
        let nonce: u64 = nonce.parse().ok()?;
        let event = self.unanswered.iter().find(|sent| sent.kind == kind && sent.nonce == nonce)?.event;
        self.unanswered.retain(|sent| sent.kind != kind || sent.nonce > nonce);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResourceType::{Endpoints, Table};

    #[test]
    fn what_a_seal_changes_is_measured_until_nothing_of_it_waits() {
        let mut timing = Timing::default();
        timing.sealed(5, true);
        assert_eq!(timing.sent(Endpoints, "1", Cause::Seal), None, "the first seal brings no change");
        timing.sealed(10, false);
        assert_eq!(timing.sent(Endpoints, "2", Cause::Seal), Some(10));
        assert_eq!(timing.sent(Endpoints, "3", Cause::Subscription), None);
        assert_eq!(timing.sent(Table, "4", Cause::Acceptance), Some(10));
        timing.settled();
        assert_eq!(timing.sent(Table, "5", Cause::Acceptance), None);
        assert_eq!((timing.answered(Endpoints, "4"), timing.answered(Table, "9")), (None, None));
        assert_eq!((timing.answered(Table, "4"), timing.answered(Table, "4")), (Some(10), None));
        assert_eq!(timing.answered(Endpoints, "2"), Some(10));
    }

    #[test]
    fn a_client_that_never_answers_is_not_remembered_for_ever() {
        let mut timing = Timing::default();
        timing.sealed(10, false);
        for nonce in 0..1000 {
            let _event = timing.sent(Endpoints, &nonce.to_string(), Cause::Seal);
        }
        assert_eq!(timing.unanswered.len(), MAX_UNANSWERED);
    }
}
