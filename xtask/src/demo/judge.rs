//! What counts as right while something changes.
//!
//! Time is cut into phases. While nothing changes, a phase allows the old answers alone; from the edit until its
//! effect was seen, the old ones and the new; then the new ones alone. An answer is right if some phase that it
//! overlaps, from its sending to its end, allows it.

use std::time::Duration;
use testkit::load::{Answer, Outcome};

/// An answer that a target may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// 200 from this `namespace/service`.
    From(&'static str),
    /// 503 from the proxy: there is no endpoint.
    NoEndpoint,
}

impl Allowed {
    /// Whether this is what came back.
    pub(super) fn permits(self, outcome: &Outcome) -> bool {
        match (self, outcome) {
            (Allowed::From(wanted), Outcome::Backend { status: 200, service, .. }) => wanted == service,
            (Allowed::NoEndpoint, Outcome::Proxy { status: 503, .. }) => true,
            (Allowed::From(_) | Allowed::NoEndpoint, _) => false,
        }
    }
}

/// What one answer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// From a backend that may answer.
    Right,
    /// What no endpoints must answer.
    NoEndpoint,
    /// Anything else.
    Wrong,
}

/// The phases so far; the last has no end yet.
pub(super) struct Judge {
    phases: Vec<Phase>,
}

struct Phase {
    begins: Duration,
    /// By target.
    allowed: Vec<Vec<Allowed>>,
}

impl Judge {
    /// A first phase that allows these answers, by target.
    pub(super) fn new(allowed: Vec<Vec<Allowed>>) -> Self {
        Judge { phases: vec![Phase { begins: Duration::ZERO, allowed }] }
    }

    /// Before an edit: `new` answers are allowed too, for the targets named.
    pub(super) fn begin_change(&mut self, now: Duration, new: &[(usize, Vec<Allowed>)]) {
        let mut allowed = self.current();
        for (target, more) in new {
            allowed[*target].extend(more);
        }
        self.phases.push(Phase { begins: now, allowed });
    }

    /// After its effect was seen: only the new answers are.
    pub(super) fn end_change(&mut self, now: Duration, new: &[(usize, Vec<Allowed>)]) {
        let mut allowed = self.current();
        for (target, only) in new {
            allowed[*target].clone_from(only);
        }
        self.phases.push(Phase { begins: now, allowed });
    }

    /// Judges one answer.
    pub(super) fn judge(&self, answer: &Answer) -> Verdict {
        let ends = self.phases.iter().skip(1).map(|next| next.begins).chain([Duration::MAX]);
        let overlapped =
            self.phases.iter().zip(ends).filter(|(phase, end)| phase.begins <= answer.done() && *end > answer.sent);
        let mut allowed = overlapped.flat_map(|(phase, _)| &phase.allowed[answer.target]);
        match allowed.find(|allowed| allowed.permits(&answer.outcome)) {
            Some(Allowed::From(_)) => Verdict::Right,
            Some(Allowed::NoEndpoint) => Verdict::NoEndpoint,
            None => Verdict::Wrong,
        }
    }

    fn current(&self) -> Vec<Vec<Allowed>> {
        self.phases.last().expect("there is always a phase").allowed.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Allowed::{From, NoEndpoint};

    fn answer(target: usize, sent: u64, took: u64, outcome: Outcome) -> Answer {
        let [sent, took] = [sent, took].map(Duration::from_millis);
        Answer { target, sent, took, fresh: false, opened: sent, certificate: None, noted: None, outcome }
    }

    fn from(service: &str) -> Outcome {
        Outcome::Backend { status: 200, service: service.to_owned(), pod: String::new(), proto: String::new() }
    }

    fn proxy(status: u16) -> Outcome {
        Outcome::Proxy { status, body: String::new() }
    }

    #[test]
    fn old_and_new_answers_are_right_only_while_the_change_is_under_way() {
        let mut judge = Judge::new(vec![vec![From("a")], vec![From("a")]]);
        let new = [(0, vec![From("b")])];
        judge.begin_change(Duration::from_millis(100), &new);
        judge.end_change(Duration::from_millis(200), &new);
        let verdict = |target, sent, took, service| judge.judge(&answer(target, sent, took, from(service)));
        assert_eq!(verdict(0, 50, 10, "b"), Verdict::Wrong);
        assert_eq!(verdict(0, 90, 20, "b"), Verdict::Right);
        assert_eq!(verdict(0, 150, 10, "a"), Verdict::Right);
        assert_eq!(verdict(0, 190, 20, "a"), Verdict::Right);
        assert_eq!(verdict(0, 201, 10, "a"), Verdict::Wrong);
        assert_eq!(verdict(1, 150, 10, "b"), Verdict::Wrong);
    }

    #[test]
    fn only_503_of_the_proxy_and_only_where_it_is_due_is_excused() {
        let mut judge = Judge::new(vec![vec![From("a")], vec![From("a")]]);
        judge.begin_change(Duration::from_millis(100), &[(0, vec![NoEndpoint])]);
        let verdict = |target, outcome| judge.judge(&answer(target, 150, 1, outcome));
        assert_eq!(verdict(0, proxy(503)), Verdict::NoEndpoint);
        assert_eq!(verdict(0, proxy(500)), Verdict::Wrong);
        assert_eq!(verdict(1, proxy(503)), Verdict::Wrong);
        assert_eq!(verdict(0, Outcome::Failed("reset".to_owned())), Verdict::Wrong);
        let backend_503 =
            Outcome::Backend { status: 503, service: "a".to_owned(), pod: String::new(), proto: String::new() };
        assert_eq!(verdict(0, backend_503), Verdict::Wrong);
    }
}
