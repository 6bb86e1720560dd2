//! A listening socket with a bound on its open connections.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Open connections at a time; further ones wait in the accept queue. A scraper, a few people and probes need a
/// handful; 64 of them with a dump of some MB each stay far below what the snapshots themselves take.
pub const MAX_CONNECTIONS: usize = 64;

/// A TCP listener that accepts only while fewer than [`MAX_CONNECTIONS`] are open.
pub(crate) struct Bounded {
    tcp: TcpListener,
    permits: Arc<Semaphore>,
}

impl Bounded {
    /// Bounds `tcp`.
    pub(crate) fn new(tcp: TcpListener) -> Self {
        Bounded { tcp, permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)) }
    }
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed");
        let (stream, peer) = axum::serve::Listener::accept(&mut self.tcp).await;
        (Connection { stream, _permit: permit }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// A connection that gives its place back when it closes.
pub(crate) struct Connection {
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
