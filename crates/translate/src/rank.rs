//! Precedence of matches, as the Gateway API orders them across all routes of a domain.

use crate::names::Backend;
use crate::origin::Origin;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use tidegate_model::{HttpMatch, Name, NamespacedName, PathMatch, RouteFact};
use tidegate_xds::row::EncodedEntry;

/// An encoded entry and where it stands in its virtual host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Ranked {
    pub(crate) rank: Rank,
    pub(crate) entry: EncodedEntry,
    /// The backends behind the clusters that it names; only where entries may be held, and then the reason why those
    /// clusters are served.
    pub(crate) uses: Vec<Backend>,
    /// How it reaches them; only where entries may be held.
    pub(crate) origin: Origin,
}

/// Precedence; the smallest is matched first. The fields are compared in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Rank {
    path: PathRank,
    /// Longer paths first; of methods longer services, then longer names.
    path_length: Reverse<(usize, usize)>,
    /// A method match first.
    has_method: Reverse<bool>,
    /// More header matches first.
    headers: Reverse<usize>,
    /// More query parameter matches first.
    query: Reverse<usize>,
    /// The older route first.
    created: i64,
    /// Then by `{namespace}/{name}`.
    route: NamespacedName,
    /// Then in the order of the spec.
    rule: usize,
    matcher: usize,
}

/// Exact paths, then regular expressions (the Gateway API leaves their place to us: they are written for something
/// in particular), then prefixes. Methods are a kind of route of their own, which shares its hosts with no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum PathRank {
    Exact,
    Regex,
    Prefix,
    Method,
}

impl Rank {
    /// The precedence of one match of a route.
    pub(crate) fn of(route: &RouteFact, matcher: &HttpMatch, (rule, position): (usize, usize)) -> Rank {
        let (path, length) = match &matcher.path {
            PathMatch::Exact(path) => (PathRank::Exact, (path.len(), 0)),
            PathMatch::Regex(path) => (PathRank::Regex, (path.len(), 0)),
            // By elements: a trailing slash adds nothing.
            PathMatch::Prefix(path) => (PathRank::Prefix, (path.trim_end_matches('/').len(), 0)),
            PathMatch::Method(of) => {
                let length = |part: &Option<Name>| part.as_ref().map_or(0, |part| part.len());
                (PathRank::Method, (length(&of.service), length(&of.method)))
            }
        };
        Rank {
            path,
            path_length: Reverse(length),
            has_method: Reverse(matcher.method.is_some()),
            headers: Reverse(matcher.headers.len()),
            query: Reverse(matcher.query.len()),
            created: route.created,
            route: route.key.name.clone(),
            rule,
            matcher: position,
        }
    }
}
