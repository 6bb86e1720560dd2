//! Values of flags: how they are written, and what is said about those that cannot be read.

use std::net::SocketAddr;
use std::time::Duration;
use tidegate_model::{AddressRange, NamespacedName, RETARGET_HOLD_MAX_MS};

/// Reads a duration: a whole number with `ms`, `s` or `m`; a bare `0` is allowed.
///
/// # Errors
///
/// Says how a duration is written.
pub fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or("add a unit: ms, s or m, as in 5s")?;
    let (number, unit) = text.split_at(unit_at);
    let number: u32 = number.parse().map_err(|_| "write a whole number and a unit, as in 500ms, 5s or 2m")?;
    match unit {
        "ms" => Ok(Duration::from_millis(number.into())),
        "s" => Ok(Duration::from_secs(number.into())),
        "m" => Ok(Duration::from_secs(u64::from(number) * 60)),
        _ => Err(format!("{unit} is no unit: write ms, s or m, as in 5s")),
    }
}

/// Reads the bound of retarget holds.
///
/// # Errors
///
/// Says how a duration is written, and what the longest one is.
pub fn retarget_hold(text: &str) -> Result<Duration, String> {
    let bound = duration(text)?;
    if bound > Duration::from_millis(RETARGET_HOLD_MAX_MS) {
        return Err("is longer than an hour: write a time from 0 to 60m".to_owned());
    }
    Ok(bound)
}

/// Reads a size: a whole number with `KiB`, `MiB` or `GiB`.
///
/// # Errors
///
/// Says how a size is written.
pub fn bytes(text: &str) -> Result<usize, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or("add a unit: KiB, MiB or GiB, as in 64MiB")?;
    let (number, unit) = text.split_at(unit_at);
    let number: u16 = number.parse().map_err(|_| "write a whole number and a unit, as in 512KiB or 64MiB")?;
    let shift = match unit {
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(format!("{unit} is no unit: write KiB, MiB or GiB, as in 64MiB")),
    };
    Ok(usize::from(number) << shift)
}

/// Reads the address of a listening socket.
///
/// # Errors
///
/// Says how an address is written.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write IP:PORT, as in 127.0.0.1:18000, 0.0.0.0:18000 or [::1]:18000 (port 0 takes a free one)".to_owned()
    })
}

/// Reads a range of addresses.
///
/// # Errors
///
/// Says how one is written.
pub fn address_range(text: &str) -> Result<AddressRange, String> {
    text.parse()
}

/// Reads `NAMESPACE/NAME`.
///
/// # Errors
///
/// Says how a Gateway is named.
pub fn namespaced_name(text: &str) -> Result<NamespacedName, String> {
    let is_label = |part: &str| {
        !part.is_empty()
            && part.len() <= 253
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.')
    };
    match text.split_once('/') {
        Some((namespace, name)) if is_label(namespace) && is_label(name) => Ok(NamespacedName::new(namespace, name)),
        _ => Err("write NAMESPACE/NAME in lower case, as in shop/public".to_owned()),
    }
}

/// Reads a name that can be a part of an object's name.
///
/// # Errors
///
/// Says how one is written.
pub fn label(text: &str) -> Result<String, String> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if text.len() <= 100 && text.starts_with(is_end) && text.ends_with(is_end) && text.chars().all(is_inner) {
        return Ok(text.to_owned());
    }
    Err("write up to 100 lower-case letters, digits, '-' and '.', with a letter or digit at both ends".to_owned())
}

/// Reads a controller name as a GatewayClass must carry it.
///
/// # Errors
///
/// Says how a controller is named.
pub fn controller_name(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((domain, path)) if domain.contains('.') && !path.is_empty() && text.len() <= 253 => Ok(text.to_owned()),
        _ => Err("write a domain and a path, as in example.com/gateway-controller".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_unless_zero() {
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["5", "s", "", "-5s", "5h", "1.5s", "99999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong} was read");
        }
    }

    #[test]
    fn a_retarget_hold_lasts_an_hour_at_most() {
        assert_eq!(retarget_hold("0"), Ok(Duration::ZERO));
        assert_eq!(retarget_hold("60m"), Ok(Duration::from_secs(3600)));
        assert!(retarget_hold("61m").is_err_and(|error| error.contains("an hour")));
        assert!(retarget_hold("soon").is_err());
    }

    #[test]
    fn sizes_need_a_unit() {
        assert_eq!((bytes("512KiB"), bytes("64MiB"), bytes("2GiB")), (Ok(512 << 10), Ok(64 << 20), Ok(2 << 30)));
        for wrong in ["64", "MiB", "", "-1KiB", "64MB", "1.5GiB", "99999KiB"] {
            assert!(bytes(wrong).is_err(), "{wrong} was read");
        }
    }

    #[test]
    fn a_gateway_is_a_namespace_and_a_name() {
        assert_eq!(namespaced_name("shop/public"), Ok(NamespacedName::new("shop", "public")));
        for wrong in ["public", "/public", "shop/", "shop/a/b", "Shop/public", "shop /x", ""] {
            assert!(namespaced_name(wrong).is_err(), "{wrong} was read");
        }
    }

    #[test]
    fn a_reporter_has_a_name_that_an_object_could_have() {
        assert_eq!(label("node-a.1"), Ok("node-a.1".to_owned()));
        for wrong in ["", "-a", "a-", "Node", "a b", "a/b"] {
            assert!(label(wrong).is_err(), "{wrong} was read");
        }
    }

    #[test]
    fn a_controller_is_a_domain_and_a_path() {
        assert!(controller_name(tidegate_model::CONTROLLER_NAME).is_ok());
        for wrong in ["tidegate", "tidegate/x", "example.com/", ""] {
            assert!(controller_name(wrong).is_err(), "{wrong} was read");
        }
    }
}
