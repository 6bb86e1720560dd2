//! The gRPC side of the backend: every method of every service answers with what it saw, as `GrpcEcho` of the Gateway
//! API's conformance suite does; a method whose name ends with `EchoThree` is not implemented.

use super::{Echoed, Identity};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use std::collections::BTreeMap;
use std::convert::Infallible;

/// What gRPC is recognized by; a format may follow.
pub(crate) const CONTENT_TYPE: &str = "application/grpc";

const OK: &str = "0";
const UNIMPLEMENTED: &str = "12";
const STATUS: &str = "grpc-status";

/// Before each message: whether it is compressed, and its length in four bytes.
const PREFIX: usize = 5;

/// A request without content, as it is sent.
pub(crate) const EMPTY: Bytes = Bytes::from_static(&[0; PREFIX]);

/// The answer to a call.
pub(super) fn answer(echoed: &Echoed) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Empty::new().boxed());
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    if echoed.path.ends_with("EchoThree") {
        headers.insert(STATUS, HeaderValue::from_static(UNIMPLEMENTED));
        return response;
    }
    let trailers = HeaderMap::from_iter([(STATUS.parse().expect("a header name"), HeaderValue::from_static(OK))]);
    let message = Full::new(framed(&encode(echoed)));
    *response.body_mut() = message.with_trailers(std::future::ready(Some(Ok(trailers)))).boxed();
    response
}

fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX + message.len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.len()).expect("an answer is short"));
    bytes.put_slice(message);
    bytes.freeze()
}

/// `EchoResponse`: its assertions hold the method, the headers, the authority, and who answers.
fn encode(echoed: &Echoed) -> Vec<u8> {
    let mut assertions = Vec::new();
    put(&mut assertions, 1, echoed.path.as_bytes());
    for (name, value) in echoed.headers.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)))
    {
        let mut header = Vec::new();
        put(&mut header, 1, name.as_bytes());
        put(&mut header, 2, value.as_bytes());
        put(&mut assertions, 2, &header);
    }
    put(&mut assertions, 3, echoed.host.as_bytes());
    let mut context = Vec::new();
    put(&mut context, 1, echoed.identity.namespace.as_bytes());
    put(&mut context, 3, echoed.identity.service.as_bytes());
    put(&mut context, 4, echoed.identity.pod.as_bytes());
    put(&mut assertions, 4, &context);
    let mut response = Vec::new();
    put(&mut response, 1, &assertions);
    response
}

/// A field of bytes: every field here is one.
fn put(to: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    to.push(field << 3 | 2);
    let mut length = bytes.len();
    while length > 0x7f {
        to.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
        length >>= 7;
    }
    to.push(u8::try_from(length).unwrap_or(0));
    to.extend(bytes);
}

/// What the backend saw, from the body of its answer; none if it is no such answer.
pub(crate) fn decode(body: &[u8]) -> Option<Echoed> {
    let response = fields(body.get(PREFIX..)?)?;
    let assertions = fields(response.iter().find(|(field, _)| *field == 1)?.1)?;
    let text = |fields: &[(u8, &[u8])], wanted| {
        let found = fields.iter().find(|(field, _)| *field == wanted).map(|(_, bytes)| *bytes);
        String::from_utf8_lossy(found.unwrap_or_default()).into_owned()
    };
    let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, header) in assertions.iter().filter(|(field, _)| *field == 2) {
        let header = fields(header)?;
        headers.entry(text(&header, 1)).or_default().push(text(&header, 2));
    }
    let context = fields(assertions.iter().find(|(field, _)| *field == 4)?.1)?;
    Some(Echoed {
        path: text(&assertions, 1),
        host: text(&assertions, 3),
        method: "POST".to_owned(),
        proto: "HTTP/2.0".to_owned(),
        headers,
        identity: Identity::new(&text(&context, 1), &text(&context, 3), &text(&context, 4)),
        tls: None,
    })
}

/// The fields of a message; none if one is cut off or is not of bytes.
fn fields(mut message: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut fields = Vec::new();
    while let [tag, rest @ ..] = message {
        let (mut length, mut shift, mut rest) = (0_usize, 0, rest);
        loop {
            let [byte, after @ ..] = rest else { return None };
            length |= usize::from(byte & 0x7f) << shift;
            (rest, shift) = (after, shift + 7);
            if byte & 0x80 == 0 {
                break;
            }
        }
        if tag & 7 != 2 || length > rest.len() || shift > 28 {
            return None;
        }
        fields.push((tag >> 3, &rest[..length]));
        message = &rest[length..];
    }
    Some(fields)
}
