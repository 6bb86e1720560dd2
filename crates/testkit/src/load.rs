//! Requests at a constant rate, each answer classified.
//!
//! The rate is divided among workers that keep their own time: a worker whose answer is late catches up afterwards, so
//! the number of requests does not depend on how the answers go (a slow proxy is not spared). Each worker keeps one
//! connection per address and makes every n-th request on a new one: what only new, or only old, connections see is
//! seen. One worker costs one task; 600 requests a second take about a tenth of a core.

use crate::echo::Echoed;
use crate::http::{TIMEOUT, causes};
use crate::tls;
use bytes::Bytes;
use http::{HeaderName, Request};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

/// A request that is made again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whom to connect to.
    pub address: SocketAddr,
    /// `Host`.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// Over TLS, asking for `host`; any certificate is taken.
    pub tls: bool,
}

impl Target {
    /// What a connection that can carry it is kept under.
    fn connection(&self) -> (SocketAddr, Option<String>) {
        (self.address, self.tls.then(|| self.host.clone()))
    }
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Requests a second, over all targets, which take turns.
    pub rate: u32,
    /// Whom to ask.
    pub targets: Vec<Target>,
    /// Workers, each with a connection of its own to each address.
    pub workers: u32,
    /// Every n-th request of a worker goes over a new connection; 0: none does.
    pub fresh_every: u32,
    /// A header whose value in each answer is noted.
    pub note: Option<HeaderName>,
}

/// How one request went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Index of the target in the plan.
    pub target: usize,
    /// When it was sent, since the start of the load.
    pub sent: Duration,
    /// How long the whole answer took.
    pub took: Duration,
    /// Whether it went over a new connection.
    pub fresh: bool,
    /// When its connection was made, since the start of the load; before `sent` if it was kept.
    pub opened: Duration,
    /// The certificate that its new connection was shown, in DER.
    pub certificate: Option<Bytes>,
    /// The value of [`Plan::note`], if the answer has one.
    pub noted: Option<String>,
    /// What came back.
    pub outcome: Outcome,
}

impl Answer {
    /// When it was over, since the start of the load.
    #[must_use]
    pub fn done(&self) -> Duration {
        self.sent + self.took
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An echo backend answered.
    Backend {
        /// Status.
        status: u16,
        /// `namespace/service` of the backend.
        service: String,
        /// Its pod.
        pod: String,
        /// What the proxy spoke to it: `HTTP/1.1` or `HTTP/2.0`.
        proto: String,
    },
    /// Somebody else answered: the proxy itself.
    Proxy {
        /// Status.
        status: u16,
        /// The first bytes of the body, for people.
        body: String,
    },
    /// Nobody did.
    Failed(String),
}

/// Everything that was counted.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Answers that were not taken before.
    pub answers: Vec<Answer>,
    /// Requests that were sent more than 100 ms after their time: if there are many, the load was not what was planned.
    pub late: u64,
}

/// Running load. Dropping it aborts what is under way.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    workers: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    targets: Vec<Target>,
    note: Option<HeaderName>,
    began: Instant,
    /// Bounded by who takes it: rate x time since the last [`Load::take`], about 150 bytes each.
    answers: Mutex<Vec<Answer>>,
    answered: AtomicU64,
    late: AtomicU64,
}

impl Load {
    /// Begins to send.
    ///
    /// # Panics
    ///
    /// The plan has no target, no worker or no rate.
    #[must_use]
    pub fn start(plan: Plan) -> Self {
        assert!(!plan.targets.is_empty() && plan.workers > 0 && plan.rate > 0, "a plan that sends nothing: {plan:?}");
        let shared = Arc::new(Shared {
            targets: plan.targets,
            note: plan.note,
            began: Instant::now(),
            answers: Mutex::default(),
            answered: AtomicU64::new(0),
            late: AtomicU64::new(0),
        });
        let (stop, stopped) = watch::channel(false);
        let mut workers = JoinSet::new();
        let interval = Duration::from_secs(1) * plan.workers / plan.rate;
        for index in 0..plan.workers {
            let mut worker = Worker::new(Arc::clone(&shared), index, plan.fresh_every);
            let first = interval * index / plan.workers;
            let mut stopped = stopped.clone();
            workers.spawn(async move { worker.run(first, interval, &mut stopped).await });
        }
        Load { shared, stop, workers }
    }

    /// The start.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.shared.began
    }

    /// Time since the start, the clock of [`Answer::sent`].
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.began.elapsed()
    }

    /// How many requests are over.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// The answers since the last call, in the order of their ends.
    #[must_use]
    pub fn take(&self) -> Vec<Answer> {
        std::mem::take(&mut *self.shared.answers.lock().expect("no holder of the lock panics"))
    }

    /// Sends no more, and waits for what is under way.
    pub async fn stop(mut self) -> Report {
        let _nobody_listens = self.stop.send(true);
        while self.workers.join_next().await.is_some() {}
        Report { answers: self.take(), late: self.shared.late.load(Ordering::Relaxed) }
    }
}

/// An open connection.
struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    opened: Duration,
}

/// What is known of an answer beside what it is.
#[derive(Default)]
struct Known {
    opened: Option<Duration>,
    certificate: Option<Bytes>,
    noted: Option<String>,
}

