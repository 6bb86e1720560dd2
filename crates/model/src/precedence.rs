//! Why one object has what several want.

use crate::name::NamespacedName;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// What decided between two objects that both want what only one can have. Shown, it goes behind `which`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Precedence {
    /// The hostname of the first says more.
    Hostname,
    /// The first is older.
    Age,
    /// Both are as old, as all are without a `creationTimestamp`; the name of the first comes first.
    Name,
    /// Age and name are the same too, so that the kind decided.
    Kind,
}

impl Precedence {
    /// By what the first object comes before the second; each is given by its `metadata.creationTimestamp` and its name.
    #[must_use]
    pub fn of(first: (i64, &NamespacedName), second: (i64, &NamespacedName)) -> Self {
        match (first.0.cmp(&second.0), first.1.cmp(second.1)) {
            (Ordering::Less | Ordering::Greater, _) => Precedence::Age,
            (Ordering::Equal, Ordering::Less | Ordering::Greater) => Precedence::Name,
            (Ordering::Equal, Ordering::Equal) => Precedence::Kind,
        }
    }
}

impl fmt::Display for Precedence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precedence::Hostname => "has the more specific hostname",
            Precedence::Age => "is older",
            Precedence::Name => "has no other creationTimestamp and comes first by name",
            Precedence::Kind => "has no other creationTimestamp, no other name, and the kind that comes first",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_decides_and_only_then_the_name() {
        let (a, b) = (NamespacedName::new("shop", "a"), NamespacedName::new("shop", "b"));
        assert_eq!(Precedence::of((1, &b), (2, &a)), Precedence::Age);
        assert_eq!(Precedence::of((1, &a), (1, &b)), Precedence::Name);
        assert_eq!(Precedence::of((1, &a), (1, &a)), Precedence::Kind);
    }
}
