//! The Envoys of `tidegate standalone`: one for each Gateway that this machine has room for.
//!
//! *Comes in*: sealed values, and of each Gateway its age. *Goes out*: Envoy processes, what their ADS
//! server shows them ([`Fleet::placed`]), and why a Gateway is not served here, as a condition on the board. *Start
//! at* [`plan`], which decides and is pure; [`ledger`] and [`seats`] hold what is known and what runs, [`keeper`] is
//! the life of one Envoy.
//!
//! **Invariant**: a Gateway that must not run here is not shown to any Envoy. Envoys of one user share a port without
//! complaint (`SO_REUSEPORT`), so that two Gateways on one port would each get some of the connections; therefore
//! nothing is left to the bind.

mod keeper;

pub(crate) mod ledger;

mod plan;

pub(crate) mod seats;

use crate::clock::Clock;
use crate::logging::LogFormat;
use keeper::Keeper;
use ledger::Ledger;
use plan::{Claim, Socket, Verdict};
use seats::{Seats, State};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_envoy::{AdsAddress, Binary};
use tidegate_model::{Condition, ConditionType, Locality, Name, NamespacedName, Reason};
use tidegate_status::Board;
use tidegate_xds::Sealed;
use tidegate_xds::row::Listener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// How often a Gateway that waits for an address of this machine is looked at again.
const RECHECK: Duration = Duration::from_secs(10);

/// How Envoys are run.
#[derive(Clone, Debug)]
pub struct EnvoyConfig {
    /// What is run.
    pub binary: Binary,
    /// Worker threads of each.
    pub threads: u32,
    /// Its log level, in Envoy's words.
    pub log_level: String,
    /// How long one that ends may take to finish its requests.
    pub drain: Duration,
    /// The form in which its log lines are passed on.
    pub log_format: LogFormat,
    /// Where they run.
    pub locality: Locality,
}

/// Everything that runs.
pub(crate) struct Fleet {
    sealed: watch::Receiver<Option<Arc<Sealed>>>,
    placed: watch::Sender<Option<Arc<Sealed>>>,
    ledger: Ledger,
    seats: Seats,
    board: Arc<Mutex<Board>>,
    clock: Clock,
    config: Arc<EnvoyConfig>,
    ads: AdsAddress,
    /// What was decided last.
    verdicts: BTreeMap<NamespacedName, Verdict>,
    /// The sockets of listeners, as they were last read from their encoded form.
    sockets: BTreeMap<NamespacedName, (Listeners, BTreeSet<Socket>)>,
    /// What stops the keeper of a Gateway, until it has ended.
    stops: BTreeMap<NamespacedName, CancellationToken>,
    keepers: JoinSet<NamespacedName>,
}

type Listeners = imbl::OrdMap<Name, Arc<Listener>>;

impl Fleet {
    /// No Envoy yet. They find their server at `ads`.
    pub(crate) fn new(
        config: EnvoyConfig,
        ads: SocketAddr,
        sealed: watch::Receiver<Option<Arc<Sealed>>>,
        board: Arc<Mutex<Board>>,
        clock: Clock,
    ) -> Self {
        Fleet {
            sealed,
            placed: watch::Sender::new(None),
            ledger: Ledger::default(),
            seats: Seats::default(),
            board,
            clock,
            config: Arc::new(config),
            ads: reachable(ads),
            verdicts: BTreeMap::new(),
            sockets: BTreeMap::new(),
            stops: BTreeMap::new(),
            keepers: JoinSet::new(),
        }
    }

    /// What Envoys are to be shown: what is sealed, without the Gateways that must not run here.
    pub(crate) fn placed(&self) -> watch::Receiver<Option<Arc<Sealed>>> {
        self.placed.subscribe()
    }

    /// Where the intake notes what is known of Gateways.
    pub(crate) fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// What runs, for the admin port.
    pub(crate) fn seats(&self) -> Seats {
        self.seats.clone()
    }

