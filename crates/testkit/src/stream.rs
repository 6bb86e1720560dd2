//! Backends for connections and datagrams as a whole, and the client that asks them once.
//!
//! Over TCP, with or without TLS, a backend greets with one line and then answers lines: `PING` with `PONG`, `IS_TLS`
//! with `true` or `false`, `TEST` with the JSON form of [`Seen`] on one line. Over UDP it answers each datagram with that
//! JSON and what it was sent.

use crate::echo::Identity;
use crate::tls::{self, Client, Pair};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// What a backend says before anybody has said a word.
pub const GREETING: &str = "Gateway API Test TCP Server";

/// Longest wait for an answer over TCP.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for a datagram: one that was dropped never comes.
const DATAGRAM_TIMEOUT: Duration = Duration::from_millis(500);

/// The largest datagram there is.
const DATAGRAM_MAX: usize = 65_535;

/// Who a backend is, and what it saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Who answers.
    #[serde(flatten)]
    pub identity: Identity,
    /// Whether it was reached over TLS.
    #[serde(default)]
    pub tls: bool,
    /// The name that was asked for in the handshake.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "serverName")]
    pub server_name: Option<String>,
    /// What it was sent, over UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

/// A running backend. Dropping it closes its port and all its connections.
#[derive(Debug)]
pub struct StreamEcho {
    address: SocketAddr,
    _serving: JoinSet<()>,
}

impl StreamEcho {
    /// Listens on `address` (port 0: any) for connections and answers as `identity`; over TLS with this certificate, if
    /// there is one.
    ///
    /// # Errors
    ///
    /// The address is taken or not of this machine, or the certificate has no usable key.
    pub async fn tcp(address: SocketAddr, identity: Identity, certificate: Option<&Pair>) -> io::Result<Self> {
        let acceptor = certificate.map(|pair| tls::acceptor(pair, &[])).transpose()?;
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let mut serving = JoinSet::new();
        serving.spawn(accept(listener, acceptor, identity));
        Ok(StreamEcho { address, _serving: serving })
    }

    /// Listens on `address` (port 0: any) for datagrams and answers as `identity`.
    ///
    /// # Errors
    ///
    /// The address is taken or not of this machine.
    pub async fn udp(address: SocketAddr, identity: Identity) -> io::Result<Self> {
        let socket = UdpSocket::bind(address).await?;
        let address = socket.local_addr()?;
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut buffer = vec![0; DATAGRAM_MAX];
            while let Ok((size, from)) = socket.recv_from(&mut buffer).await {
                let request = Some(String::from_utf8_lossy(&buffer[..size]).into_owned());
                let seen = Seen { identity: identity.clone(), request, ..Seen::default() };
                // A client that is gone is nobody's loss.
                let _gone = socket.send_to(json(&seen).as_bytes(), from).await;
            }
        });
        Ok(StreamEcho { address, _serving: serving })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, identity: Identity) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let (acceptor, identity) = (acceptor.clone(), identity.clone());
                connections.spawn(async move {
                    // A connection that breaks is the peer's affair.
                    let _broken = serve(stream, acceptor, identity).await;
                });
            }
        }
    }
}

async fn serve(stream: TcpStream, acceptor: Option<TlsAcceptor>, identity: Identity) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let seen = Seen { identity, ..Seen::default() };
    match acceptor {
        None => converse(stream, seen).await,
        Some(acceptor) => {
            let stream = acceptor.accept(stream).await?;
            let server_name = stream.get_ref().1.server_name().map(str::to_owned);
            converse(stream, Seen { tls: true, server_name, ..seen }).await
        }
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, seen: Seen) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.write_all(format!("{GREETING}\n").as_bytes()).await?;
    stream.flush().await?;
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        let answer = match line.trim() {
            "PING" => "PONG".to_owned(),
            "IS_TLS" => seen.tls.to_string(),
            "TEST" => json(&seen),
            other => format!("{other}?"),
        };
        stream.write_all(format!("{answer}\n").as_bytes()).await?;
        stream.flush().await?;
        line.clear();
    }
    Ok(())
}

fn json(seen: &Seen) -> String {
    serde_json::to_string(seen).expect("strings and flags are JSON")
}

