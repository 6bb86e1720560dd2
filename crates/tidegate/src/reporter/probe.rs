//! Asking endpoints.

use super::decide::Endpoint;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Probes at a time.
const AT_A_TIME: usize = 64;

/// The start of an answer: `HTTP/1.1 200`.
const STATUS_LINE: usize = 12;

/// How an endpoint is asked.
#[derive(Clone, Debug)]
pub(crate) enum Probe {
    /// It is well if it takes a connection.
    Tcp,
    /// It is well if it answers a GET of this path with a status from 200 to 399.
    Http(String),
}

/// What came of asking an endpoint.
#[derive(Debug)]
pub(crate) enum Answer {
    Well,
    Unwell,
    /// It was not asked, for want of something on this machine: that says nothing about the endpoint.
    Unasked(std::io::Error),
}

/// Asks all of them, and says which are well.
pub(crate) async fn all(probe: &Probe, endpoints: BTreeSet<Endpoint>, timeout: Duration) -> Vec<(Endpoint, Answer)> {
    let (mut asked, mut results) = (JoinSet::new(), Vec::with_capacity(endpoints.len()));
    for endpoint in endpoints {
        if asked.len() >= AT_A_TIME {
            results.extend(asked.join_next().await.and_then(Result::ok));
        }
        let probe = probe.clone();
        asked.spawn(async move {
            let answer = tokio::time::timeout(timeout, ask(&probe, endpoint.socket())).await;
            let answer = match answer {
                Ok(Ok(true)) => Answer::Well,
                Ok(Err(error)) if is_own(&error) => Answer::Unasked(error),
                Ok(Ok(false) | Err(_)) | Err(_) => Answer::Unwell,
            };
            (endpoint, answer)
        });
    }
    while let Some(result) = asked.join_next().await {
        results.extend(result);
    }
    results
}

/// Whether an error is about this process: it has no file, port or memory left for a connection.
fn is_own(error: &std::io::Error) -> bool {
    /// `ENFILE` and `EMFILE`, which have no kind of their own.
    const FILES: [i32; 2] = [23, 24];
    matches!(error.kind(), ErrorKind::AddrNotAvailable | ErrorKind::OutOfMemory)
        || error.raw_os_error().is_some_and(|code| FILES.contains(&code))
}

async fn ask(probe: &Probe, to: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(to).await?;
    let Probe::Http(path) = probe else { return Ok(true) };
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nUser-Agent: tidegate-report\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut start = [0; STATUS_LINE];
    stream.read_exact(&mut start).await?;
    Ok(is_good(&start))
}

fn is_good(start: &[u8; STATUS_LINE]) -> bool {
    start.starts_with(b"HTTP/1.") && start[8] == b' ' && matches!(start[9], b'2' | b'3')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_lacks_is_not_said_of_an_endpoint() {
        for code in [23, 24] {
            assert!(is_own(&std::io::Error::from_raw_os_error(code)));
        }
        assert!(!is_own(&ErrorKind::ConnectionRefused.into()));
    }

    #[test]
    fn a_status_from_200_to_399_is_good() {
        for (start, expected) in [
            (b"HTTP/1.1 200", true),
            (b"HTTP/1.0 302", true),
            (b"HTTP/1.1 404", false),
            (b"HTTP/1.1 503", false),
            (b"SSH-2.0-Open", false),
            (b"HTTP/2.0 200", false),
        ] {
            assert_eq!(is_good(start), expected, "{}", String::from_utf8_lossy(start));
        }
    }
}
