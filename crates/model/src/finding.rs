//! Findings: what there is to say about one object, for the person who wrote it.

use crate::name::Name;
use crate::plain::plain_name;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Something to say about one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Finding {
    /// The condition reason it leads to.
    pub reason: Reason,
    /// The field, as a path from the object's root (`spec.rules[0].backendRefs[1].port`); empty for the object.
    pub field: Name,
    /// What is wrong and what to do, one sentence in lower case without a full stop.
    pub message: Name,
}

impl Finding {
    /// A finding about `field`. What users wrote may stand in both texts as it is: here they come to be [`plain`](crate::plain).
    #[must_use]
    pub fn new(reason: Reason, field: &str, message: impl Into<Name>) -> Self {
        Finding { reason, field: plain_name(field.into()), message: plain_name(message.into()) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            write!(f, "{}", self.message)
        } else {
            write!(f, "{}: {}", self.field, self.message)
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// A condition reason, as the Gateway API names them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Reason { $($(#[$doc])* $name),* }

        impl Reason {
            /// The reason as a condition carries it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Reason::$name => stringify!($name)),* }
            }
        }
    };
}

reasons! {
    /// Accepted.
    Accepted,
    /// Programmed.
    Programmed,
    /// References resolve.
    ResolvedRefs,
    /// No conflict with another listener.
    NoConflicts,
    /// Waiting for the controller.
    Pending,
    /// The object breaks a rule of its kind that an API server would have refused; the message says which.
    Invalid,
    /// A field has a value that is not supported.
    UnsupportedValue,
    /// A field that no version of the kind has; it is ignored, as an API server ignores it.
    UnknownField,
    /// The listener protocol is not supported.
    UnsupportedProtocol,
    /// The address type is not supported.
    UnsupportedAddress,
    /// The address cannot be used.
    AddressNotUsable,
    /// Some listeners are not valid.
    ListenersNotValid,
    /// The Gateway admits no ListenerSet from here.
    NotAllowed,
    /// The Gateway of a ListenerSet is not accepted.
    ParentNotAccepted,
    /// The Gateway of a ListenerSet is not programmed.
    ParentNotProgrammed,
    /// `parametersRef` cannot be resolved.
    InvalidParameters,
    /// Route kinds that the listener cannot take.
    InvalidRouteKinds,
    /// A listener with the same port and hostname stands before this one.
    HostnameConflict,
    /// Listeners of one port with protocols that exclude each other.
    ProtocolConflict,
    /// The port cannot be used.
    PortUnavailable,
    /// No listener matches the parent reference.
    NoMatchingParent,
    /// The listener does not allow this route.
    NotAllowedByListeners,
    /// No hostname in common with the listener.
    NoMatchingListenerHostname,
    /// The backend does not exist.
    BackendNotFound,
    /// The kind of the reference is not supported.
    InvalidKind,
    /// A certificate that a listener refers to is not there or cannot be used.
    InvalidCertificateRef,
    /// CA certificates that are referred to are not there or cannot be used.
    InvalidCACertificateRef,
    /// There is no CA certificate to check the other side by.
    NoValidCACertificate,
    /// The kind of a reference to CA certificates is not supported.
    InvalidCACertificateKind,
    /// The configuration is not as it is by itself.
    ConfigurationChanged,
    /// Another policy, which goes before, is about the same target.
    Conflicted,
    /// No route leads to what a policy is about.
    TargetNotFound,
    /// The certificate that a Gateway shows to backends is not there or cannot be used.
    InvalidClientCertificateRef,
    /// A certificate is past its end; it is served all the same.
    CertificateExpired,
    /// A certificate is not for the hostname of its listener; it is served all the same.
    CertificateHostnameMismatch,
    /// A reference into another namespace without a ReferenceGrant.
    RefNotPermitted,
    /// A kind that is needed could not be read.
    KindUnreadable,
    /// What traffic shall go to has no usable endpoint yet.
    AwaitingEndpoints,
    /// A proxy refused what was made of this object.
    Rejected,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
