//! Runs everything: changes at their rate, kills at their times, judgement of what comes back.

use super::change::Kind;
use super::judge::Judge;
use super::manifests::{Backends, Directory, GATEWAYS, Ports};
use super::report;
use super::stack::{self, Figures, Folder, Replica};
use super::world::World;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use testkit::load::Load;
use tidegate_envoy::{Binary, Process};
use tidegate_workload::Random;
use tokio::time::Instant;

/// Between two changes, at random: six a second on average.
const PAUSE_MS: (usize, usize) = (100, 230);

/// How often it is looked at what came back.
const LOOK: Duration = Duration::from_millis(50);

/// How often Envoys are asked whether they are connected.
const POLL: Duration = Duration::from_millis(200);

/// How often a line is printed.
const PROGRESS: Duration = Duration::from_secs(5);

/// Between two kills; shorter runs have two of them.
const KILL_EVERY: Duration = Duration::from_secs(20);

/// How long no controller runs after a kill, at random.
const OUTAGE_MS: (usize, usize) = (300, 3_000);

/// How long the last changes may take to arrive.
const LAST: Duration = Duration::from_secs(40);

/// How many other changes are tried if one could not be told from those under way.
const TRIES: usize = 20;

/// What happened, beside answers.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) changes: BTreeMap<Kind, u64>,
    /// Times when every controller was killed.
    pub(super) outages: u64,
    /// Times when the controller that serves was killed and the other took over.
    pub(super) takeovers: u64,
    /// Of all incarnations.
    pub(super) figures: Figures,
}

/// Everything that is up.
pub(super) struct Director {
    began: Instant,
    random: Random,
    world: World,
    directory: Directory,
    replicas: [Replica; 2],
    /// When those that were killed start again.
    restart: Option<Instant>,
    envoys: [Process; 2],
    pub(super) judges: [Judge; 2],
    loads: [[Load; 2]; 2],
    pub(super) events: Events,
    _folder: Folder,
}

