//! Messages in `google.protobuf.Any`.

use crate::Any;
use prost::{DecodeError, Message, Name};

/// What stands before the message name in a type URL.
pub const TYPE_URL_PREFIX: &str = "type.googleapis.com/";

/// `message`, encoded, with its type URL.
#[must_use]
pub fn pack<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec().into() }
}

/// The message in `any`, or none if it is of another type.
///
/// # Errors
///
/// The type is right and the bytes are no encoding of it.
pub fn unpack<M: Message + Name + Default>(any: &Any) -> Result<Option<M>, DecodeError> {
    if message_name(&any.type_url) == M::full_name() { M::decode(any.value.clone()).map(Some) } else { Ok(None) }
}

/// The message name in a type URL, or the text itself if it is no URL.
pub(crate) fn message_name(type_url: &str) -> &str {
    type_url.rsplit_once('/').map_or(type_url, |(_, name)| name)
}
