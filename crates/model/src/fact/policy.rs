//! Policies that say how backends are to be reached.

use super::CertificateRef;
use crate::finding::Finding;
use crate::name::{Name, NamespacedName};
use serde::{Deserialize, Serialize};

/// A BackendTLSPolicy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BackendTlsFact {
    /// Namespace and name.
    pub name: NamespacedName,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp` in seconds since the Unix epoch; one constant in file mode when absent.
    pub created: i64,
    /// Those of `spec.targetRefs` that are Services, or may be meant to be, in order.
    pub targets: Vec<PolicyTarget>,
    /// `spec.validation.hostname`: asked for in the handshake, and checked unless `names` are given. Empty only where
    /// there are findings.
    pub hostname: Name,
    /// `spec.validation.subjectAltNames`: the certificate of a backend must have one of them.
    pub names: Vec<SubjectName>,
    /// What the certificate must be signed by.
    pub authorities: AuthorityRefs,
    /// What is wrong with it by itself. Not empty: the policy is not accepted, and its targets are not reached.
    pub findings: Vec<Finding>,
}

/// What a policy is about: a Service of its own namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PolicyTarget {
    /// Where it stands, as a path from the object's root.
    pub field: Name,
    /// The Service.
    pub service: NamespacedName,
    /// `sectionName`: the name of one of its ports; every port that no policy names if none.
    pub port: Option<Name>,
}

/// Whose signatures are trusted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AuthorityRefs {
    /// Of whoever the system trusts that the proxy runs on (`wellKnownCACertificates: System`).
    System,
    /// Of the CA certificates in these objects (`caCertificateRefs`), in order.
    Refs(Vec<CertificateRef>),
}

/// A name that a certificate can be for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SubjectName {
    /// A DNS name.
    Host(Name),
    /// A URI.
    Uri(Name),
}
