//! Which Gateways run on this machine: pure, but for what the machine's addresses are, which is given.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use tidegate_model::{NamespacedName, Precedence, ResourceType};
use tidegate_xds::row::Listener;

/// A socket that a listener binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Socket {
    /// Address and port.
    pub(crate) at: SocketAddr,
    /// Datagrams instead of connections.
    pub(crate) udp: bool,
}

impl Socket {
    /// Whether the two cannot both be bound: one of them may be the unspecified address, which is all of its family.
    pub(crate) fn collides(&self, other: &Socket) -> bool {
        let (one, two) = (self.at.ip(), other.at.ip());
        self.udp == other.udp
            && self.at.port() == other.at.port()
            && one.is_ipv4() == two.is_ipv4()
            && (one == two || one.is_unspecified() || two.is_unspecified())
    }

    /// Whether it can be bound now.
    ///
    /// # Errors
    ///
    /// Says why not, and what to do. Not sharing a port is the point: Envoy's own bind would share it with another
    /// Envoy of this user.
    pub(crate) fn probe(&self) -> anyhow::Result<()> {
        let bound = match self.udp {
            true => std::net::UdpSocket::bind(self.at).map(drop),
            false => std::net::TcpListener::bind(self.at).map(drop),
        };
        bound.map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                anyhow::anyhow!("{self} is in use: stop what listens there, or change the port of the listener")
            }
            std::io::ErrorKind::PermissionDenied => anyhow::anyhow!(
                "{self} cannot be bound: {error}; use a port from 1024 on, or run with the right to bind lower ones"
            ),
            _ => anyhow::anyhow!("{self} cannot be bound: {error}"),
        })
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.at, if self.udp { " (UDP)" } else { "" })
    }
}

/// The sockets of a listener, read from what Envoy is sent, so that they are what Envoy binds whatever made them.
pub(crate) fn sockets(listener: &Listener) -> BTreeSet<Socket> {
    let url = ResourceType::Listener.url();
    let message = tidegate_proto::json::to_json(url, &listener.resource.bytes).unwrap_or_default();
    let more = message["additional_addresses"].as_array().cloned().unwrap_or_default();
    let addresses = more.iter().map(|more| &more["address"]).chain([&message["address"]]);
    addresses.filter_map(|address| socket(&address["socket_address"])).collect()
}

fn socket(address: &Value) -> Option<Socket> {
    let ip: IpAddr = address["address"].as_str()?.parse().ok()?;
    let port = u16::try_from(address["port_value"].as_u64()?).ok()?;
    Some(Socket { at: SocketAddr::new(ip, port), udp: address["protocol"] == "UDP" })
}

/// What a Gateway asks this machine for.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) gateway: NamespacedName,
    /// Its age, in seconds since the Unix epoch.
    pub(crate) created: i64,
    pub(crate) sockets: BTreeSet<Socket>,
}

/// What becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its Envoy runs.
    Runs,
    /// Another Gateway, which goes before, has a socket that it wants.
    Loses {
        /// That Gateway.
        to: NamespacedName,
        /// Why it goes before.
        by: Precedence,
        /// What it wants and cannot have.
        socket: Socket,
    },
    /// It names an address that this machine does not have.
    NotHere(IpAddr),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Runs => f.write_str("it runs"),
            Verdict::Loses { to, by, socket } => write!(
                f,
                "{socket} of this machine belongs to Gateway {to}, which {by}; give a listener of one \
                 of the two another port"
            ),
            Verdict::NotHere(address) => write!(
                f,
                "spec.addresses: {address} is no address of this machine; remove it, or run where the address is"
            ),
        }
    }
}

