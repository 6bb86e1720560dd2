//! Ports for listeners that must be named before they are bound.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// The range searched: below the ports that the system gives to outgoing connections, one of which might take a port
/// between the search and its use.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port that nobody listens on, on any address. The same process is not given it again until 12,000 others were; a
/// process that starts at the same time begins its search elsewhere.
///
/// # Panics
///
/// Every port of the range is in use.
#[must_use]
pub fn free() -> u16 {
    let stride = u16::try_from(std::process::id() % 97).expect("below 97") * 123;
    (0..COUNT)
        .map(|_| FIRST + NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(stride) % COUNT)
        .find(|port| is_free(*port))
        .expect("a machine that runs tests has a free port among 12,000")
}

/// Whether nobody listens on `port`, on any address.
#[must_use]
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_on_one_address_is_not_free() {
        let port = free();
        assert!(is_free(port));
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!is_free(port));
        drop(taken);
        assert_ne!(free(), port);
    }
}
