//! Ranges of addresses, as an operator gives them to Gateways.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of IP addresses, written `10.0.0.0/24` or `2001:db8::/64`; a single address is a range too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange {
    base: IpAddr,
    /// How many bits all of its addresses have in common.
    prefix: u8,
}

impl AddressRange {
    /// Whether the address is one of the range.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.base.is_ipv4() == address.is_ipv4() && masked(address, self.prefix) == self.base
    }

    /// The first address that a machine can have: not the one that names the range, unless there are no more than two.
    #[must_use]
    pub fn first(&self) -> IpAddr {
        let skipped = u8::from(self.prefix + 1 < width(self.base));
        match self.base {
            IpAddr::V4(base) => Ipv4Addr::from_bits(base.to_bits() + u32::from(skipped)).into(),
            IpAddr::V6(base) => Ipv6Addr::from_bits(base.to_bits() + u128::from(skipped)).into(),
        }
    }
}

/// How many bits an address of its family has.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with nothing but its first `prefix` bits, of which it has so many.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    // A shift by all bits of a number is none, hence the checked ones.
    let dropped = u32::from(width(address) - prefix);
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(dropped).unwrap_or(0)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(dropped).unwrap_or(0)).into(),
    }
}

impl FromStr for AddressRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let how = "write ADDRESS or ADDRESS/BITS, as in 10.0.0.0/24, 192.0.2.7 or 2001:db8::/64";
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| how.to_owned())?;
        let prefix = bits.map_or(Ok(width(address)), str::parse).map_err(|_| how.to_owned())?;
        if prefix > width(address) {
            return Err(format!("{address} has {} bits, not {prefix}", width(address)));
        }
        let base = masked(address, prefix);
        if base != address {
            return Err(format!("{address} is no start of {prefix} bits: write {base}/{prefix}, or {address} alone"));
        }
        Ok(AddressRange { base, prefix })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix == width(self.base) {
            return write!(f, "{}", self.base);
        }
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

impl TryFrom<String> for AddressRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<AddressRange> for String {
    fn from(range: AddressRange) -> Self {
        range.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_in_a_range_of_its_family_with_its_first_bits() {
        assert!(range("10.0.0.0/24").contains(address("10.0.0.255")));
        assert!(!range("10.0.0.0/24").contains(address("10.0.1.0")));
        assert!(range("192.0.2.7").contains(address("192.0.2.7")));
        assert!(!range("192.0.2.7/32").contains(address("192.0.2.6")));
        assert!(range("0.0.0.0/0").contains(address("255.255.255.255")));
        assert!(!range("0.0.0.0/0").contains(address("::")));
        assert!(range("::/0").contains(address("ffff::1")));
        assert!(range("2001:db8::/64").contains(address("2001:db8::f00")));
        assert!(!range("2001:db8::/64").contains(address("2001:db8:0:1::")));
    }

    #[test]
    fn the_first_address_is_one_that_a_machine_can_have() {
        let first = |text| range(text).first().to_string();
        assert_eq!(first("10.0.0.0/24"), "10.0.0.1");
        assert_eq!(first("10.0.0.4/30"), "10.0.0.5");
        assert_eq!(first("10.0.0.4/31"), "10.0.0.4");
        assert_eq!(first("127.0.0.2"), "127.0.0.2");
        assert_eq!(first("2001:db8::/64"), "2001:db8::1");
        assert_eq!(first("::1"), "::1");
        assert_eq!(first("0.0.0.0/0"), "0.0.0.1");
    }

    #[test]
    fn a_range_is_written_as_it_is_read() {
        for text in ["10.0.0.0/24", "192.0.2.7", "2001:db8::/64", "::1", "0.0.0.0/0"] {
            assert_eq!(range(text).to_string(), text);
            let json = serde_json::to_string(&range(text)).unwrap();
            assert_eq!(serde_json::from_str::<AddressRange>(&json).unwrap(), range(text));
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0.1/24", "::/129", "10.0.0/24", "a/8", "10.0.0.0/-1", "10.0.0.0/"] {
            assert!(wrong.parse::<AddressRange>().is_err(), "{wrong} was read");
        }
        assert!("10.0.0.1/24".parse::<AddressRange>().unwrap_err().contains("write 10.0.0.0/24"));
    }
}