/// The verdict on every Gateway. The older one goes first, then the one whose name sorts first. One that cannot have
/// all of its sockets has none: half a Gateway would serve whom chance sends.
pub(crate) fn judge(mut claims: Vec<Claim>, is_local: impl Fn(IpAddr) -> bool) -> BTreeMap<NamespacedName, Verdict> {
    claims.sort_by(|a, b| (a.created, &a.gateway).cmp(&(b.created, &b.gateway)));
    let mut taken: Vec<(Socket, (i64, NamespacedName))> = Vec::new();
    let mut verdicts = BTreeMap::new();
    for claim in claims {
        let mut named = claim.sockets.iter().map(|socket| socket.at.ip()).filter(|ip| !ip.is_unspecified());
        let missing = named.find(|address| !is_local(*address));
        let lost = || {
            claim.sockets.iter().find_map(|socket| {
                let (_, (created, to)) = taken.iter().find(|(other, _)| other.collides(socket))?;
                let by = Precedence::of((*created, to), (claim.created, &claim.gateway));
                Some(Verdict::Loses { to: to.clone(), by, socket: *socket })
            })
        };
        let verdict = missing.map(Verdict::NotHere).or_else(lost).unwrap_or(Verdict::Runs);
        if verdict == Verdict::Runs {
            taken.extend(claim.sockets.iter().map(|socket| (*socket, (claim.created, claim.gateway.clone()))));
        }
        verdicts.insert(claim.gateway, verdict);
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_xds::{encode, ir};

    fn tcp(at: &str) -> Socket {
        Socket { at: at.parse().unwrap(), udp: false }
    }

    fn claim(name: &str, created: i64, sockets: &[&str]) -> Claim {
        let sockets = sockets.iter().map(|at| tcp(at)).collect();
        Claim { gateway: NamespacedName::new("shop", name), created, sockets }
    }

    /// Who loses what to whom, by name.
    fn judged(claims: Vec<Claim>) -> Vec<String> {
        let here: IpAddr = "10.0.0.1".parse().unwrap();
        let verdicts = judge(claims, |address| address == here);
        let told = |(gateway, verdict): (&NamespacedName, &Verdict)| match verdict {
            Verdict::Runs => format!("{} runs", gateway.name()),
            Verdict::Loses { to, socket, .. } => format!("{} loses {socket} to {}", gateway.name(), to.name()),
            Verdict::NotHere(address) => format!("{} is not at {address}", gateway.name()),
        };
        verdicts.iter().map(told).collect()
    }

    #[test]
    fn the_older_gateway_has_the_port_and_among_equals_the_one_that_sorts_first() {
        let equal = vec![claim("b", 0, &["0.0.0.0:80"]), claim("a", 0, &["0.0.0.0:80"])];
        assert_eq!(judged(equal), ["a runs", "b loses 0.0.0.0:80 to a"]);
        let older = vec![claim("b", 1, &["0.0.0.0:80"]), claim("a", 2, &["0.0.0.0:80"])];
        assert_eq!(judged(older), ["a loses 0.0.0.0:80 to b", "b runs"]);
    }

    #[test]
    fn one_that_loses_a_port_leaves_its_other_ports_to_the_next() {
        let claims = vec![
            claim("a", 0, &["0.0.0.0:80"]),
            claim("b", 0, &["0.0.0.0:80", "0.0.0.0:81"]),
            claim("c", 0, &["0.0.0.0:81"]),
        ];
        assert_eq!(judged(claims), ["a runs", "b loses 0.0.0.0:80 to a", "c runs"]);
    }

    #[test]
    fn one_that_names_a_foreign_address_runs_nowhere_and_takes_nothing() {
        let lost = claim("a", 0, &["10.0.0.1:80", "10.0.0.2:80"]);
        assert_eq!(judged(vec![lost, claim("b", 0, &["0.0.0.0:80"])]), ["a is not at 10.0.0.2", "b runs"]);
    }

    #[test]
    fn the_unspecified_address_is_every_address_of_its_family() {
        let pairs = [
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("[::]:80", "[::1]:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "0.0.0.0:81", false),
            ("0.0.0.0:80", "[::]:80", false),
        ];
        for (one, two, expected) in pairs {
            assert_eq!(tcp(one).collides(&tcp(two)), expected, "{one} {two}");
            assert_eq!(tcp(two).collides(&tcp(one)), expected, "{two} {one}");
        }
        assert!(!tcp("0.0.0.0:80").collides(&Socket { udp: true, ..tcp("0.0.0.0:80") }));
    }

    #[test]
    fn the_sockets_are_those_that_envoy_is_told_to_bind() {
        let hostname = tidegate_model::Hostname::any();
        let to = ir::Way::Requests("t".into());
        let chains = vec![ir::Chain { hostname, to, certificates: Vec::new(), clients: None, listeners: Vec::new() }];
        let addresses = vec!["127.0.0.1".into(), "127.0.0.2".into()];
        let mut listener = ir::Listener { name: "l".into(), addresses, port: 8080, family: ir::Family::Http, chains };
        let both = BTreeSet::from([tcp("127.0.0.1:8080"), tcp("127.0.0.2:8080")]);
        assert_eq!(sockets(&encode::listener(&listener)), both);
        listener.family = ir::Family::Udp;
        listener.chains[0].to = ir::Way::Stream(ir::Stream::default());
        let both = both.into_iter().map(|socket| Socket { udp: true, ..socket }).collect();
        assert_eq!(sockets(&encode::listener(&listener)), both);
    }

    #[test]
    fn a_socket_that_is_taken_is_named() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket { at: taken.local_addr().unwrap(), udp: false };
        let error = socket.probe().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{socket} is in use")), "{error}");
        drop(taken);
        socket.probe().unwrap();
    }
}
