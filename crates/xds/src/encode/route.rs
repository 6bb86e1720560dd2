//! Entries: routes of a virtual host.

use super::headers::{self, Changes};
use super::listener::{CORS, STATEFUL_SESSION, WEBSOCKET, without_port_in_location};
use super::path::{self, Change};
use super::{cors, duration, retry, session};
use crate::ir;
use crate::row::EncodedEntry;
use prost::Message;
use tidegate_model::{HttpMatch, Millis, Name, PathMatch, ValuePattern};
use tidegate_proto::envoy::config::core::v3::RuntimeFractionalPercent;
use tidegate_proto::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier,
};
use tidegate_proto::envoy::config::route::v3::route::Action;
use tidegate_proto::envoy::config::route::v3::route_action::{
    ClusterNotFoundResponseCode, ClusterSpecifier, HostRewriteSpecifier, RequestMirrorPolicy, UpgradeConfig,
};
use tidegate_proto::envoy::config::route::v3::weighted_cluster::ClusterWeight;
use tidegate_proto::envoy::config::route::v3::{
    DirectResponseAction, HeaderMatcher, QueryParameterMatcher, RedirectAction, Route, RouteAction, RouteMatch,
    WeightedCluster, header_matcher, query_parameter_matcher,
};
use tidegate_proto::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use tidegate_proto::envoy::r#type::v3::{FractionalPercent, fractional_percent::DenominatorType};
use tidegate_proto::google::protobuf::{BoolValue, UInt32Value};
use tidegate_proto::pack;

/// How long a stream may be silent before Envoy ends it: its default, said here because a longer request timeout has to
/// raise it.
const STREAM_IDLE: Millis = 5 * 60 * 1000;

/// The same for a WebSocket or a stream of gRPC, which may have nothing to say for long.
const LONG_IDLE: Millis = 60 * 60 * 1000;

/// The longest name of a query parameter that the field rules let through, in bytes.
const MAX_PARAMETER: usize = 1024;

