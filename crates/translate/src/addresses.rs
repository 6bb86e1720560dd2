//! The addresses of a Gateway: which of those that it asks for it has, and what its listeners bind to. Pure; a Gateway is
//! looked at by itself, so several may have one address. Who runs proxies on one machine finds that out.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use tidegate_model::{AddressFact, AddressRange, Finding, GatewayFact, Name, Reason};

/// The type of address that can be had, and the other one that is known.
const IP_ADDRESS: &str = "IPAddress";
const HOSTNAME: &str = "Hostname";

/// What listeners bind to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bind {
    /// Every address of the machine that the proxy runs on: it has the machine for itself, as in a container.
    #[default]
    All,
    /// The addresses that the Gateway has; every one if it has none. For several proxies on one machine.
    Own,
}

/// By what is decided.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) bind: Bind,
    /// Addresses that Gateways may have; none: nobody says.
    pub(crate) usable: Vec<AddressRange>,
}

/// What becomes of the addresses of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Addresses {
    /// Those that it has, in order.
    pub(crate) own: Vec<AddressFact>,
    /// What its listeners bind to. None where nothing that it asks for can be had: then nothing is served.
    pub(crate) bound: Vec<Name>,
    /// Why it has not all that it asks for: what it asks for cannot be used, or nobody knows whether it can.
    pub(crate) lacking: Vec<Finding>,
}

/// An address of a type that nobody here knows: the Gateway is not accepted.
pub(crate) fn unsupported(gateway: &GatewayFact) -> Option<&AddressFact> {
    gateway.addresses.iter().find(|address| address.kind != IP_ADDRESS && address.kind != HOSTNAME)
}

/// Decides on each address that a Gateway asks for. One that asks for none is treated as if it asked for any, where there
/// are some to give away.
pub(crate) fn addresses(gateway: &GatewayFact, terms: &Terms) -> Addresses {
    let (mut own, mut lacking) = (Vec::new(), Vec::new());
    if gateway.addresses.is_empty() {
        own.extend(assigned(terms));
    }
    for (index, asked) in gateway.addresses.iter().enumerate() {
        match decide(asked, terms) {
            Ok(address) if own.contains(&address) => {}
            Ok(address) => own.push(address),
            Err((reason, message)) => {
                lacking.push(Finding::new(reason, &format!("spec.addresses[{index}]"), message));
            }
        }
    }
    let is_lost = own.is_empty() && !lacking.is_empty() && lacking.iter().all(is_refusal);
    let bound = match terms.bind {
        _ if is_lost => Vec::new(),
        Bind::Own if !own.is_empty() => own.clone(),
        Bind::Own | Bind::All => vec!["0.0.0.0".into()],
    };
    let own = own.into_iter().map(|value| AddressFact { kind: IP_ADDRESS.into(), value: Some(value) }).collect();
    Addresses { own, bound, lacking }
}

/// Whether it says that an address cannot be used, and not only that nobody knows.
pub(crate) fn is_refusal(finding: &Finding) -> bool {
    finding.reason == Reason::AddressNotUsable
}

/// The address of whoever asks for any: the first one of all, the same for all Gateways, so that what one has depends on
/// no other. A Gateway that shall be alone on its address names it.
fn assigned(terms: &Terms) -> Option<Name> {
    terms.usable.first().map(|range| range.first().to_string().into())
}

