//! The session against a model of Envoy, message by message and encoded as on the wire; then the service on loopback.

mod eager;
mod harness;
mod loopback;
mod publication;
mod random;
mod rejections;
mod rules;
mod scenarios;
mod world;
