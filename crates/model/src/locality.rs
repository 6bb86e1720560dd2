//! Where something runs, level by level.

use crate::name::Name;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where an endpoint or a client runs, from the widest level to the narrowest. A level that is not known is empty, and
/// equal to another one that is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Locality {
    /// Network: the label [`NETWORK_LABEL`] of the Node.
    pub network: Name,
    /// Region: [`REGION_LABEL`].
    pub region: Name,
    /// Zone: [`ZONE_LABEL`].
    pub zone: Name,
    /// Sub-zone: [`SUB_ZONE_LABEL`].
    pub sub_zone: Name,
    /// Host name: [`HOSTNAME_LABEL`].
    pub host: Name,
}

/// The label of a Node that names its network.
pub const NETWORK_LABEL: &str = "topology.istio.io/network";
/// The label of a Node that names its region.
pub const REGION_LABEL: &str = "topology.kubernetes.io/region";
/// The label of a Node that names its zone.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
/// The label of a Node that names the part of a zone that it is in.
pub const SUB_ZONE_LABEL: &str = "topology.istio.io/subzone";
/// The label of a Node that names its host.
pub const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// How many levels a locality has.
pub const LEVELS: usize = 5;

impl Locality {
    /// Its levels, the widest first.
    #[must_use]
    pub fn levels(&self) -> [&Name; LEVELS] {
        [&self.network, &self.region, &self.zone, &self.sub_zone, &self.host]
    }

    /// What this says, and `other` where it says nothing.
    #[must_use]
    pub fn or(&self, other: &Locality) -> Locality {
        let first = |own: &Name, other: &Name| if own.is_empty() { other.clone() } else { own.clone() };
        Locality {
            network: first(&self.network, &other.network),
            region: first(&self.region, &other.region),
            zone: first(&self.zone, &other.zone),
            sub_zone: first(&self.sub_zone, &other.sub_zone),
            host: first(&self.host, &other.host),
        }
    }

    /// Its first `depth` levels.
    #[must_use]
    pub fn prefix(&self, depth: usize) -> LocalityPrefix {
        LocalityPrefix(self.levels().into_iter().take(depth).cloned().collect())
    }
}

/// As people write it: `region r1, zone z1`; what is not known is left out.
impl fmt::Display for Locality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.prefix(LEVELS).fmt(f)
    }
}

/// The first levels of a locality: a network, a region of it, a zone of that one, ...
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LocalityPrefix(Vec<Name>);

impl LocalityPrefix {
    /// Its levels, the widest first; at least one, at most [`LEVELS`].
    #[must_use]
    pub fn levels(&self) -> &[Name] {
        &self.0
    }

    /// How many of its levels, from the widest, a locality has too.
    #[must_use]
    pub fn common(&self, locality: &Locality) -> usize {
        let levels = locality.levels();
        self.0.iter().zip(levels).take_while(|(own, other)| *own == *other).count()
    }

    /// The prefixes of this one, itself left out, the longest first.
    pub fn wider(&self) -> impl Iterator<Item = LocalityPrefix> + '_ {
        (1..self.0.len()).rev().map(|depth| LocalityPrefix(self.0[..depth].to_vec()))
    }
}

impl fmt::Display for LocalityPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; LEVELS] = ["network", "region", "zone", "sub-zone", "host"];
        let known = NAMES.iter().zip(&self.0).filter(|(_, value)| !value.is_empty());
        let texts: Vec<String> = known.map(|(name, value)| format!("{name} {value}")).collect();
        f.pad(&if texts.is_empty() { "not known".to_owned() } else { texts.join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locality(levels: [&str; LEVELS]) -> Locality {
        let [network, region, zone, sub_zone, host] = levels.map(Name::from);
        Locality { network, region, zone, sub_zone, host }
    }

    #[test]
    fn what_two_places_have_in_common_ends_where_they_first_differ() {
        let here = locality(["", "r1", "z1", "", "a"]);
        let common = |other| here.prefix(LEVELS).common(&locality(other));
        assert_eq!(common(["", "r1", "z1", "", "a"]), 5);
        assert_eq!(common(["", "r1", "z1", "", "b"]), 4);
        assert_eq!(common(["", "r1", "z2", "", "a"]), 2, "the same host elsewhere is another one");
        assert_eq!(common(["n", "r1", "z1", "", "a"]), 0);
        assert_eq!(here.prefix(2).common(&here), 2);
        let wider: Vec<usize> = here.prefix(3).wider().map(|prefix| prefix.levels().len()).collect();
        assert_eq!(wider, [2, 1]);
    }

    #[test]
    fn what_is_not_known_is_taken_from_elsewhere() {
        let whole = locality(["", "r1", "", "", "a"]).or(&locality(["n", "r2", "z2", "", "b"]));
        assert_eq!(whole, locality(["n", "r1", "z2", "", "a"]));
    }

    #[test]
    fn a_locality_is_shown_without_what_is_not_known() {
        assert_eq!(locality(["", "r1", "z1", "", "a"]).to_string(), "region r1, zone z1, host a");
        assert_eq!(Locality::default().to_string(), "not known");
    }
}
