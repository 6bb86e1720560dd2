//! Rules for texts: names, hostnames, header names, keys. Written out rather than as regular expressions: they run for
//! every name of every object.

use crate::node::quote;

/// A rule that a text must keep, and how to say that it does not.
pub(crate) struct TextRule {
    /// Shortest length in characters.
    min: usize,
    /// Longest length in characters.
    max: usize,
    holds: fn(&str) -> bool,
    /// What the text must be.
    what: &'static str,
    /// What to write instead.
    advice: &'static str,
}

impl TextRule {
    /// Checks `text`.
    ///
    /// # Errors
    ///
    /// The message for the person who wrote the text.
    pub(crate) fn check(&self, text: &str) -> Result<(), String> {
        let length = text.chars().count();
        if length < self.min {
            Err(format!("must not be empty; write {}", self.what))
        } else if length > self.max {
            Err(format!("{} has {length} characters, {} are allowed; shorten it", quote(text), self.max))
        } else if !(self.holds)(text) {
            Err(format!("{} is not {}; {}", quote(text), self.what, self.advice))
        } else {
            Ok(())
        }
    }
}

/// Any text at all, of bounded length.
pub(crate) const fn any(min: usize, max: usize) -> TextRule {
    TextRule { min, max, holds: |_| true, what: "a text", advice: "" }
}

const LABEL_ADVICE: &str = "use lower-case letters, digits and '-', with a letter or digit at both ends";
const SUBDOMAIN_ADVICE: &str =
    "use lower-case letters, digits, '-' and '.', each part with a letter or digit at both ends";

/// A namespace: an RFC 1123 label.
pub(crate) const NAMESPACE: TextRule =
    TextRule { min: 1, max: 63, holds: is_label, what: "the name of a namespace", advice: LABEL_ADVICE };

/// The name of a Service: an RFC 1035 label.
pub(crate) const SERVICE_NAME: TextRule = TextRule {
    min: 1,
    max: 63,
    holds: |text| is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase()),
    what: "the name of a Service",
    advice: "use lower-case letters, digits and '-', with a letter first and a letter or digit last",
};

/// The name of a port of a Service or slice.
pub(crate) const PORT_NAME: TextRule = TextRule {
    min: 0,
    max: 63,
    holds: |text| text.is_empty() || is_label(text),
    what: "a port name",
    advice: LABEL_ADVICE,
};

/// The name of a listener or rule.
pub(crate) const SECTION_NAME: TextRule =
    TextRule { min: 1, max: 253, holds: is_subdomain, what: "a section name", advice: SUBDOMAIN_ADVICE };

/// An API group of a reference; empty is the core group.
pub(crate) const GROUP: TextRule = TextRule {
    min: 0,
    max: 253,
    holds: |text| text.is_empty() || is_subdomain(text),
    what: "an API group",
    advice: "write the group without its version, or \"\" for the core group",
};

/// A kind of a reference.
pub(crate) const KIND: TextRule = TextRule {
    min: 1,
    max: 63,
    holds: |text| text.starts_with(|c: char| c.is_ascii_alphabetic()) && is_dashed(text, |c| c.is_ascii_alphanumeric()),
    what: "a kind",
    advice: "use letters, digits and '-', with a letter first",
};

/// The name of whatever object a reference names.
pub(crate) const REF_NAME: TextRule = any(1, 253);

/// A hostname of a listener or route; the first label may be `*`.
pub(crate) const HOSTNAME: TextRule = TextRule {
    min: 1,
    max: 253,
    holds: |text| is_subdomain(text.strip_prefix("*.").unwrap_or(text)),
    what: "a hostname",
    advice: "use lower-case labels of letters, digits and '-', and '*' only as the whole first label",
};

/// A hostname without wildcard.
pub(crate) const PRECISE_HOSTNAME: TextRule = TextRule {
    min: 1,
    max: 253,
    holds: is_subdomain,
    what: "a hostname without wildcard",
    advice: "use lower-case labels of letters, digits and '-'",
};

