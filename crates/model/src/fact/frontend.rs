//! How a Gateway validates its clients.

use super::CertificateRef;
use crate::name::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `Gateway.spec.tls.frontend`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FrontendFact {
    /// `default.validation`.
    pub default: Option<ClientValidationFact>,
    /// `perPort`: `tls.validation` by port.
    pub ports: BTreeMap<u16, Option<ClientValidationFact>>,
}

impl FrontendFact {
    /// How clients of the listeners of a port are validated, if they are. What is said of a port takes the place of the
    /// default, also if it says nothing.
    #[must_use]
    pub fn of_port(&self, port: u16) -> Option<&ClientValidationFact> {
        self.ports.get(&port).unwrap_or(&self.default).as_ref()
    }

    /// Every validation.
    pub fn all(&self) -> impl Iterator<Item = &ClientValidationFact> {
        self.ports.values().chain([&self.default]).flatten()
    }
}

/// A `validation`: what a client must show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientValidationFact {
    /// Where it stands, as a path from the object's root.
    pub field: Name,
    /// `caCertificateRefs`, in order.
    pub authorities: Vec<CertificateRef>,
    /// Whether `mode` is `AllowInsecureFallback`; by default it is `AllowValidOnly`.
    pub insecure: bool,
}
