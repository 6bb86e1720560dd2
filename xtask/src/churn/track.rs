//! What one client may see of one thing, over time: the forms that it had, each with the time from which it may be seen
//! and the time from which it must not be any more.
//!
//! A form may be seen from the moment before it is written. It must not be seen once a later form was: a request that is
//! sent after that is answered with the later one, or one after it.

use std::time::Duration;

/// The forms of one thing, oldest first. The last one is what is wanted.
#[derive(Debug)]
pub(super) struct Track<T> {
    forms: Vec<Dated<T>>,
    /// Index of the first form that may still be seen.
    first_open: usize,
}

#[derive(Debug)]
struct Dated<T> {
    form: T,
    opened: Duration,
    /// `None`: may still be seen.
    closed: Option<Duration>,
    /// How long the client had been connected to a controller, in all, when this form was written.
    connected: Duration,
    /// It was said that it does not arrive.
    given_up: bool,
}

impl<T: PartialEq> Track<T> {
    /// Begins with a form that may be seen from the start.
    pub(super) fn new(form: T) -> Self {
        let first = Dated { form, opened: Duration::ZERO, closed: None, connected: Duration::ZERO, given_up: false };
        Track { forms: vec![first], first_open: 0 }
    }

    /// What is wanted.
    pub(super) fn newest(&self) -> &T {
        &self.forms[self.forms.len() - 1].form
    }

    /// Whether only the newest form may still be seen.
    pub(super) fn is_settled(&self) -> bool {
        self.first_open + 1 == self.forms.len()
    }

    /// Forms that may still be seen, oldest first.
    pub(super) fn open(&self) -> impl Iterator<Item = &T> {
        self.forms[self.first_open..].iter().map(|dated| &dated.form)
    }

    /// Whether a change to this form could be told from those under way: it must look like none that may still be seen.
    pub(super) fn tells(&self, form: &T) -> bool {
        self.open().all(|open| open != form)
    }

    /// A form is about to be written. `connected` is the clock of the client's connection to controllers.
    pub(super) fn begin(&mut self, now: Duration, connected: Duration, form: T) {
        self.forms.push(Dated { form, opened: now, closed: None, connected, given_up: false });
    }

    /// Whether an answer is right: some form that could be seen between `since` and `done` permits it.
    pub(super) fn permits(&self, since: Duration, done: Duration, permits: impl Fn(&T) -> bool) -> bool {
        let seen = |dated: &&Dated<T>| dated.opened <= done && dated.closed.is_none_or(|closed| closed >= since);
        // Nearly always it is one of the last.
        self.forms.iter().rev().filter(seen).any(|dated| permits(&dated.form))
    }

    /// An answer came that shows a form: those before the first one that it can be of are over. Returns how long it took
    /// from the writing of that form, if that was not seen before.
    pub(super) fn saw(&mut self, done: Duration, shows: impl Fn(&T) -> bool) -> Option<Duration> {
        let open = &self.forms[self.first_open..];
        let first = open.iter().position(|dated| dated.opened <= done && shows(&dated.form))?;
        if first == 0 {
            return None;
        }
        for dated in &mut self.forms[self.first_open..self.first_open + first] {
            dated.closed = Some(done);
        }
        self.first_open += first;
        Some(done - self.forms[self.first_open].opened)
    }

    /// Whether the client still shows a form that was superseded when it had been connected for less than
    /// `connected - patience`. Said once for each change.
    pub(super) fn is_overdue(&mut self, connected: Duration, patience: Duration) -> bool {
        let Some(next) = self.forms.get_mut(self.first_open + 1) else { return false };
        let overdue = !next.given_up && connected.saturating_sub(next.connected) > patience;
        next.given_up |= overdue;
        overdue
    }

    /// The forms that could be seen in this time, each with the time of its writing, for people.
    pub(super) fn seen_between(&self, since: Duration, done: Duration) -> impl Iterator<Item = (Duration, &T)> {
        let seen = move |dated: &&Dated<T>| dated.opened <= done && dated.closed.is_none_or(|closed| closed >= since);
        self.forms.iter().filter(seen).map(|dated| (dated.opened, &dated.form))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Form 1 from the start, 2 written at 100, 3 at 200.
    fn track() -> Track<u8> {
        let mut track = Track::new(1);
        track.begin(ms(100), ms(90), 2);
        track.begin(ms(200), ms(190), 3);
        track
    }

    #[test]
    fn until_a_later_form_is_seen_every_form_since_is_right() {
        let track = track();
        let right = |since, done, form| track.permits(ms(since), ms(done), |open| *open == form);
        assert!(right(50, 60, 1) && !right(50, 60, 2), "not before it was written");
        assert!(right(90, 110, 1) && right(90, 110, 2) && !right(90, 110, 3));
        assert!(right(300, 310, 1) && right(300, 310, 2) && right(300, 310, 3));
    }

    #[test]
    fn what_was_seen_ends_all_before_it_for_what_is_sent_later() {
        let mut track = track();
        assert_eq!(track.saw(ms(250), |open| *open == 2), Some(ms(150)));
        let right = |track: &Track<u8>, since, form| track.permits(ms(since), ms(400), |open| *open == form);
        assert!(right(&track, 240, 1), "sent before the later one was seen");
        assert!(!right(&track, 260, 1) && right(&track, 260, 2) && right(&track, 260, 3));
        assert_eq!(track.saw(ms(300), |open| *open == 3), Some(ms(100)));
        assert!(track.is_settled() && !right(&track, 310, 2));
    }

    #[test]
    fn an_answer_that_two_forms_can_give_ends_neither() {
        let mut track = track();
        assert_eq!(track.saw(ms(250), |open| *open != 3), None);
        assert!(track.permits(ms(260), ms(270), |open| *open == 1));
    }

    #[test]
    fn a_form_that_does_not_arrive_is_said_once_and_only_time_with_a_controller_counts() {
        let mut track = track();
        assert!(!track.is_overdue(ms(500), ms(410)));
        assert!(track.is_overdue(ms(501), ms(410)));
        assert!(!track.is_overdue(ms(600), ms(410)), "said before");
        let _seen = track.saw(ms(700), |open| *open == 2);
        assert!(track.is_overdue(ms(601), ms(410)), "the next one");
    }

    #[test]
    fn a_form_like_one_under_way_cannot_be_told_from_it() {
        let mut track = track();
        assert!(!track.tells(&1) && track.tells(&4));
        let _seen = track.saw(ms(250), |open| *open == 3);
        assert!(track.tells(&1));
    }
}