/// A URI: a scheme and something that belongs to it.
pub(crate) const URI: TextRule = TextRule {
    min: 1,
    max: 253,
    holds: |text| {
        text.split_once(':').is_some_and(|(scheme, rest)| {
            !scheme.is_empty() && !scheme.contains(['/', '?', '#']) && rest.starts_with("//") && !has_control(text)
        })
    },
    what: "a URI",
    advice: "write it with its scheme, such as spiffe://example.com/name",
};

/// The name of a gRPC service, with its package.
pub(crate) const GRPC_SERVICE: TextRule = TextRule {
    min: 1,
    max: 1024,
    holds: |text| text.strip_prefix('.').unwrap_or(text).split('.').all(is_identifier),
    what: "the name of a gRPC service",
    advice: "write it as package.Service, without slashes",
};

/// The name of a gRPC method.
pub(crate) const GRPC_METHOD: TextRule = TextRule {
    min: 1,
    max: 1024,
    holds: is_identifier,
    what: "the name of a gRPC method",
    advice: "use letters, digits and '_'",
};

/// The name of a header or query parameter.
pub(crate) const HEADER_NAME: TextRule = TextRule {
    min: 1,
    max: 256,
    holds: |text| text.bytes().all(is_token),
    what: "a header name",
    advice: "use letters, digits and any of !#$%&'*+-.^_`|~",
};

/// An origin of a page: `*`, or scheme, host and perhaps a port.
pub(crate) const ORIGIN: TextRule = TextRule {
    min: 1,
    max: 253,
    holds: is_origin,
    what: "an origin",
    advice: "write http:// or https:// and a host, where a first label may be '*', or '*' alone",
};

/// What a session is known by: what both a cookie and a header can be called.
pub(crate) const SESSION_NAME: TextRule = TextRule { max: 128, what: "a name of a session", ..HEADER_NAME };

/// The value of a header that is set or added.
pub(crate) const HEADER_VALUE: TextRule = any(1, 4096);

/// What a header or query parameter is compared with.
pub(crate) fn compared_value(max: usize) -> TextRule {
    any(1, max)
}

/// A replacement for a path or a part of it.
pub(crate) const PATH_REPLACEMENT: TextRule = any(0, 1024);

/// `spec.controllerName`: a domain and a path.
pub(crate) const CONTROLLER_NAME: TextRule = TextRule {
    min: 1,
    max: 253,
    holds: is_domain_path,
    what: "a controller name",
    advice: "write a domain, '/' and a path, such as example.com/gateway-controller",
};

/// A listener protocol: a word, or a domain and a word.
pub(crate) const PROTOCOL: TextRule = TextRule {
    min: 1,
    max: 255,
    holds: |text| match text.split_once('/') {
        Some((domain, word)) => {
            is_subdomain(domain) && !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric())
        }
        None => is_dashed(text, |c| c.is_ascii_alphanumeric()),
    },
    what: "a protocol",
    advice: "use HTTP, HTTPS, TLS, TCP or UDP",
};

/// The type of an address: one of three words, or a domain and a path.
pub(crate) const ADDRESS_TYPE: TextRule = TextRule {
    min: 1,
    max: 253,
    holds: |text| matches!(text, "IPAddress" | "Hostname" | "NamedAddress") || is_domain_path(text),
    what: "an address type",
    advice: "use IPAddress",
};

/// A key of a label or annotation: an optional domain and '/', then a name.
pub(crate) const QUALIFIED_KEY: TextRule = TextRule {
    min: 1,
    max: 317,
    holds: |text| {
        let (domain, name) = text.split_once('/').map_or((None, text), |(domain, name)| (Some(domain), name));
        domain.is_none_or(|domain| domain.len() <= 253 && is_subdomain(domain))
            && !name.is_empty()
            && is_label_value(name)
    },
    what: "a label key",
    advice: "use letters, digits, '-', '_' and '.', at most 63, after an optional lower-case domain and '/'",
};

/// A value of a label.
pub(crate) const LABEL_VALUE: TextRule = TextRule {
    min: 0,
    max: 63,
    holds: is_label_value,
    what: "a label value",
    advice: "use letters, digits, '-', '_' and '.', with a letter or digit at both ends",
};

