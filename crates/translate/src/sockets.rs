//! Sockets: each port of a Gateway that is served is one of Envoy's listeners, made of the listeners there, the Gateway's
//! own and those of its ListenerSets, and of the streams that routes want. Requests are told apart in tables, which have a
//! way of their own to Envoy; streams have none, so a change of theirs changes the listener, and in it only the chain of
//! their host.

use crate::edges::Edges;
use crate::gateways::GatewayState;
use crate::lookup::Rows;
use crate::names::{Backend, Socket, table_name};
use crate::speech::Speech;
use crate::streams::{SocketKey, Stream};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{Hostname, ListenerKey, Name, NamespacedName};
use tidegate_xds::ir::{self, Family, Way};
use tidegate_xds::{Row, encode, row};

/// What a Gateway says of a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Frame {
    addresses: Vec<Name>,
    doors: Vec<Door>,
}

/// One of the listeners at a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
struct Door {
    listener: ListenerKey,
    hostname: Hostname,
    speech: Speech,
    /// Names of the secrets with its certificates.
    certificates: Vec<Name>,
    /// How its clients are validated, if they are.
    clients: Option<ir::ClientValidation>,
    /// Whether it is served. If not, it only claims its hostname.
    open: bool,
}

/// The sockets of a Gateway: one for each port at which something is served.
pub(crate) fn frames(state: &GatewayState) -> Vec<(SocketKey, Arc<Frame>)> {
    let mut sockets: BTreeMap<Socket, Vec<Door>> = BTreeMap::new();
    for (listener, own, clients) in state.listeners().filter(|(listener, ..)| listener.claims) {
        let Some(socket) = listener.socket() else { continue };
        sockets.entry(socket).or_default().push(Door {
            listener: listener.key.clone(),
            hostname: listener.hostname.clone(),
            speech: listener.speech,
            certificates: own.served.iter().map(|(name, _)| name.clone()).collect(),
            clients: clients.validation.clone(),
            open: listener.usable,
        });
    }
    sockets.retain(|_, doors| doors.iter().any(|door| door.open));
    let frame = |doors| Arc::new(Frame { addresses: state.own.addresses.bound.clone(), doors });
    sockets.into_iter().map(|(socket, doors)| ((state.fact.name.clone(), socket), frame(doors))).collect()
}

/// What a socket is made of. The frame sorts first, then streams by host and precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum SocketInput {
    Frame(Arc<Frame>),
    Stream(Arc<Stream>),
}

/// What comes of a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum SocketOutput {
    Listener(Arc<row::Listener>),
    /// The listener names the cluster of this backend.
    Uses(Backend),
}

/// Every socket.
pub(crate) fn sockets<'s>(
    edges: &Edges,
    frames: Rows<'s, (SocketKey, Arc<Frame>)>,
    streams: Rows<'s, (SocketKey, Arc<Stream>)>,
) -> Rows<'s, (NamespacedName, SocketOutput)> {
    let frames = edges.carry("frames of sockets", frames).map(|(key, frame)| (key, SocketInput::Frame(frame)));
    let streams = edges.carry("streams of sockets", streams).map(|(key, stream)| (key, SocketInput::Stream(stream)));
    let outputs = frames.concat(streams).reduce_named("sockets", |(_, socket), input, output| {
        let (mut frame, mut streams) = (None, Vec::new());
        for (input, _) in input {
            match input {
                SocketInput::Frame(found) => frame = Some(found),
                SocketInput::Stream(stream) => streams.push(&**stream),
            }
        }
        if let Some(frame) = frame {
            output.extend(assemble(*socket, frame, &streams).into_iter().map(|row| (row, 1)));
        }
    });
    outputs.map(|((gateway, _), row)| (gateway, row))
}