    /// Follows the seals until `stop`, then ends every Envoy.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let homeless = self.verdicts.values().any(|verdict| matches!(verdict, Verdict::NotHere(_)));
            tokio::select! {
                () = stop.cancelled() => break,
                Ok(()) = self.sealed.changed() => self.follow(),
                Some(ended) = self.keepers.join_next() => self.ended(ended)?,
                () = tokio::time::sleep(RECHECK), if homeless => self.follow(),
            }
        }
        for (gateway, token) in &self.stops {
            self.seats.update(gateway, |seat| seat.state = State::Stopping);
            token.cancel();
        }
        while let Some(ended) = self.keepers.join_next().await {
            ended?;
        }
        tracing::info!("every envoy has ended");
        Ok(())
    }

    /// Takes the newest seal.
    fn follow(&mut self) {
        let newest = self.sealed.borrow_and_update().clone();
        if let Some(newest) = newest {
            self.place(&newest);
        }
    }

    /// Forgets a keeper that has ended. Others may have waited for its sockets.
    fn ended(&mut self, ended: Result<NamespacedName, JoinError>) -> anyhow::Result<()> {
        let gateway = ended?;
        self.stops.remove(&gateway);
        // What the keeper said last is over; what was decided since stands.
        let why = self.verdicts.get(&gateway).filter(|verdict| **verdict != Verdict::Runs);
        self.hinder(&gateway, why.map(ToString::to_string));
        self.staff();
        Ok(())
    }

    /// Decides, shows, and brings what runs in line.
    fn place(&mut self, newest: &Arc<Sealed>) {
        let verdicts = plan::judge(self.claims(newest), is_local);
        let refused: Vec<&NamespacedName> =
            verdicts.iter().filter(|(_, verdict)| **verdict != Verdict::Runs).map(|(gateway, _)| gateway).collect();
        let mut shown = Arc::clone(newest);
        if !refused.is_empty() {
            let shown = Arc::make_mut(&mut shown);
            for gateway in refused {
                shown.gateways.remove(gateway);
            }
        }
        self.placed.send_replace(Some(shown));
        self.report(&verdicts);
        self.verdicts = verdicts;
        for (gateway, token) in &self.stops {
            if self.verdicts.get(gateway) != Some(&Verdict::Runs) && !token.is_cancelled() {
                tracing::info!(%gateway, "its envoy ends: it is not to run here any more");
                self.seats.update(gateway, |seat| seat.state = State::Stopping);
                token.cancel();
            }
        }
        self.staff();
    }

    /// What each Gateway asks this machine for.
    fn claims(&mut self, newest: &Sealed) -> Vec<Claim> {
        self.sockets.retain(|gateway, _| newest.gateways.contains_key(gateway));
        let claim = |(gateway, view): (&NamespacedName, &tidegate_xds::GatewayView)| {
            let known = self.sockets.get(gateway).filter(|(listeners, _)| listeners.ptr_eq(&view.listeners));
            let sockets = match known {
                Some((_, sockets)) => sockets.clone(),
                None => view.listeners.values().flat_map(|listener| plan::sockets(listener)).collect(),
            };
            self.sockets.insert(gateway.clone(), (view.listeners.clone(), sockets.clone()));
            Claim { gateway: gateway.clone(), created: self.ledger.created(gateway), sockets }
        };
        newest.gateways.iter().map(claim).collect()
    }

    /// Says what is new about who runs and who does not, in the log and on the board.
    fn report(&self, verdicts: &BTreeMap<NamespacedName, Verdict>) {
        for (gateway, verdict) in verdicts {
            let news = self.verdicts.get(gateway) != Some(verdict);
            match verdict {
                Verdict::Runs if news => self.hinder(gateway, None),
                Verdict::Runs => {}
                Verdict::Loses { .. } | Verdict::NotHere(_) => {
                    let text = verdict.to_string();
                    if news {
                        tracing::warn!(%gateway, "no envoy runs for this Gateway: {text}");
                    }
                    self.hinder(gateway, Some(text));
                }
            }
        }
        for gateway in self.verdicts.keys().filter(|gateway| !verdicts.contains_key(gateway)) {
            self.hinder(gateway, None);
        }
    }

    fn hinder(&self, gateway: &NamespacedName, why: Option<String>) {
        let condition = why.map(|why| Condition::no(ConditionType::Programmed, Reason::AddressNotUsable, why));
        let mut board = self.board.lock().expect("nobody panics while holding the board");
        board.hinder(gateway, condition, (self.clock)());
    }

    /// Starts a keeper for every Gateway that is to run and has none, unless one that is ending still holds a socket
    /// that it wants.
    fn staff(&mut self) {
        for (gateway, verdict) in &self.verdicts {
            let sockets = self.sockets.get(gateway).map(|(_, sockets)| sockets.clone()).unwrap_or_default();
            if self.stops.contains_key(gateway) {
                if *verdict == Verdict::Runs {
                    self.seats.update(gateway, |seat| seat.sockets = sockets);
                }
                continue;
            }
            self.seats.update(gateway, |seat| {
                seat.sockets.clone_from(&sockets);
                seat.leave(verdict);
            });
            let ending = self.stops.iter().filter(|(_, token)| token.is_cancelled()).map(|(gateway, _)| gateway);
            let held = ending.flat_map(|gateway| self.seats.sockets(gateway)).collect::<Vec<_>>();
            if *verdict != Verdict::Runs || held.iter().any(|held| sockets.iter().any(|own| own.collides(held))) {
                continue;
            }
            let keeper = Keeper {
                gateway: gateway.clone(),
                config: Arc::clone(&self.config),
                ads: self.ads.clone(),
                seats: self.seats.clone(),
                board: Arc::clone(&self.board),
                clock: Arc::clone(&self.clock),
            };
            let stop = CancellationToken::new();
            self.stops.insert(gateway.clone(), stop.clone());
            self.keepers.spawn(keeper.run(stop));
        }
        self.seats.retain(|gateway| self.verdicts.contains_key(gateway) || self.stops.contains_key(gateway));
    }
}

/// Where an Envoy of this machine finds a server that listens at `ads`.
fn reachable(ads: SocketAddr) -> AdsAddress {
    let ip = match ads.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    AdsAddress::Tcp { host: ip.to_string(), port: ads.port() }
}

/// Whether this machine has the address: then a socket can be bound to it.
fn is_local(address: IpAddr) -> bool {
    std::net::UdpSocket::bind((address, 0)).is_ok()
}
