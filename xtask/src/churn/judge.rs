//! Judges every answer of one Envoy: it must be what was right just before or just after a change, never anything else.

use super::track::Track;
use super::world::{Form, View, World};
use bytes::Bytes;
use std::time::Duration;
use testkit::load::{Answer, Outcome};

/// How long a change may take to arrive, not counting the time without a controller.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many failures are described.
const DESCRIBED: usize = 20;

/// How many changes of a view are named with a failure.
const NAMED: usize = 4;

/// Everything that one Envoy may answer, and what it did answer.
pub(super) struct Judge {
    pub(super) name: &'static str,
    views: Vec<View>,
    routes: Vec<Track<Form>>,
    /// Certificates as clients see them, by host.
    certificates: Vec<Track<Bytes>>,
    /// Changes of each view, and when.
    history: Vec<Vec<(Duration, String)>>,
    /// When controllers were killed.
    kills: Vec<Duration>,
    /// How long it has been connected to a controller, in all.
    connected: Duration,
    polled: Duration,
    pub(super) counts: Counts,
    /// The first failures, in words.
    pub(super) described: Vec<String>,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: u64,
    /// Over connections that were kept.
    pub(super) kept: u64,
    /// Wrong answers.
    pub(super) failures: u64,
    /// Changes that did not arrive.
    pub(super) missing: u64,
    /// How long changes took to be seen.
    pub(super) arrivals: Vec<Duration>,
}

impl Judge {
    /// Of the Envoy `name`, which has all of `world`.
    pub(super) fn new(name: &'static str, world: &World) -> Self {
        let views: Vec<View> = View::all().collect();
        Judge {
            name,
            history: vec![Vec::new(); views.len()],
            views,
            routes: world.forms().into_iter().map(Track::new).collect(),
            certificates: world.certificates.iter().map(|pair| Track::new(pair.der.clone())).collect(),
            kills: Vec::new(),
            connected: Duration::ZERO,
            polled: Duration::ZERO,
            counts: Counts::default(),
            described: Vec::new(),
        }
    }

    /// Whether what changes with `world` can be told from what is under way already.
    pub(super) fn tells(&self, world: &World) -> bool {
        let forms = world.forms();
        let changed = self.routes.iter().zip(&forms).filter(|(track, form)| track.newest() != *form);
        changed.into_iter().all(|(track, form)| track.tells(form))
    }

    /// `world` is about to be written.
    pub(super) fn begin(&mut self, now: Duration, world: &World, said: &str) {
        let (connected, history) = (self.connected, &mut self.history);
        for (index, (track, form)) in self.routes.iter_mut().zip(world.forms()).enumerate() {
            if *track.newest() != form {
                track.begin(now, connected, form);
                history[index].push((now, said.to_owned()));
            }
        }
        for (track, pair) in self.certificates.iter_mut().zip(&world.certificates) {
            if *track.newest() != pair.der {
                track.begin(now, connected, pair.der.clone());
            }
        }
    }

    /// Controllers were killed.
    pub(super) fn killed(&mut self, now: Duration) {
        self.kills.push(now);
    }

    /// It was seen whether it is connected to a controller.
    pub(super) fn polled(&mut self, now: Duration, connected: bool) {
        if connected {
            self.connected += now.saturating_sub(self.polled);
        }
        self.polled = now;
    }

    /// Whether everything that was written has arrived.
    pub(super) fn is_settled(&self) -> bool {
        self.routes.iter().all(Track::is_settled) && self.certificates.iter().all(Track::is_settled)
    }

    /// Judges answers. Their times are since `began`; their targets are views.
    pub(super) fn take(&mut self, began: Duration, mut answers: Vec<Answer>) {
        answers.sort_by_key(Answer::done);
        for answer in answers {
            let times = Times { opened: began + answer.opened, sent: began + answer.sent, done: began + answer.done() };
            self.counts.requests += 1;
            self.counts.kept += u64::from(answer.opened < answer.sent);
            self.judge(times, &answer);
            self.judge_certificate(times, &answer);
        }
    }

    fn judge(&mut self, times: Times, answer: &Answer) {
        let track = &mut self.routes[answer.target];
        let fresh = times.opened >= times.sent;
        // What is connected to a listener that goes keeps it until it has drained.
        let behind_door = matches!(self.views[answer.target], View::Door(_));
        let since = if behind_door { times.opened } else { times.sent };
        if !track.permits(since, times.done, |form| permits(form, answer)) {
            self.fail(since, times, answer);
        } else if fresh || !behind_door {
            self.counts.arrivals.extend(track.saw(times.done, |form| permits(form, answer)));
        }
    }

