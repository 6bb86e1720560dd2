//! The dataflow thread: events in, sealed values out.
//!
//! *Comes in*: batches of [`tidegate_log::Event`]s. *Goes out*: one [`tidegate_xds::Sealed`] value an epoch, on a watch
//! channel, and what was taken in, on the log. *Must not know*: Kubernetes clients, gRPC. This is the only crate that
//! knows both timely and tokio.
//!
//! *Invariant*: nothing is shown to anybody before it is complete: not before every kind is listed, and then only what
//! the dataflow's frontier has passed.
//!
//! *Start at* [`Core`], which is all of it without clock, threads of its own or I/O; [`Engine`] puts it on a thread,
//! [`replay`] drives it from a log. Modules in the order of the data: what normalization made of the objects, the
//! workers that derive, the core that seals, then the rim.

mod facts;

mod gate;

mod profile;

mod workers;

mod epoch;

mod timers;

mod recorder;

mod live;

mod replay;

pub use epoch::{Applied, Core, epoch_in_progress};
pub use gate::Gate;
pub use live::{Clock, Command, Engine, EngineHandle, EngineState, Error, Running};
pub use profile::{Channel, Operator, Picture, Profiler};
pub use recorder::Recording;
pub use replay::{Difference, ReplayError, ReplayReport, replay};

use tidegate_model::{AddressRange, Millis, Name, REPORT_LIFETIME_MS};
pub use tidegate_translate::Bind;

/// What the engine is told from outside.
#[derive(Clone, Debug)]
pub struct Config {
    /// `spec.controllerName` of the classes that are ours.
    pub controller: Name,
    /// What listeners bind to.
    pub bind: Bind,
    /// Addresses that Gateways may have; none: what a Gateway asks for stays undecided.
    pub usable: Vec<AddressRange>,
    /// How long an entry may keep its previous target while the new one has no usable endpoint, in milliseconds, unless
    /// its route says otherwise; none holds nothing.
    pub hold: Option<Millis>,
    /// How long an entry of an EndpointReport is believed after its renewal, in milliseconds.
    pub report_lifetime: Millis,
    /// Threads that derive. One steps on the thread that drives the engine and answers a lone change fastest; more have
    /// a thread each and raise the throughput of batches.
    pub workers: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            controller: Name::from(tidegate_model::CONTROLLER_NAME),
            bind: Bind::default(),
            usable: Vec::new(),
            hold: None,
            report_lifetime: REPORT_LIFETIME_MS,
            workers: 1,
        }
    }
}
