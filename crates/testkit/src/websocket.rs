//! A WebSocket, as far as a proxy can be asked whether it lets one through: one text there, and what comes back.

use crate::http::TIMEOUT;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A frame with a short text that is not divided: final, of type text.
const TEXT: u8 = 0x81;
/// The bit that says that a frame is masked, beside its length.
const MASKED: u8 = 0x80;
const MASK: [u8; 4] = [1, 2, 3, 4];

/// Asks `path` of `host` at `address` for a WebSocket, sends `text` over it, and returns the text that comes back; or
/// the status of the answer, if it is not the wanted one.
///
/// # Errors
///
/// Nobody listens, the connection breaks, or there is no answer in [`TIMEOUT`].
///
/// # Panics
///
/// The text has more than 125 bytes.
pub async fn exchange(address: SocketAddr, host: &str, path: &str, text: &str) -> io::Result<Result<String, u16>> {
    assert!(text.len() <= 125, "the text fits into a short frame");
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    tokio::time::timeout(TIMEOUT, over(address, host, path, text)).await.map_err(late)?
}

async fn over(address: SocketAddr, host: &str, path: &str, text: &str) -> io::Result<Result<String, u16>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    if status != 101 {
        return Ok(Err(status));
    }
    let mut frame = vec![TEXT, MASKED | u8::try_from(text.len()).unwrap_or(0)];
    frame.extend(MASK);
    frame.extend(text.bytes().zip(MASK.into_iter().cycle()).map(|(byte, mask)| byte ^ mask));
    stream.write_all(&frame).await?;
    let (_, length) = (stream.read_u8().await?, stream.read_u8().await?);
    let mut mask = [0; 4];
    if length & MASKED != 0 {
        stream.read_exact(&mut mask).await?;
    }
    let mut payload = vec![0; usize::from(length & !MASKED)];
    stream.read_exact(&mut payload).await?;
    let text: Vec<u8> = payload.into_iter().zip(mask.into_iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    Ok(Ok(String::from_utf8_lossy(&text).into_owned()))
}
