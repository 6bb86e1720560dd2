//! Fields that no version of a kind has, found by decoding the object into the published types of its kind.
//!
//! An API server drops such fields; a file keeps them, and what the user meant by them does not happen. So they are
//! said, with the field that was probably meant, and do no more harm. The types never decide acceptance: where they
//! cannot decode a value that nothing else complained about, that is a remark too.

use crate::endpoint_report::EndpointReport;
use crate::node::{Report, plain};
use gateway_api::backendtlspolicies;
use gateway_api::experimental::{
    gatewayclasses, gateways, grpcroutes, httproutes, listenersets, referencegrants, tcproutes, tlsroutes, udproutes,
};
use k8s_openapi::api::{core::v1 as core, discovery::v1 as discovery};
use serde::de::DeserializeOwned;
use serde_ignored::Path;
use serde_json::Value;
use serde_path_to_error::Segment;
use tidegate_log::Object;
use tidegate_model::{Finding, Kind, Reason};

/// How many unknown fields are looked into for what was meant; each costs a few more decodings of the object.
const MAX_SUGGESTIONS: usize = 8;

/// Names of fields in the kinds that are read: candidates for what a misspelt one was meant to be. A candidate is
/// suggested only if the types have it at that place, so a name too many does no harm.
const FIELDS: [&str; 119] = [
    "absoluteTimeout",
    "add",
    "address",
    "addresses",
    "addressType",
    "allowCredentials",
    "allowedListeners",
    "allowedRoutes",
    "allowHeaders",
    "allowMethods",
    "allowOrigins",
    "annotations",
    "appProtocol",
    "attempts",
    "backendRef",
    "backendRefs",
    "backendRequest",
    "backoff",
    "caCertificateRefs",
    "certificateRefs",
    "clusterIP",
    "codes",
    "conditions",
    "controllerName",
    "cookieConfig",
    "cors",
    "creationTimestamp",
    "denominator",
    "description",
    "endpoints",
    "exposeHeaders",
    "extensionRef",
    "externalAuth",
    "externalName",
    "externalTrafficPolicy",
    "filters",
    "fraction",
    "from",
    "gatewayClassName",
    "generation",
    "group",
    "headers",
    "hints",
    "hostname",
    "hostnames",
    "idleTimeout",
    "infrastructure",
    "key",
    "kind",
    "kinds",
    "labels",
    "lifetimeType",
    "listeners",
    "matches",
    "matchExpressions",
    "matchLabels",
    "maxAge",
    "metadata",
    "method",
    "mode",
    "name",
    "namespace",
    "namespaces",
    "nodeName",
    "nodePort",
    "numerator",
    "operator",
    "options",
    "parametersRef",
    "parentRef",
    "parentRefs",
    "path",
    "percent",
    "port",
    "ports",
    "protocol",
    "publishNotReadyAddresses",
    "queryParams",
    "ready",
    "remove",
    "renewTime",
    "replaceFullPath",
    "replacePrefixMatch",
    "reporter",
    "request",
    "requestHeaderModifier",
    "requestMirror",
    "requestRedirect",
    "responseHeaderModifier",
    "retry",
    "rules",
    "scheme",
    "sectionName",
    "selector",
    "service",
    "serviceRef",
    "serving",
    "sessionName",
    "sessionPersistence",
    "set",
    "spec",
    "state",
    "status",
    "statusCode",
    "subjectAltNames",
    "targetPort",
    "targetRef",
    "targetRefs",
    "terminating",
    "timeouts",
    "tls",
    "to",
    "trafficDistribution",
    "type",
    "urlRewrite",
    "validation",
    "value",
    "weight",
    "wellKnownCACertificates",
];