impl Director {
    /// Starts backends, controllers, Envoys and load, in this order.
    pub(super) async fn start(program: &Path, envoy: &Binary, args: &super::Args) -> Result<Self> {
        let folder = Folder::new(args.keep)?;
        let ports = GATEWAYS.map(|_| Ports::free());
        let world = World::new();
        let manifests = folder.path().join("manifests");
        let directory = Directory::new(manifests, ports.clone(), Backends::start().await?, &world)?;
        let mut replicas = ["a", "b"].map(|name| Replica::new(name, program, directory.path(), folder.path()));
        for replica in &mut replicas {
            replica.start()?;
            replica.wait_ready().await?;
        }
        let envoys = [
            stack::envoy(envoy, 0, &replicas, folder.path()).await?,
            stack::envoy(envoy, 1, &replicas, folder.path()).await?,
        ];
        let began = Instant::now();
        Ok(Director {
            began,
            random: Random::new(args.seed),
            judges: GATEWAYS.map(|name| Judge::new(name, &world)),
            world,
            directory,
            replicas,
            restart: None,
            envoys,
            loads: ports.each_ref().map(|ports| stack::loads(ports, args.rps / 2)),
            events: Events::default(),
            _folder: folder,
        })
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Changes things for `lasts`, then waits until all has arrived.
    pub(super) async fn run(&mut self, lasts: Duration) -> Result<()> {
        let kill_every = KILL_EVERY.min(lasts / 2);
        let (mut next_change, mut next_kill) = (Duration::from_secs(1), kill_every / 2);
        let (mut next_poll, mut next_progress) = (Duration::ZERO, PROGRESS);
        while self.now() < lasts {
            let now = self.now();
            if now >= next_change {
                self.change()?;
                next_change += self.random_ms(PAUSE_MS);
            }
            if now >= next_kill {
                self.kill().await?;
                next_kill += kill_every;
            }
            self.look(&mut next_poll).await?;
            if now >= next_progress {
                println!("{}", report::progress(now, self));
                next_progress += PROGRESS;
            }
            let next = next_change.min(now + LOOK);
            tokio::time::sleep_until(self.began + next).await;
        }
        while self.now() < lasts + LAST {
            self.look(&mut next_poll).await?;
            if self.restart.is_none() && self.judges.iter().all(Judge::is_settled) {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// What is done all the time.
    async fn look(&mut self, next_poll: &mut Duration) -> Result<()> {
        if self.restart.is_some_and(|at| at <= Instant::now()) {
            self.restart = None;
            for replica in self.replicas.iter_mut().filter(|replica| !replica.is_running()) {
                replica.start()?;
            }
        }
        if self.now() >= *next_poll {
            for replica in &mut self.replicas {
                replica.check()?;
            }
            for (judge, envoy) in self.judges.iter_mut().zip(&self.envoys) {
                let connected = stack::is_connected(envoy).await?;
                judge.polled(self.began.elapsed(), connected);
            }
            *next_poll = self.now() + POLL;
        }
        self.judge();
        Ok(())
    }

    fn judge(&mut self) {
        for (judge, loads) in self.judges.iter_mut().zip(&self.loads) {
            for load in loads {
                judge.take(load.began() - self.began, load.take());
            }
            judge.count_missing();
        }
    }

    /// Makes a change that can be told from those under way.
    fn change(&mut self) -> Result<()> {
        for _ in 0..TRIES {
            let mut world = self.world.clone();
            let kind = Kind::random(&mut self.random);
            let said = kind.make(&mut world, &mut self.random);
            if !self.judges.iter().all(|judge| judge.tells(&world)) {
                continue;
            }
            let now = self.now();
            for judge in &mut self.judges {
                judge.begin(now, &world, &said);
            }
            self.directory.write(&world)?;
            self.world = world;
            *self.events.changes.entry(kind).or_default() += 1;
            return Ok(());
        }
        Ok(())
    }

    /// Of three kills, the second is a takeover.
    async fn kill(&mut self) -> Result<()> {
        // Whoever was killed last has had the time to be back.
        for replica in &mut self.replicas {
            if !replica.is_running() {
                replica.start()?;
            }
            replica.wait_ready().await?;
        }
        let mut figures = Vec::new();
        for replica in &self.replicas {
            figures.push(replica.figures().await?);
        }
        let takeover = (self.events.outages + self.events.takeovers) % 3 == 1;
        let serving = usize::from(figures[1].clients > figures[0].clients);
        let killed = if takeover { serving..serving + 1 } else { 0..2 };
        let now = self.now();
        self.judges.iter_mut().for_each(|judge| judge.killed(now));
        for index in killed {
            self.events.figures.add(figures[index]);
            self.replicas[index].kill().await?;
        }
        if takeover {
            self.events.takeovers += 1;
        } else {
            self.events.outages += 1;
        }
        self.restart = Some(Instant::now() + self.random_ms(OUTAGE_MS));
        Ok(())
    }

    fn random_ms(&mut self, (from, to): (usize, usize)) -> Duration {
        Duration::from_millis((from + self.random.below(to - from)) as u64)
    }

    /// Ends the load, judges the rest, and asks everybody for the last time. Returns the requests that were sent late.
    pub(super) async fn finish(mut self) -> Result<Finished> {
        for replica in &mut self.replicas {
            replica.wait_ready().await?;
            let figures = replica.figures().await?;
            self.events.figures.add(figures);
        }
        let lasted = self.now();
        let mut late = 0;
        for (judge, loads) in self.judges.iter_mut().zip(self.loads) {
            for load in loads {
                let began = load.began() - self.began;
                let rest = load.stop().await;
                judge.take(began, rest.answers);
                late += rest.late;
            }
            judge.end();
        }
        let mut rejected = BTreeMap::new();
        for envoy in self.envoys {
            rejected.extend(stack::rejections(&envoy).await?);
            envoy.stop().await.context("cannot stop envoy")?;
        }
        for replica in &mut self.replicas {
            replica.kill().await?;
        }
        Ok(Finished { judges: self.judges, events: self.events, rejected, lasted, late })
    }
}

impl Figures {
    fn add(&mut self, more: Figures) {
        self.overdue_pins += more.overdue_pins;
        self.nacks += more.nacks;
        self.violations += more.violations;
    }
}

/// The end.
pub(super) struct Finished {
    pub(super) judges: [Judge; 2],
    pub(super) events: Events,
    /// What Envoys rejected.
    pub(super) rejected: BTreeMap<String, u64>,
    pub(super) lasted: Duration,
    /// Requests that were sent late.
    pub(super) late: u64,
}