/// The listener of a socket and what it uses. `streams` are in order.
pub(crate) fn assemble(socket: Socket, frame: &Frame, streams: &[&Stream]) -> Vec<SocketOutput> {
    let mut served: BTreeMap<(&ListenerKey, &Hostname), &Stream> = BTreeMap::new();
    for stream in streams {
        served.entry((&stream.listener, &stream.host)).or_insert(stream);
    }
    let listener = ir::Listener {
        name: socket.name(),
        addresses: frame.addresses.clone(),
        port: socket.port,
        family: socket.family,
        chains: match socket.family {
            Family::Http => vec![requests(socket, frame)],
            Family::Tls | Family::Tcp | Family::Udp => chains(socket, frame, &served),
        },
    };
    let uses: BTreeSet<&Backend> = served.values().flat_map(|stream| &stream.uses).collect();
    let mut outputs = vec![SocketOutput::Listener(Arc::new(encode::listener(&listener)))];
    outputs.extend(uses.into_iter().cloned().map(SocketOutput::Uses));
    outputs
}

/// The one way into a port of plaintext HTTP, whose virtual hosts tell its listeners apart.
fn requests(socket: Socket, frame: &Frame) -> ir::Chain {
    let open = frame.doors.iter().filter(|door| door.open);
    ir::Chain {
        hostname: Hostname::any(),
        to: Way::Requests(table_name(socket, &Hostname::any())),
        certificates: Vec::new(),
        clients: None,
        listeners: open.map(|door| door.listener.clone()).collect(),
    }
}

/// The ways into any other port. With TLS the name that the client asks for chooses among them; elsewhere there is one.
fn chains(socket: Socket, frame: &Frame, served: &BTreeMap<(&ListenerKey, &Hostname), &Stream>) -> Vec<ir::Chain> {
    let mut chains = Vec::new();
    let mut enter = |door: &Door, hostname: &Hostname, to: Way| {
        let terminates = door.open && door.speech.needs_certificate();
        chains.push(ir::Chain {
            hostname: hostname.clone(),
            to,
            certificates: if terminates { door.certificates.clone() } else { Vec::new() },
            clients: door.clients.clone().filter(|_| terminates),
            listeners: vec![door.listener.clone()],
        });
    };
    let takes_streams = frame.doors.iter().any(|door| door.speech.is_stream());
    for door in &frame.doors {
        match (door.open, door.speech.is_stream()) {
            (true, false) => enter(door, &door.hostname, Way::Requests(table_name(socket, &door.hostname))),
            (true, true) => {
                // A host that no route takes is closed, and not what a less specific listener makes of it.
                let own = std::iter::once(&door.hostname);
                let hosts: BTreeSet<&Hostname> = own.chain(routed(door, served)).collect();
                for host in hosts {
                    enter(door, host, Way::Stream(stream(served.get(&(&door.listener, host)).copied())));
                }
            }
            // Among requests alone the hosts of a listener without a certificate are answered 421.
            (false, _) if takes_streams => enter(door, &door.hostname, Way::Stream(stream(None))),
            (false, _) => {}
        }
    }
    chains.sort_by(|a, b| a.hostname.cmp(&b.hostname));
    chains
}

/// The hosts of a listener that routes take.
fn routed<'s>(
    door: &Door,
    served: &BTreeMap<(&'s ListenerKey, &'s Hostname), &'s Stream>,
) -> impl Iterator<Item = &'s Hostname> {
    served.keys().filter(|(listener, _)| **listener == door.listener).map(|(_, host)| *host)
}

fn stream(served: Option<&Stream>) -> ir::Stream {
    served
        .map_or_else(ir::Stream::default, |stream| ir::Stream { id: stream.id.clone(), shares: stream.shares.clone() })
}

/// The row of a listener.
pub(crate) fn listener_row((gateway, output): (NamespacedName, SocketOutput)) -> Option<Row> {
    match output {
        SocketOutput::Listener(listener) => Some(Row::Listener(gateway, listener)),
        SocketOutput::Uses(_) => None,
    }
}

/// What a listener uses.
pub(crate) fn used((gateway, output): (NamespacedName, SocketOutput)) -> Option<(NamespacedName, Backend)> {
    match output {
        SocketOutput::Listener(_) => None,
        SocketOutput::Uses(backend) => Some((gateway, backend)),
    }
}
