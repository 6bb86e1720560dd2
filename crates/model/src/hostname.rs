//! Hostnames of listeners and routes: exact, wildcard (`*.example.com`, any number of labels, never the apex), or any.

use crate::name::Name;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A hostname in lower case. [`Hostname::any`] (shown as `*`) stands for "no hostname given".
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hostname(Name);

impl Hostname {
    /// Matches every host.
    #[must_use]
    pub fn any() -> Self {
        Hostname(Name::from("*"))
    }

    /// A hostname as a user wrote it; empty means any.
    #[must_use]
    pub fn new(text: &str) -> Self {
        if text.is_empty() { Hostname::any() } else { Hostname(Name::from(text.to_ascii_lowercase())) }
    }

    /// The text as an Envoy virtual host domain: `*`, `*.example.com` or `www.example.com`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this matches every host.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.0 == "*"
    }

    /// Whether this is `*.something`.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with("*.")
    }

    /// Whether every host that `other` matches is matched by `self` too.
    #[must_use]
    pub fn covers(&self, other: &Hostname) -> bool {
        if self.is_any() || self == other {
            return true;
        }
        match self.0.strip_prefix('*') {
            // The suffix keeps its dot, so the apex is not covered.
            Some(suffix) => other.0.len() > suffix.len() && other.0.ends_with(suffix) && !other.is_any(),
            None => false,
        }
    }

    /// The hosts that both match: the narrower of the two, if one covers the other.
    #[must_use]
    pub fn intersect(&self, other: &Hostname) -> Option<Hostname> {
        if self.covers(other) {
            Some(other.clone())
        } else if other.covers(self) {
            Some(self.clone())
        } else {
            None
        }
    }

    /// This hostname and every wider one, narrowest first, ending with [`Hostname::any`].
    #[must_use]
    pub fn widening(&self) -> Vec<Hostname> {
        let mut chain = vec![self.clone()];
        if self.is_any() {
            return chain;
        }
        let mut rest: &str = self.0.strip_prefix("*.").unwrap_or(&self.0);
        while let Some((_, parent)) = rest.split_once('.') {
            chain.push(Hostname(Name::from(format!("*.{parent}"))));
            rest = parent;
        }
        chain.push(Hostname::any());
        chain
    }

    /// Order of specificity, most specific greatest: exact over wildcard over any, longer over shorter.
    #[must_use]
    pub fn specificity(&self) -> (u8, usize) {
        if self.is_any() {
            (0, 0)
        } else if self.is_wildcard() {
            (1, self.0.len())
        } else {
            (2, self.0.len())
        }
    }
}

impl fmt::Debug for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h(text: &str) -> Hostname {
        Hostname::new(text)
    }

    #[test]
    fn a_wildcard_covers_several_labels_but_never_the_apex() {
        assert!(h("*.example.com").covers(&h("a.example.com")));
        assert!(h("*.example.com").covers(&h("a.b.example.com")));
        assert!(h("*.example.com").covers(&h("*.b.example.com")));
        assert!(!h("*.example.com").covers(&h("example.com")));
        assert!(!h("*.example.com").covers(&h("badexample.com")));
        assert!(!h("*.example.com").covers(&h("")));
        assert!(h("").covers(&h("*.example.com")));
        assert!(!h("a.example.com").covers(&h("*.example.com")));
    }

    #[test]
    fn an_intersection_is_the_narrower_of_the_two() {
        assert_eq!(h("*.example.com").intersect(&h("*.com")), Some(h("*.example.com")));
        assert_eq!(h("A.Example.com").intersect(&h("")), Some(h("a.example.com")));
        assert_eq!(h("foo.example.com").intersect(&h("bar.example.com")), None);
    }

    #[test]
    fn widening_goes_from_narrow_to_any() {
        assert_eq!(h("a.b.com").widening(), [h("a.b.com"), h("*.b.com"), h("*.com"), h("")]);
        assert_eq!(h("*.b.com").widening(), [h("*.b.com"), h("*.com"), h("")]);
        assert_eq!(h("").widening(), [h("")]);
        for wide in h("a.b.com").widening() {
            assert!(wide.covers(&h("a.b.com")), "{wide}");
        }
    }
}
