//! Which pages of other origins may ask, and read the answer.
//!
//! Envoy answers a preflight request itself: a wildcard of methods or headers with what the request asks for, a wildcard
//! of origins with the origin, so that all of them may stand beside credentials. A preflight from an origin that may
//! not ask is answered 200 without an allowed origin.

use super::headers::is_clean;
use super::path;
use tidegate_model::{CorsFact, Name};
use tidegate_proto::envoy::extensions::filters::http::cors::v3::CorsPolicy;
use tidegate_proto::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use tidegate_proto::google::protobuf::BoolValue;

const ANY: &str = "*";

pub(super) fn policy(cors: &CorsFact) -> CorsPolicy {
    // To a request with credentials the wildcard would be a header of that name.
    let exposed = cors.exposed.iter().filter(|name| !(cors.credentials && **name == ANY));
    CorsPolicy {
        allow_origin_string_match: cors.origins.iter().map(|origin| matcher(origin)).collect(),
        allow_methods: list(cors.methods.iter()),
        allow_headers: list(cors.headers.iter()),
        expose_headers: list(exposed),
        max_age: cors.max_age_s.to_string(),
        allow_credentials: Some(BoolValue { value: cors.credentials }),
        forward_not_matching_preflights: Some(BoolValue { value: false }),
        ..CorsPolicy::default()
    }
}

fn list<'n>(names: impl Iterator<Item = &'n Name>) -> String {
    names.filter(|name| is_clean(name)).map(|name| &**name).collect::<Vec<_>>().join(",")
}

/// A `*` in an origin stands for any number of labels of its host.
fn matcher(origin: &str) -> StringMatcher {
    let pattern = match origin.split_once('*') {
        None => MatchPattern::Exact(origin.to_owned()),
        Some(("", "")) => MatchPattern::SafeRegex(path::regex(".*")),
        Some((before, after)) => {
            MatchPattern::SafeRegex(path::regex(&format!("{}[^/:]+{}", path::quote(before), path::quote(after))))
        }
    };
    StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() }
}
