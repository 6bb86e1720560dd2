//! What rules of HTTP routes match and do.

use super::BackendRef;
use crate::Millis;
use crate::finding::Finding;
use crate::name::Name;
use serde::{Deserialize, Serialize};

/// One match of an HTTP rule; every part must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HttpMatch {
    /// `path`.
    pub path: PathMatch,
    /// `headers`; names in lower case, each once (the first of equal names counts).
    pub headers: Vec<ValueMatch>,
    /// `queryParams`; names are case-sensitive, each once (the first of equal names counts).
    pub query: Vec<ValueMatch>,
    /// `method`.
    pub method: Option<Name>,
}

/// A path match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PathMatch {
    /// `Exact`.
    Exact(Name),
    /// `PathPrefix`, by elements: `/foo` matches `/foo` and `/foo/bar`, not `/foobar`. As written, so a trailing
    /// slash may be there.
    Prefix(Name),
    /// `RegularExpression` (RE2, the whole path).
    Regex(Name),
    /// The path of a gRPC method.
    Method(MethodMatch),
}

/// `GRPCMethodMatch`. Without a service any service matches, without a method any method.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MethodMatch {
    /// `service`, with its package.
    pub service: Option<Name>,
    /// `method`.
    pub method: Option<Name>,
    /// Whether both are regular expressions (RE2, each for the whole name).
    pub regex: bool,
}

/// A match of a header or query parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ValueMatch {
    /// Name of the header or parameter.
    pub name: Name,
    /// What its value must be.
    pub value: ValuePattern,
}

/// What a value must be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ValuePattern {
    /// Equal to this.
    Exact(Name),
    /// Wholly matched by this regular expression (RE2).
    Regex(Name),
}

/// A filter of a rule or of a backend reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Filter {
    /// `RequestHeaderModifier`.
    RequestHeaders(HeaderModifier),
    /// `ResponseHeaderModifier`.
    ResponseHeaders(HeaderModifier),
    /// `RequestRedirect`.
    Redirect(RedirectFact),
    /// `URLRewrite`.
    Rewrite(RewriteFact),
    /// `RequestMirror`; there may be several.
    Mirror(MirrorFact),
    /// `CORS`.
    Cors(CorsFact),
    /// A filter that nothing here can apply, and why. A filter may be what keeps somebody out, so what it stands at
    /// answers 500.
    Refused(Finding),
}

/// Changes of headers; applied as set, add, remove.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HeaderModifier {
    /// Replaces the header.
    pub set: Vec<(Name, Name)>,
    /// Appends to the header.
    pub add: Vec<(Name, Name)>,
    /// Removes the header.
    pub remove: Vec<Name>,
}

/// `RequestRedirect`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RedirectFact {
    /// `scheme`, in lower case.
    pub scheme: Option<Name>,
    /// `hostname`.
    pub hostname: Option<Name>,
    /// `port`.
    pub port: Option<u16>,
    /// `path`.
    pub path: Option<PathModifier>,
    /// `statusCode`, by default 302.
    pub status: u16,
}

/// `URLRewrite`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RewriteFact {
    /// `hostname`.
    pub hostname: Option<Name>,
    /// `path`.
    pub path: Option<PathModifier>,
}

/// `HTTPPathModifier`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PathModifier {
    /// `ReplaceFullPath`.
    Full(Name),
    /// `ReplacePrefixMatch`: replaces what the rule's prefix matched.
    Prefix(Name),
}

/// `RequestMirror`: a copy of each request, or of a share of them, goes to this backend, whose answer nobody sees.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MirrorFact {
    /// `backendRef`.
    pub target: BackendRef,
    /// `fraction.numerator`, or `percent`; at most the denominator.
    pub numerator: u32,
    /// `fraction.denominator`, by default 100; never 0.
    pub denominator: u32,
}

/// `CORS`: which pages of other origins may read answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CorsFact {
    /// `allowOrigins`, without ports that the scheme implies: `*`, or a scheme and a host that may be `*` or begin with
    /// `*.`. None: no other origin may.
    pub origins: Vec<Name>,
    /// `allowMethods`; `*` alone is every method.
    pub methods: Vec<Name>,
    /// `allowHeaders`; `*` alone is every header.
    pub headers: Vec<Name>,
    /// `exposeHeaders`; `*` is every header.
    pub exposed: Vec<Name>,
    /// `maxAge` in seconds, by default 5.
    pub max_age_s: u32,
    /// `allowCredentials`.
    pub credentials: bool,
}

/// `retry`: when and how often a request is tried again. A try that gets no answer is always one to repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RetryFact {
    /// `codes`: the statuses that are tried again too; sorted, each once.
    pub codes: Vec<u16>,
    /// `attempts`: how many tries may follow the first one.
    pub attempts: Option<u32>,
    /// `backoff` in milliseconds.
    pub backoff: Option<Millis>,
}

/// `sessionPersistence`: requests of one client go to the endpoint that its first one went to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionFact {
    /// `sessionName`.
    pub name: Option<Name>,
    /// `type`, by default a cookie.
    pub carrier: SessionCarrier,
}

/// What a client brings back, so that it is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SessionCarrier {
    /// `Cookie`.
    Cookie {
        /// `absoluteTimeout` of a permanent cookie in milliseconds; none: the cookie lives as long as the client runs.
        lifetime: Option<Millis>,
    },
    /// `Header`.
    Header,
}