/// Whether a text has what no header can carry, so that Envoy would refuse it.
pub(crate) fn has_control(text: &str) -> bool {
    text.chars().any(|c| c != '\t' && c.is_control())
}

/// Whether an IP address is written where a hostname should be.
pub(crate) fn is_ip(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
}

fn is_dashed(text: &str, inner: fn(char) -> bool) -> bool {
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.chars().all(|c| c == '-' || inner(c))
}

fn is_label(text: &str) -> bool {
    is_dashed(text, |c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_label_value(text: &str) -> bool {
    let at_ends = |c: char| c.is_ascii_alphanumeric();
    text.is_empty()
        || (text.len() <= 63
            && text.starts_with(at_ends)
            && text.ends_with(at_ends)
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')))
}

fn is_domain_path(text: &str) -> bool {
    let of_path = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    text.split_once('/')
        .is_some_and(|(domain, path)| is_subdomain(domain) && !path.is_empty() && path.bytes().all(of_path))
}

fn is_origin(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else { return text == "*" };
    let (host, port) = rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port)));
    let of_label = |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_port = |port: &str| (1..=5).contains(&port.len()) && port.bytes().all(|b| b.is_ascii_digit());
    (host == "*" || host.strip_prefix("*.").unwrap_or(host).split('.').all(of_label)) && port.is_none_or(is_port)
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A character of an HTTP token.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_takes_and_refuses_what_an_api_server_does() {
        let long = "a".repeat(64);
        let table: &[(&TextRule, &[&str], &[&str])] = &[
            (&NAMESPACE, &["shop", "a-1", "1"], &["", "-a", "a-", "A", "a.b", "a/b", &long]),
            (&SERVICE_NAME, &["a", "a-1"], &["1a", "a.b", "A", "", &long]),
            (&PORT_NAME, &["", "http", "8080"], &["http_", "H", "-"]),
            (&SECTION_NAME, &["http", "a.b"], &["", "HTTP", "*"]),
            (&GROUP, &["", "gateway.networking.k8s.io"], &["a/v1", "A"]),
            (&KIND, &["Service", "a-B1"], &["", "1a", "-a", "a-", "a.b"]),
            (&HOSTNAME, &["a.b", "*.b", "localhost"], &["", "*", "*.", "*a.b", "a.*.b", "A.b", "a.b.", "a_b", "a:80"]),
            (&PRECISE_HOSTNAME, &["a.b"], &["*.b", ""]),
            (&HEADER_NAME, &["X-A", "a_b~"], &["", ":path", "a b", "ä", "a:"]),
            (
                &ORIGIN,
                &["*", "http://a", "https://*.b-1.C:8443", "https://*", "http://*:80"],
                &[
                    "",
                    "a.b",
                    "ftp://a",
                    "http://",
                    "http://a/",
                    "http://a.*",
                    "http://*a",
                    "http://a:",
                    "http://a:1234567",
                ],
            ),
            (&CONTROLLER_NAME, &["a.b/c", "a/b/c"], &["a", "a/", "/a", "A.b/c", "a b/c"]),
            (&PROTOCOL, &["HTTP", "INVALID", "a.b/c"], &["", "a.b", "a.b/", "A.b/c", "H_"]),
            (&ADDRESS_TYPE, &["IPAddress", "Hostname", "test/fake-invalid-type"], &["ipaddress", "a", ""]),
            (&QUALIFIED_KEY, &["a", "a.b/c", "A_b.c"], &["", "/a", "a/", "A/b", "a/b/c", "-a", &long]),
            (&LABEL_VALUE, &["", "A-b_c.1"], &["-a", "a-", "a/b", &long]),
        ];
        for (rule, good, bad) in table {
            for text in *good {
                assert_eq!(rule.check(text), Ok(()), "{}: {text}", rule.what);
            }
            for text in *bad {
                let message = rule.check(text).expect_err(text);
                assert!(message.contains(';'), "says what to do: {message}");
            }
        }
    }
}