/// A connection to a backend.
pub struct Conversation {
    stream: BufReader<Box<dyn Duplex>>,
    /// The certificate that the server showed, in DER.
    pub certificate: Option<Bytes>,
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl Conversation {
    /// Opens a connection to `address`, over TLS asking for `server_name` if there is one (any certificate is taken), and
    /// has the backend at its end say who it is.
    ///
    /// # Errors
    ///
    /// Nobody listens, the connection is closed or broken before the answer, or there is none in time.
    pub async fn open(address: SocketAddr, server_name: Option<&str>) -> io::Result<(Self, Seen)> {
        Conversation::open_as(&Client::default(), address, server_name).await
    }

    /// The same as this client.
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn open_as(client: &Client, address: SocketAddr, server_name: Option<&str>) -> io::Result<(Self, Seen)> {
        let opened = async {
            let stream = TcpStream::connect(address).await?;
            let (stream, certificate): (Box<dyn Duplex>, _) = match server_name {
                None => (Box::new(stream), None),
                Some(name) => {
                    let stream = tls::connect(stream, name, &[], client).await?;
                    let certificate = tls::certificate(&stream);
                    (Box::new(stream), certificate)
                }
            };
            let mut conversation = Conversation { stream: BufReader::new(stream), certificate };
            // At once with the first question: a proxy that has to see what is spoken waits for the client's first word.
            let seen = conversation.question(&[GREETING]).await?;
            Ok((conversation, seen))
        };
        tokio::time::timeout(TIMEOUT, opened).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Asks again.
    ///
    /// # Errors
    ///
    /// The connection is closed or broken, or there is no answer in time.
    pub async fn ask(&mut self) -> io::Result<Seen> {
        let asked = self.question(&[]);
        tokio::time::timeout(TIMEOUT, asked).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Waits until the other end closes the connection.
    ///
    /// # Errors
    ///
    /// It does not in time.
    pub async fn ended(mut self) -> io::Result<()> {
        let end = async { while answer_line(&mut self.stream).await.is_ok() {} };
        tokio::time::timeout(TIMEOUT, end).await.map_err(|_| io::ErrorKind::TimedOut.into())
    }

    async fn question(&mut self, first: &[&str]) -> io::Result<Seen> {
        self.stream.write_all(b"PING\nIS_TLS\nTEST\n").await?;
        self.stream.flush().await?;
        for expected in first.iter().chain(&["PONG"]) {
            let line = answer_line(&mut self.stream).await?;
            if line != *expected {
                return Err(io::Error::other(format!("{line:?} came in place of {expected:?}")));
            }
        }
        let is_tls = answer_line(&mut self.stream).await?;
        let seen: Seen = serde_json::from_str(&answer_line(&mut self.stream).await?).map_err(io::Error::other)?;
        if is_tls != seen.tls.to_string() {
            return Err(io::Error::other(format!("IS_TLS is answered {is_tls:?}, and {seen:?} to TEST")));
        }
        Ok(seen)
    }
}

async fn answer_line(stream: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<String> {
    let mut line = String::new();
    match stream.read_line(&mut line).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

/// Sends a datagram to `address` from a socket of its own and takes the answer.
///
/// # Errors
///
/// There is none in half a second.
pub async fn datagram(address: SocketAddr, text: &str) -> io::Result<Seen> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    socket.connect(address).await?;
    let mut buffer = vec![0; DATAGRAM_MAX];
    let answer = async {
        socket.send(text.as_bytes()).await?;
        socket.recv(&mut buffer).await
    };
    let size =
        tokio::time::timeout(DATAGRAM_TIMEOUT, answer).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    serde_json::from_slice(&buffer[..size]).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anywhere() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
    }

    #[tokio::test]
    async fn a_backend_says_who_it_is_with_and_without_tls() {
        let identity = Identity::new("shop", "db", "db-0");
        let plain = StreamEcho::tcp(anywhere(), identity.clone(), None).await.unwrap();
        let (_, seen) = Conversation::open(plain.address(), None).await.unwrap();
        assert_eq!(seen, Seen { identity: identity.clone(), ..Seen::default() });
        let pair = Pair::new(&["db.example"]);
        let tls = StreamEcho::tcp(anywhere(), identity.clone(), Some(&pair)).await.unwrap();
        let (mut conversation, seen) = Conversation::open(tls.address(), Some("db.example")).await.unwrap();
        assert_eq!((seen.tls, seen.server_name.as_deref()), (true, Some("db.example")));
        assert_eq!(conversation.certificate, Some(pair.der));
        assert_eq!(conversation.ask().await.unwrap(), seen);
        drop(tls);
        conversation.ended().await.unwrap();
    }

    #[tokio::test]
    async fn a_datagram_comes_back_with_who_got_it_whatever_its_size() {
        let identity = Identity::new("shop", "dns", "dns-0");
        let backend = StreamEcho::udp(anywhere(), identity.clone()).await.unwrap();
        for text in ["a".to_owned(), "b".repeat(9_000)] {
            let seen = datagram(backend.address(), &text).await.unwrap();
            assert_eq!((seen.identity, seen.request), (identity.clone(), Some(text)));
        }
    }
}