/// Adds a remark for every unknown field, and one if the object does not decode where nothing else is wrong.
///
/// An EndpointSlice or EndpointReport with a `uid` is left alone: an API server has it from a program and dropped what it does
/// not know, slices and renewals are most of all events, and this check is four fifths of the time it takes to normalize one (56 of 72 us at
/// ten endpoints, dev profile). So are a Secret and a ConfigMap, whose bodies are what a source made of them.
pub(crate) fn check(object: &Object, report: &mut Report) {
    let is_of_programs = matches!(object.key.kind, Kind::EndpointSlice | Kind::EndpointReport);
    if is_of_programs && object.body.pointer("/metadata/uid").is_some() {
        return;
    }
    let Some((unknown, error)) = decode(object.key.kind, &object.body) else { return };
    for (index, steps) in unknown.iter().enumerate() {
        let field = render(steps);
        if report.covers(&field) {
            continue;
        }
        let meant = if index < MAX_SUGGESTIONS { suggestion(object, steps) } else { None };
        let advice = match meant {
            Some(name) => format!("did you mean {name}?"),
            None => "remove it".to_owned(),
        };
        report.remark(Finding::new(
            Reason::UnknownField,
            &field,
            format!("is no field of this kind and is ignored; {advice}"),
        ));
    }
    if let Some((path, message)) = error
        && !report.covers(&path)
    {
        report.remark(Finding::new(
            Reason::UnsupportedValue,
            &path,
            format!("is not what this kind has here ({message}); correct it"),
        ));
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Item(usize),
}

type Decoded = (Vec<Vec<Step>>, Option<(String, String)>);

fn decode(kind: Kind, body: &Value) -> Option<Decoded> {
    let (mut unknown, error) = match kind {
        Kind::GatewayClass => decode_as::<gatewayclasses::GatewayClass>(body),
        Kind::Gateway => decode_as::<gateways::Gateway>(body),
        Kind::ListenerSet => decode_as::<listenersets::ListenerSet>(body),
        Kind::HttpRoute => decode_as::<httproutes::HttpRoute>(body),
        Kind::GrpcRoute => decode_as::<grpcroutes::GrpcRoute>(body),
        Kind::TlsRoute => decode_as::<tlsroutes::TlsRoute>(body),
        Kind::TcpRoute => decode_as::<tcproutes::TcpRoute>(body),
        Kind::UdpRoute => decode_as::<udproutes::UdpRoute>(body),
        Kind::ReferenceGrant => decode_as::<referencegrants::ReferenceGrant>(body),
        Kind::BackendTlsPolicy => decode_as::<backendtlspolicies::BackendTlsPolicy>(body),
        Kind::Namespace => decode_as::<core::Namespace>(body),
        Kind::Node => decode_as::<core::Node>(body),
        Kind::Service => decode_as::<core::Service>(body),
        Kind::EndpointSlice => decode_as::<discovery::EndpointSlice>(body),
        Kind::EndpointReport => decode_as::<EndpointReport>(body),
        Kind::Secret | Kind::ConfigMap => return None,
    };
    unknown.retain(|steps| !is_ours(kind, steps));
    Some((unknown, error))
}

fn decode_as<T: DeserializeOwned>(body: &Value) -> Decoded {
    let mut unknown = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(body, &mut track);
    let result: Result<T, serde_json::Error> = serde_ignored::deserialize(tracked, |path| {
        let mut steps = Vec::new();
        collect(&path, &mut steps);
        unknown.push(steps);
    });
    let error = result.err().map(|error| (place(&track.path()), plain(&error.to_string()).into_owned()));
    (unknown, error)
}

/// What every object has besides the fields of its kind: the types leave out the names of the kind, and status is not
/// the user's but where it is what a reporter writes.
fn is_ours(kind: Kind, steps: &[Step]) -> bool {
    match steps {
        [Step::Field(only)] if only == "apiVersion" || only == "kind" => true,
        [Step::Field(first), ..] => first == "status" && kind != Kind::EndpointReport,
        _ => false,
    }
}

fn collect(path: &Path<'_>, steps: &mut Vec<Step>) {
    match path {
        Path::Root => {}
        Path::Seq { parent, index } => {
            collect(parent, steps);
            steps.push(Step::Item(*index));
        }
        Path::Map { parent, key } => {
            collect(parent, steps);
            steps.push(Step::Field(key.clone()));
        }
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            collect(parent, steps)
        }
    }
}

/// Where decoding stopped, as a field.
fn place(path: &serde_path_to_error::Path) -> String {
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Step::Item(*index),
        Segment::Map { key } => Step::Field(key.clone()),
        Segment::Enum { variant } => Step::Field(variant.clone()),
        Segment::Unknown => Step::Field("?".to_owned()),
    };
    render(&path.iter().map(step).collect::<Vec<_>>())
}

fn render(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(&plain(name)),
            Step::Field(name) => {
                text.push('.');
                text.push_str(&plain(name));
            }
            Step::Item(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

/// The nearest known name that the types do have at this place and that is not there already.
fn suggestion(object: &Object, steps: &[Step]) -> Option<&'static str> {
    let (Step::Field(written), around) = steps.split_last()? else { return None };
    let allowed = if written.chars().count() <= 4 { 1 } else { 2 };
    let mut near: Vec<(usize, &str)> = FIELDS
        .iter()
        .map(|field| (distance(&written.to_lowercase(), &field.to_lowercase()), *field))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, field)| field).find(|field| is_known(object, around, written, field))
}

fn is_known(object: &Object, around: &[Step], written: &str, field: &str) -> bool {
    let mut body = (*object.body).clone();
    let place = around.iter().try_fold(&mut body, |value, step| match step {
        Step::Field(name) => value.get_mut(name),
        Step::Item(index) => value.get_mut(index),
    });
    let Some(Value::Object(map)) = place else { return false };
    if map.contains_key(field) {
        return false;
    }
    map.remove(written);
    // Null is absent for every type, so only the name is asked about.
    map.insert(field.to_owned(), Value::Null);
    let Some((unknown, error)) = decode(object.key.kind, &body) else { return false };
    let renamed: Vec<Step> = around.iter().cloned().chain([Step::Field(field.to_owned())]).collect();
    // Decoding that stopped elsewhere has perhaps not come to this place.
    !unknown.contains(&renamed) && error.is_none_or(|(path, _)| path == render(&renamed))
}

/// Edits (insert, remove, replace, swap neighbours) between two texts.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 2 {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
