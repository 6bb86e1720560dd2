//! References of Gateways to the CA certificates by which their clients are validated: found in ConfigMaps.

use crate::edges::Edges;
use crate::gateways::Candidate;
use crate::lookup::{Rows, lookup};
use crate::references::{Ask, not_permitted};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tidegate_model::{BundleFact, CertificateRef, Kind, Name, NamespacedName, Reason};

/// One reference of one Gateway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct AuthorityAsk {
    pub(crate) gateway: NamespacedName,
    pub(crate) target: CertificateRef,
}

/// What a reference leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Resolution {
    /// CA certificates in PEM.
    Found(Name),
    /// Nothing that could be checked by.
    Failed(Reason, Name),
}

/// The references of a Gateway, each once.
pub(crate) fn asks((gateway, candidate): &(NamespacedName, Candidate)) -> Vec<AuthorityAsk> {
    let validations = candidate.fact.frontend.all();
    let mut targets: Vec<&CertificateRef> = validations.flat_map(|validation| &validation.authorities).collect();
    targets.sort();
    targets.dedup();
    targets.into_iter().map(|target| AuthorityAsk { gateway: gateway.clone(), target: target.clone() }).collect()
}

/// Every reference, resolved.
pub(crate) fn resolutions<'s>(
    edges: &Edges,
    asks: Rows<'s, (AuthorityAsk, bool)>,
    bundles: Rows<'s, Arc<BundleFact>>,
) -> Rows<'s, (NamespacedName, (CertificateRef, Resolution))> {
    let bundles = edges.carry("CA certificates to Gateways", bundles);
    let by_bundle = asks.map(|(ask, permitted)| (ask.target.name.clone(), (ask, permitted)));
    let wanted = by_bundle.clone().map(|(bundle, _)| bundle);
    let named = bundles.map(|bundle| (bundle.name.clone(), bundle));
    let states = lookup("CA certificates", wanted, named, |known| known.first().map(|bundle| (*bundle).clone()));
    by_bundle.arrange_by_key_named("CA asks by ConfigMap").join_core(
        states.arrange_by_key_named("CA certificates"),
        |_bundle, (ask, permitted), bundle| {
            let resolution = resolve(ask, *permitted, bundle.as_deref());
            Some((ask.gateway.clone(), (ask.target.clone(), resolution)))
        },
    )
}

/// What a reference leads to. A missing permission is told before anything that would tell what exists there.
pub(crate) fn resolve(ask: &AuthorityAsk, permitted: bool, bundle: Option<&BundleFact>) -> Resolution {
    let failed = |reason, message: String| Resolution::Failed(reason, message.into());
    let CertificateRef { group_kind, name } = &ask.target;
    if !group_kind.is(Kind::ConfigMap) {
        let message = format!("{group_kind} {name} is not a kind of CA certificates; use a ConfigMap");
        return failed(Reason::InvalidCACertificateKind, message);
    }
    if !permitted {
        return failed(Reason::RefNotPermitted, not_permitted(&Ask::Authority(ask.clone())));
    }
    match held(name, bundle) {
        Ok(authorities) => Resolution::Found(authorities.clone()),
        Err(message) => failed(Reason::InvalidCACertificateRef, message),
    }
}

/// The CA certificates of a ConfigMap, or why there are none.
pub(crate) fn held<'b>(name: &NamespacedName, bundle: Option<&'b BundleFact>) -> Result<&'b Name, String> {
    match bundle.map(|bundle| &bundle.authorities) {
        None => Err(format!("ConfigMap {name} does not exist; create it, or correct the name")),
        Some(Err(problem)) => Err(format!("ConfigMap {name}: {problem}")),
        Some(Ok(authorities)) => Ok(authorities),
    }
}