struct Worker {
    shared: Arc<Shared>,
    /// Which target comes next; workers begin at different ones.
    turn: usize,
    fresh_every: u32,
    kept: BTreeMap<(SocketAddr, Option<String>), Connection>,
    connections: JoinSet<()>,
}

impl Worker {
    fn new(shared: Arc<Shared>, index: u32, fresh_every: u32) -> Self {
        Worker { shared, turn: index as usize, fresh_every, kept: BTreeMap::new(), connections: JoinSet::new() }
    }

    async fn run(&mut self, first: Duration, interval: Duration, stopped: &mut watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval_at(self.shared.began + first, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for count in 1_u32.. {
            let due = tokio::select! {
                due = ticks.tick() => due,
                _ = stopped.changed() => return,
            };
            if due.elapsed() > Duration::from_millis(100) {
                self.shared.late.fetch_add(1, Ordering::Relaxed);
            }
            let fresh = self.fresh_every != 0 && count.is_multiple_of(self.fresh_every);
            self.ask(fresh).await;
            while self.connections.try_join_next().is_some() {}
        }
    }

    async fn ask(&mut self, fresh: bool) {
        let index = self.turn % self.shared.targets.len();
        self.turn += 1;
        let target = self.shared.targets[index].clone();
        let sent = self.shared.began.elapsed();
        let mut known = Known::default();
        let outcome = tokio::time::timeout(TIMEOUT, self.exchange(&target, fresh, &mut known)).await;
        let took = self.shared.began.elapsed().saturating_sub(sent);
        let outcome =
            outcome.unwrap_or_else(|_| Err(format!("no answer in {TIMEOUT:?}"))).unwrap_or_else(Outcome::Failed);
        let Known { opened, certificate, noted } = known;
        let opened = opened.unwrap_or(sent);
        let answer = Answer { target: index, sent, took, fresh, opened, certificate, noted, outcome };
        self.shared.answers.lock().expect("no holder of the lock panics").push(answer);
        self.shared.answered.fetch_add(1, Ordering::Relaxed);
    }

    async fn exchange(&mut self, target: &Target, fresh: bool, known: &mut Known) -> Result<Outcome, String> {
        let request = |host: &str, path: &str| {
            let request = Request::builder().uri(path).header(http::header::HOST, host);
            request.body(Empty::new()).map_err(|e| format!("building the request: {e}"))
        };
        // Put back only after a whole answer: what fails is not used again.
        let kept = if fresh { None } else { self.kept.remove(&target.connection()) };
        let mut request = request(&target.host, &target.path)?;
        let mut connection = match kept {
            Some(mut kept) => match kept.sender.ready().await {
                Ok(()) => kept,
                // The server has closed it while it was idle, which is its right.
                Err(_) => self.connect(target, known).await?,
            },
            None => self.connect(target, known).await?,
        };
        let response = loop {
            known.opened = Some(connection.opened);
            match connection.sender.try_send_request(request).await {
                Ok(response) => break response,
                Err(mut error) => match error.take_message() {
                    // Closed before a byte of the request was written.
                    Some(unsent) => {
                        request = unsent;
                        connection = self.connect(target, known).await?;
                    }
                    None => return Err(format!("answering: {}", causes(error.error()))),
                },
            }
        };
        let status = response.status().as_u16();
        let noted = self.shared.note.as_ref().and_then(|name| response.headers().get(name));
        known.noted = noted.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let body = response.into_body().collect().await.map_err(|e| format!("answering: {}", causes(&e)))?.to_bytes();
        if !fresh {
            self.kept.insert(target.connection(), connection);
        }
        Ok(classify(status, &body))
    }

    async fn connect(&mut self, target: &Target, known: &mut Known) -> Result<Connection, String> {
        let connecting = |e: &dyn std::error::Error| format!("connecting: {}", causes(e));
        let opened = self.shared.began.elapsed();
        known.opened = Some(opened);
        let stream = TcpStream::connect(target.address).await.map_err(|e| connecting(&e))?;
        let _unsupported = stream.set_nodelay(true);
        let sender = if target.tls {
            let stream = tls::connect(stream, &target.host, &[b"http/1.1"], &tls::Client::default())
                .await
                .map_err(|e| connecting(&e))?;
            known.certificate = tls::certificate(&stream);
            self.speak(stream).await?
        } else {
            self.speak(stream).await?
        };
        Ok(Connection { sender, opened })
    }

    async fn speak(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<SendRequest<Empty<Bytes>>, String> {
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|e| format!("connecting: {}", causes(&e)))?;
        // Its errors reach whoever waits for an answer on it.
        self.connections.spawn(async move { drop(connection.await) });
        Ok(sender)
    }
}

/// What an answer with this status and body is.
#[must_use]
pub fn classify(status: u16, body: &[u8]) -> Outcome {
    match serde_json::from_slice::<Echoed>(body) {
        Ok(echoed) => {
            let who = echoed.identity;
            let service = format!("{}/{}", who.namespace, who.service);
            Outcome::Backend { status, service, pod: who.pod, proto: echoed.proto }
        }
        Err(_) => {
            let body = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
            Outcome::Proxy { status, body }
        }
    }
}
