//! Discovery responses from shared pieces: a small head for each resource, then the bytes of the resource itself, which
//! are the same for every client and are never copied.
//!
//! Resources are field 2 of both `DiscoveryResponse` and `DeltaDiscoveryResponse`, and the fields of a message may stand
//! in any order, so a response is any number of these pairs followed by the few fields that are a stream's own.

use crate::resource::Resource;
use bytes::Bytes;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

/// `DiscoveryResponse.resources` and `DeltaDiscoveryResponse.resources`.
const RESOURCES: u32 = 2;
/// `Any.type_url` and `Any.value`.
const ANY: (u32, u32) = (1, 2);
/// `Resource.version`, `Resource.resource` and `Resource.name` of the delta protocol.
const DELTA: (u32, u32, u32) = (1, 2, 3);

/// The resource as an element of `DiscoveryResponse.resources`: head and body.
#[must_use]
pub fn sotw_chunks(type_url: &str, resource: &Resource) -> [Bytes; 2] {
    let any = any_head(type_url, resource.bytes.len());
    let mut head = Vec::with_capacity(any.len() + 8);
    put_len(RESOURCES, any.len() + resource.bytes.len(), &mut head);
    head.extend(any);
    [head.into(), resource.bytes.clone()]
}

/// The resource, with its name and version, as an element of `DeltaDiscoveryResponse.resources`: head and body.
#[must_use]
pub fn delta_chunks(type_url: &str, resource: &Resource) -> [Bytes; 2] {
    let any = any_head(type_url, resource.bytes.len());
    let version = resource.version.to_string();
    let any_len = any.len() + resource.bytes.len();
    // The tags of these three fields are one byte each.
    let len = [resource.name.len(), version.len(), any_len]
        .map(|len| 1 + encoded_len_varint(len as u64) + len)
        .iter()
        .sum::<usize>();
    let mut head = Vec::with_capacity(len - resource.bytes.len() + 8);
    put_len(RESOURCES, len, &mut head);
    put_len(DELTA.2, resource.name.len(), &mut head);
    head.extend_from_slice(resource.name.as_bytes());
    put_len(DELTA.0, version.len(), &mut head);
    head.extend_from_slice(version.as_bytes());
    put_len(DELTA.1, any_len, &mut head);
    head.extend(any);
    [head.into(), resource.bytes.clone()]
}

/// An `Any` up to where its value begins.
fn any_head(type_url: &str, value_len: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(type_url.len() + 8);
    put_len(ANY.0, type_url.len(), &mut head);
    head.extend_from_slice(type_url.as_bytes());
    put_len(ANY.1, value_len, &mut head);
    head
}

fn put_len(field: u32, len: usize, to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(len as u64, to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use tidegate_model::ResourceType;
    use tidegate_proto::envoy::service::discovery::v3::{DeltaDiscoveryResponse, DiscoveryResponse};

    fn resource(len: usize) -> Resource {
        Resource::new("shop/cart/80".into(), vec![7; len].into())
    }

    #[test]
    fn chunks_decode_as_the_resources_of_a_sotw_response() {
        let url = ResourceType::Cluster.url();
        for len in [0, 1, 127, 128, 20_000] {
            let resource = resource(len);
            let bytes = [sotw_chunks(url, &resource), sotw_chunks(url, &resource)].concat().concat();
            let response = DiscoveryResponse::decode(&bytes[..]).unwrap();
            assert_eq!(response.resources.len(), 2);
            assert_eq!(response.resources[1].type_url, url);
            assert_eq!(response.resources[1].value, resource.bytes);
        }
    }

    #[test]
    fn chunks_decode_as_the_resources_of_a_delta_response() {
        let url = ResourceType::Table.url();
        for len in [0, 1, 127, 128, 20_000] {
            let resource = resource(len);
            let bytes = [delta_chunks(url, &resource), delta_chunks(url, &resource)].concat().concat();
            let response = DeltaDiscoveryResponse::decode(&bytes[..]).unwrap();
            assert_eq!(response.resources.len(), 2);
            let decoded = &response.resources[1];
            assert_eq!((&*decoded.name, &decoded.version), ("shop/cart/80", &resource.version.to_string()));
            let any = decoded.resource.as_ref().unwrap();
            assert_eq!((&*any.type_url, &any.value), (url, &resource.bytes));
        }
    }

    #[test]
    fn the_body_is_shared_not_copied() {
        let resource = resource(1000);
        for [_, body] in [sotw_chunks("t/a", &resource), delta_chunks("t/a", &resource)] {
            assert_eq!(body.as_ptr(), resource.bytes.as_ptr());
        }
    }
}