/// The encoded `envoy.config.route.v3.Route`, with the clusters that it names.
#[must_use]
pub fn entry(entry: &ir::Entry) -> EncodedEntry {
    let mut route = Route { name: entry.id.to_string(), r#match: Some(matcher(&entry.matcher)), ..Route::default() };
    let mut clusters = Vec::new();
    match &entry.action {
        ir::Action::Forward(to) => clusters = forward(&mut route, entry, to),
        ir::Action::Redirect(to) => {
            if to.port.is_none() && to.hostname.is_none() {
                route.typed_per_filter_config = without_port_in_location();
            }
            route.action = Some(Action::Redirect(redirect(&entry.matcher.path, to)));
            set_response_headers(&mut route, headers::compose([&entry.response_headers]));
        }
        ir::Action::Respond(status) => {
            route.action = Some(respond(*status));
            set_response_headers(&mut route, headers::compose([&entry.response_headers]));
        }
    }
    clusters.sort();
    clusters.dedup();
    EncodedEntry { id: entry.id.clone(), bytes: route.encode_to_vec().into(), clusters }
}

/// The entry with the answer 500 in place of whatever it did: for a client that rejects it.
#[must_use]
pub fn unavailable(entry: &EncodedEntry) -> EncodedEntry {
    let rejected = Route::decode(entry.bytes.clone()).expect("an entry is an encoded route");
    let route =
        Route { name: rejected.name, r#match: rejected.r#match, action: Some(respond(500)), ..Route::default() };
    EncodedEntry { id: entry.id.clone(), bytes: route.encode_to_vec().into(), clusters: Vec::new() }
}

/// Whether two encoded entries apply to the same requests.
#[must_use]
pub fn matches_the_same(a: &EncodedEntry, b: &EncodedEntry) -> bool {
    let matcher = |entry: &EncodedEntry| Route::decode(entry.bytes.clone()).map(|route| route.r#match);
    matches!((matcher(a), matcher(b)), (Ok(a), Ok(b)) if a == b)
}

fn matcher(of: &HttpMatch) -> RouteMatch {
    let method = of.method.iter().map(|method| header(":method", exact(method)));
    let headers = of.headers.iter().map(|matched| header(&matched.name, pattern(&matched.value)));
    let parameters = of.query.iter().map(|matched| QueryParameterMatcher {
        name: matched.name.to_string(),
        query_parameter_match_specifier: Some(query_parameter_matcher::QueryParameterMatchSpecifier::StringMatch(
            pattern(&matched.value),
        )),
    });
    let mut matcher = RouteMatch {
        path_specifier: Some(path::specifier(&of.path)),
        headers: method.chain(headers).collect(),
        query_parameters: parameters.collect(),
        ..RouteMatch::default()
    };
    // What the field rules refuse can be in no request, so the entry must match nothing: no method is empty.
    let asked = (matcher.headers.len(), matcher.query_parameters.len());
    matcher.headers.retain(|header| !header.name.is_empty() && headers::is_clean(&header.name));
    matcher.query_parameters.retain(|p| !p.name.is_empty() && p.name.len() <= MAX_PARAMETER);
    if asked != (matcher.headers.len(), matcher.query_parameters.len()) {
        matcher.headers.push(header(":method", exact("")));
    }
    matcher
}

fn header(name: &str, value: StringMatcher) -> HeaderMatcher {
    HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(header_matcher::HeaderMatchSpecifier::StringMatch(value)),
        ..HeaderMatcher::default()
    }
}

fn pattern(value: &ValuePattern) -> StringMatcher {
    match value {
        ValuePattern::Exact(text) => exact(text),
        ValuePattern::Regex(pattern) => StringMatcher {
            match_pattern: Some(MatchPattern::SafeRegex(path::regex(pattern))),
            ..StringMatcher::default()
        },
    }
}

fn exact(text: &str) -> StringMatcher {
    StringMatcher { match_pattern: Some(MatchPattern::Exact(text.to_owned())), ..StringMatcher::default() }
}

/// Makes `route` proxy, and returns the clusters that it names.
fn forward(route: &mut Route, entry: &ir::Entry, to: &ir::Forward) -> Vec<Name> {
    let targets: Vec<&ir::Target> = to.targets.iter().filter(|target| target.weight > 0).collect();
    let mirrors: Vec<&ir::Mirror> = to.mirrors.iter().filter(|mirror| mirror.per_million > 0).collect();
    let plain =
        |target: &ir::Target| headers::is_empty(&target.request_headers) && headers::is_empty(&target.response_headers);
    // To a client of gRPC, Envoy says 503 as UNAVAILABLE and 500 as UNKNOWN.
    let missing = match to.grpc {
        true => ClusterNotFoundResponseCode::ServiceUnavailable,
        false => ClusterNotFoundResponseCode::InternalServerError,
    };
    let mut action = RouteAction { cluster_not_found_response_code: missing.into(), ..RouteAction::default() };
    match targets.as_slice() {
        [] => {
            // Nothing may be sent anywhere: what no backend at all answers.
            route.action = Some(respond(500));
            return Vec::new();
        }
        [only] => {
            action.cluster_specifier = Some(ClusterSpecifier::Cluster(only.cluster.to_string()));
            set_request_headers(route, headers::compose([&entry.request_headers, &only.request_headers]));
            set_response_headers(route, headers::compose([&entry.response_headers, &only.response_headers]));
        }
        several if several.iter().all(|target| plain(target)) => {
            action.cluster_specifier =
                Some(ClusterSpecifier::WeightedClusters(weighted(several, |_| Default::default())));
            set_request_headers(route, headers::compose([&entry.request_headers]));
            set_response_headers(route, headers::compose([&entry.response_headers]));
        }
        several => {
            let changes = |target: &ir::Target| {
                (
                    headers::compose([&entry.request_headers, &target.request_headers]),
                    headers::compose([&entry.response_headers, &target.response_headers]),
                )
            };
            action.cluster_specifier = Some(ClusterSpecifier::WeightedClusters(weighted(several, changes)));
        }
    }
    set_rewrite(&mut action, &entry.matcher.path, to);
    set_timeouts(&mut action, to);
    action.request_mirror_policies = mirrors.iter().map(|to| mirror(to)).collect();
    route.action = Some(Action::Route(action));
    set_filters(route, to);
    let targets = targets.iter().map(|target| &target.cluster);
    targets.chain(mirrors.iter().map(|mirror| &mirror.cluster)).cloned().collect()
}

/// A copy is asked for under the same host as the request: Envoy would make another one of it.
fn mirror(to: &ir::Mirror) -> RequestMirrorPolicy {
    let share = FractionalPercent { numerator: to.per_million, denominator: DenominatorType::Million.into() };
    let some = RuntimeFractionalPercent { default_value: Some(share), ..RuntimeFractionalPercent::default() };
    RequestMirrorPolicy {
        cluster: to.cluster.to_string(),
        runtime_fraction: (to.per_million < 1_000_000).then_some(some),
        disable_shadow_host_suffix_append: true,
        ..RequestMirrorPolicy::default()
    }
}

/// Enables the filters that the route has settings for.
fn set_filters(route: &mut Route, to: &ir::Forward) {
    let cors = to.cors.iter().map(|settings| (CORS, pack(&cors::policy(settings))));
    let session = to.session.iter().filter_map(session::per_route).map(|settings| (STATEFUL_SESSION, pack(&settings)));
    route.typed_per_filter_config.extend(cors.chain(session).map(|(name, settings)| (name.to_owned(), settings)));
}

fn weighted(targets: &[&ir::Target], changes: impl Fn(&ir::Target) -> (Changes, Changes)) -> WeightedCluster {
    let sum: u64 = targets.iter().map(|target| u64::from(target.weight)).sum();
    // Envoy wants the sum in 32 bits. Halved until it fits, counting that each weight stays at least 1.
    let mut shift = 0;
    while (sum >> shift) + targets.len() as u64 > u64::from(u32::MAX) {
        shift += 1;
    }
    let clusters = targets.iter().map(|target| {
        let (request, response) = changes(target);
        ClusterWeight {
            name: target.cluster.to_string(),
            weight: Some(UInt32Value { value: (target.weight >> shift).max(1) }),
            request_headers_to_add: request.add,
            request_headers_to_remove: request.remove,
            response_headers_to_add: response.add,
            response_headers_to_remove: response.remove,
            ..ClusterWeight::default()
        }
    });
    WeightedCluster { clusters: clusters.collect(), ..WeightedCluster::default() }
}

fn set_rewrite(action: &mut RouteAction, matched: &PathMatch, to: &ir::Forward) {
    if let Some(hostname) = to.hostname.as_ref().filter(|hostname| headers::is_clean(hostname)) {
        action.host_rewrite_specifier = Some(HostRewriteSpecifier::HostRewriteLiteral(hostname.to_string()));
    }
    match to.path.as_ref().and_then(|modifier| path::change(matched, modifier)) {
        None => {}
        Some(Change::Prefix(prefix)) => action.prefix_rewrite = prefix,
        Some(Change::Pattern(pattern)) => action.regex_rewrite = Some(pattern),
        // A route has no other way to give the path anew.
        Some(Change::Full(path)) => action.regex_rewrite = Some(path::substitute_all(&path)),
    }
}

fn set_timeouts(action: &mut RouteAction, to: &ir::Forward) {
    let timeout = to.timeout.unwrap_or(0);
    // Without this Envoy would end the request after 15 s.
    action.timeout = Some(duration(timeout));
    if to.websocket || to.grpc {
        action.idle_timeout = Some(duration(LONG_IDLE.max(timeout)));
    } else if timeout > STREAM_IDLE {
        action.idle_timeout = Some(duration(timeout));
    }
    if to.websocket {
        action.upgrade_configs = vec![UpgradeConfig {
            upgrade_type: WEBSOCKET.to_owned(),
            enabled: Some(BoolValue { value: true }),
            ..UpgradeConfig::default()
        }];
    }
    action.retry_policy = retry::policy(to);
}

fn redirect(matched: &PathMatch, to: &ir::Redirect) -> RedirectAction {
    let text = |text: &Option<Name>| text.as_ref().filter(|text| headers::is_clean(text)).map(ToString::to_string);
    let path = to.path.as_ref().and_then(|modifier| path::change(matched, modifier)).map(|change| match change {
        Change::Full(path) => PathRewriteSpecifier::PathRedirect(path),
        Change::Prefix(prefix) => PathRewriteSpecifier::PrefixRewrite(prefix),
        Change::Pattern(pattern) => PathRewriteSpecifier::RegexRewrite(pattern),
    });
    let code = match to.status {
        301 => RedirectResponseCode::MovedPermanently,
        303 => RedirectResponseCode::SeeOther,
        307 => RedirectResponseCode::TemporaryRedirect,
        308 => RedirectResponseCode::PermanentRedirect,
        _ => RedirectResponseCode::Found,
    };
    RedirectAction {
        scheme_rewrite_specifier: text(&to.scheme).map(SchemeRewriteSpecifier::SchemeRedirect),
        host_redirect: text(&to.hostname).unwrap_or_default(),
        port_redirect: to.port.unwrap_or(0).into(),
        path_rewrite_specifier: path,
        response_code: code.into(),
        ..RedirectAction::default()
    }
}

fn respond(status: u16) -> Action {
    // A field rule: 200 to 599.
    let status = if (200..600).contains(&status) { status } else { 500 };
    Action::DirectResponse(DirectResponseAction { status: status.into(), ..DirectResponseAction::default() })
}

fn set_request_headers(route: &mut Route, changes: Changes) {
    route.request_headers_to_add = changes.add;
    route.request_headers_to_remove = changes.remove;
}

fn set_response_headers(route: &mut Route, changes: Changes) {
    route.response_headers_to_add = changes.add;
    route.response_headers_to_remove = changes.remove;
}