fn decide(asked: &AddressFact, terms: &Terms) -> Result<Name, (Reason, String)> {
    if asked.kind != IP_ADDRESS {
        let message = "a hostname cannot be given to a Gateway here; use the type IPAddress";
        return Err((Reason::AddressNotUsable, message.to_owned()));
    }
    let Some(value) = &asked.value else {
        let message = "no address can be assigned; write a value, or say with --usable-addresses which there are";
        return assigned(terms).ok_or_else(|| (Reason::Pending, message.to_owned()));
    };
    if terms.usable.is_empty() {
        return match terms.bind {
            // Whoever runs the proxies on this machine knows its addresses.
            Bind::Own => Ok(value.clone()),
            Bind::All => {
                let message = format!("whether {value} can be used is not known; say so with --usable-addresses");
                Err((Reason::Pending, message))
            }
        };
    }
    let is_usable = |address: IpAddr| terms.usable.iter().any(|range| range.contains(address));
    if value.parse().is_ok_and(is_usable) {
        return Ok(value.clone());
    }
    let ranges = terms.usable.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Err((Reason::AddressNotUsable, format!("{value} cannot be used; use one of {ranges}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_model::{AllowedNamespaces, FrontendFact, NamespacedName};

    /// What a Gateway has, what its listeners bind to, and why it lacks something. Addresses are `Type value`.
    fn decided(asked: &[&str], bind: Bind, usable: &[&str]) -> (Vec<String>, Vec<String>, Vec<(String, Reason)>) {
        let address = |text: &&str| {
            let (kind, value) = text.split_once(' ').map_or((*text, None), |(kind, value)| (kind, Some(value.into())));
            AddressFact { kind: kind.into(), value }
        };
        let gateway = GatewayFact {
            name: NamespacedName::new("infra", "edge"),
            generation: 1,
            created: 0,
            class: "tidegate".into(),
            listeners: Vec::new(),
            allowed_sets: AllowedNamespaces::None,
            addresses: asked.iter().map(address).collect(),
            frontend: FrontendFact::default(),
            client: None,
            parameters: None,
            findings: Vec::new(),
        };
        let usable = usable.iter().map(|range| range.parse().unwrap()).collect();
        let found = addresses(&gateway, &Terms { bind, usable });
        let texts = |names: &[Name]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let own: Vec<Name> = found.own.into_iter().filter_map(|address| address.value).collect();
        let lacking = found.lacking.iter().map(|finding| (finding.field.to_string(), finding.reason)).collect();
        (texts(&own), texts(&found.bound), lacking)
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_gateway_that_asks_for_nothing_has_the_first_address_if_there_is_one() {
        for bind in [Bind::All, Bind::Own] {
            assert_eq!(decided(&[], bind, &[]), (strings(&[]), strings(&["0.0.0.0"]), vec![]));
        }
        let ranges = ["10.0.0.0/24", "2001:db8::/64"];
        let first = strings(&["10.0.0.1"]);
        assert_eq!(decided(&[], Bind::All, &ranges), (first.clone(), strings(&["0.0.0.0"]), vec![]));
        assert_eq!(decided(&[], Bind::Own, &ranges), (first.clone(), first.clone(), vec![]));
        assert_eq!(decided(&["IPAddress"], Bind::Own, &ranges), (first.clone(), first.clone(), vec![]));
        assert_eq!(decided(&["IPAddress 10.0.0.1", "IPAddress"], Bind::Own, &ranges), (first.clone(), first, vec![]));
    }

    #[test]
    fn an_address_outside_is_refused_and_leaves_the_others() {
        let ranges = ["10.0.0.0/24", "2001:db8::/64"];
        let asked = ["IPAddress 10.0.1.1", "IPAddress 2001:db8::5", "Hostname edge.example"];
        let refused = |index| (format!("spec.addresses[{index}]"), Reason::AddressNotUsable);
        let own = strings(&["2001:db8::5"]);
        assert_eq!(decided(&asked, Bind::Own, &ranges), (own.clone(), own.clone(), vec![refused(0), refused(2)]));
        let all = strings(&["0.0.0.0"]);
        assert_eq!(decided(&asked, Bind::All, &ranges), (own, all, vec![refused(0), refused(2)]));
        for bind in [Bind::All, Bind::Own] {
            assert_eq!(decided(&asked[..1], bind, &ranges), (vec![], vec![], vec![refused(0)]), "nothing is served");
        }
    }

    #[test]
    fn where_nobody_says_what_can_be_used_only_the_machine_knows() {
        let pending = vec![("spec.addresses[0]".to_owned(), Reason::Pending)];
        let all = strings(&["0.0.0.0"]);
        assert_eq!(decided(&["IPAddress 10.0.0.1"], Bind::All, &[]), (vec![], all.clone(), pending.clone()));
        let own = strings(&["10.0.0.1"]);
        assert_eq!(decided(&["IPAddress 10.0.0.1"], Bind::Own, &[]), (own.clone(), own, vec![]));
        assert_eq!(decided(&["IPAddress"], Bind::Own, &[]), (vec![], all, pending));
    }
}
