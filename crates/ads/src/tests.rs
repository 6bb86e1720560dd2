//! The session against a model of Envoy, message by message and encoded as on the wire; then the service on loopback.

mod churn;
mod eager;
mod figures;
mod harness;
mod hostile;
mod limits;
mod localities;
mod loopback;
mod model;
mod publication;
mod random;
mod raw;
mod rejections;
mod rules;
mod scenarios;
mod server;
mod world;