    fn judge_certificate(&mut self, times: Times, answer: &Answer) {
        let (View::Secure(index), Some(shown)) = (self.views[answer.target], &answer.certificate) else { return };
        let track = &mut self.certificates[index];
        if track.permits(times.opened, times.done, |wanted| wanted == shown) {
            self.counts.arrivals.extend(track.saw(times.done, |wanted| wanted == shown));
            return;
        }
        self.counts.failures += 1;
        let when = times.done.as_secs_f64();
        self.describe(format!("{when:.3} s: host-{index} showed a certificate that is not its own, or not any more"));
    }

    fn fail(&mut self, since: Duration, times: Times, answer: &Answer) {
        self.counts.failures += 1;
        if self.described.len() >= DESCRIBED {
            return;
        }
        let (view, track) = (self.views[answer.target].shown(), &self.routes[answer.target]);
        let connection = if times.opened < times.sent { "kept" } else { "new" };
        let (sent, took) = (times.sent.as_secs_f64(), answer.took.as_millis());
        let mark = answer.noted.as_deref().unwrap_or("-");
        let got = shown(&answer.outcome);
        let mut text = format!("{view}, sent {sent:.3} s, {took} ms, {connection} connection: {got}, route {mark}");
        for (opened, form) in track.seen_between(since, times.done) {
            text += &format!("\n    allowed since {:.3} s: {form:?}", opened.as_secs_f64());
        }
        for (when, said) in self.history[answer.target].iter().rev().take(NAMED) {
            text += &format!("\n    changed at {:.3} s: {said}", when.as_secs_f64());
        }
        if let Some(kill) = self.kills.last() {
            text += &format!("\n    last kill at {:.3} s", kill.as_secs_f64());
        }
        self.describe(text);
    }

    /// Counts the changes that have not arrived although a controller was there for long enough.
    pub(super) fn count_missing(&mut self) {
        self.count_overdue(self.connected, PATIENCE);
    }

    /// Nothing is waited for any more: counts what has not arrived, whyever.
    pub(super) fn end(&mut self) {
        self.count_overdue(Duration::MAX, Duration::ZERO);
    }

    fn count_overdue(&mut self, connected: Duration, patience: Duration) {
        let mut missing = Vec::new();
        for (index, track) in self.routes.iter_mut().enumerate() {
            if track.is_overdue(connected, patience) {
                let changes = self.history[index].iter().rev().take(NAMED);
                let changes: Vec<_> = changes
                    .map(|(when, said)| format!("\n    changed at {:.3} s: {said}", when.as_secs_f64()))
                    .collect();
                let open: Vec<_> = track.open().map(|form| format!("\n    open: {form:?}")).collect();
                let view = self.views[index].shown();
                missing.push(format!("{view}: a change did not arrive{}{}", open.concat(), changes.concat()));
            }
        }
        for (index, track) in self.certificates.iter_mut().enumerate() {
            if track.is_overdue(connected, patience) {
                missing.push(format!("host-{index}: a new certificate did not arrive"));
            }
        }
        self.counts.missing += missing.len() as u64;
        missing.into_iter().for_each(|text| self.describe(text));
    }

    fn describe(&mut self, text: String) {
        if self.described.len() < DESCRIBED {
            self.described.push(format!("envoy {}: {text}", self.name));
        }
    }
}

/// Times of one answer, since the start of everything.
#[derive(Clone, Copy)]
struct Times {
    opened: Duration,
    sent: Duration,
    done: Duration,
}

fn permits(form: &Form, answer: &Answer) -> bool {
    match (form, &answer.outcome) {
        (Form::NoListener, Outcome::Failed(_)) | (Form::NoHost, Outcome::Proxy { status: 404, .. }) => true,
        (Form::Routed { mark, backends, .. }, Outcome::Backend { status: 200, service, proto, .. }) => {
            let by = answer.noted.as_ref().is_some_and(|noted| *noted == mark.to_string());
            by && backends.get(service).is_some_and(|speaks| speaks == proto)
        }
        (
            Form::NoListener | Form::NoHost | Form::Routed { .. },
            Outcome::Failed(_) | Outcome::Proxy { .. } | Outcome::Backend { .. },
        ) => false,
    }
}

fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Backend { status, service, proto, .. } => format!("{status} from {service} by {proto}"),
        Outcome::Proxy { status, body } => format!("{status} from the proxy ({body})"),
        Outcome::Failed(reason) => format!("failed, {reason}"),
    }
}

#[cfg(test)]
mod tests;
