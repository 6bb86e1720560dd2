//! BackendTLSPolicies: which one holds for which port of a Service, and what it demands.
//!
//! Everything that a policy names is in its own namespace, so the policies of a namespace are judged together: what they
//! refer to, and which of several for one target holds. Whether a Service or a port of it exists is for those who want to
//! go there.
//!
//! *Invariant*: a port that a policy holds for is reached as the policy says or not at all. A policy that cannot be used
//! holds like any other.

use crate::authorities;
use crate::edges::Edges;
use crate::lookup::Rows;
use crate::lower::Lead;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{
    AuthorityRefs, BackendTlsFact, BundleFact, CertificateRef, Finding, Kind, Name, NamespacedName, PolicyTarget,
    Precedence, Reason,
};
use tidegate_xds::ir::{Authorities, UpstreamTls};

/// What the policies of a namespace are judged by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum PolicyInput {
    Policy(Arc<BackendTlsFact>),
    Bundle(Arc<BundleFact>),
}

/// What is found out about the policies of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum PolicyOutput {
    /// A Service that policies are about, and which of them hold.
    Holding(NamespacedName, Arc<Holding>),
    /// What a policy demands that can be used.
    Demand(NamespacedName, Arc<UpstreamTls>),
    /// A policy, for its status.
    Standing(Arc<Standing>),
}

/// The policies that hold for the ports of a Service: each name of a port once, none stands for all others.
pub(crate) type Holding = BTreeMap<Option<Name>, Security>;

/// How a Service port is to be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Security {
    /// As it is: no policy is about it.
    #[default]
    Plain,
    /// Over TLS, as this policy says.
    Tls(NamespacedName),
    /// Not at all, for the policy about it cannot be used.
    Closed,
}

/// How the port of this name is to be reached.
pub(crate) fn security(holding: Option<&Holding>, port: &Name) -> Security {
    let holds = |holding: &Holding| holding.get(&Some(port.clone())).or_else(|| holding.get(&None)).cloned();
    holding.and_then(holds).unwrap_or_default()
}

/// A policy with everything that there is to say about it but through which Gateways.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) fact: Arc<BackendTlsFact>,
    /// CA references that lead to nothing, by field.
    pub(crate) refs: Vec<Finding>,
    /// Why it is not accepted, if it is not.
    pub(crate) refused: Option<(Reason, Name)>,
    /// Targets that another policy has.
    pub(crate) lost: Vec<Finding>,
}

/// What is found out about all policies.
pub(crate) struct Judged<'s> {
    /// The policies that hold for a Service.
    pub(crate) holdings: Rows<'s, (NamespacedName, Arc<Holding>)>,
    /// What each policy demands that can be used.
    pub(crate) demands: Rows<'s, (NamespacedName, Arc<UpstreamTls>)>,
    pub(crate) standings: Rows<'s, Arc<Standing>>,
}

/// The policies, judged.
pub(crate) fn judged<'s>(
    edges: &Edges,
    policies: Rows<'s, Arc<BackendTlsFact>>,
    bundles: Rows<'s, Arc<BundleFact>>,
) -> Judged<'s> {
    let policies = edges.carry("policies to judgement", policies);
    let policies = policies.map(|policy| (namespace(&policy.name), PolicyInput::Policy(policy)));
    let bundles = edges.carry("CA certificates to policies", bundles);
    let bundles = bundles.map(|bundle| (namespace(&bundle.name), PolicyInput::Bundle(bundle)));
    let outputs = policies.concat(bundles).reduce_named("policies by namespace", |_namespace, input, output| {
        output.extend(judge(input.iter().map(|(input, _)| *input)).into_iter().map(|row| (row, 1)));
    });
    Judged {
        holdings: outputs.clone().flat_map(|(_namespace, output)| holding(output)),
        demands: outputs.clone().flat_map(|(_namespace, output)| demand(output)),
        standings: outputs.flat_map(|(_namespace, output)| standing(output)),
    }
}

fn namespace(name: &NamespacedName) -> Name {
    name.namespace().into()
}

/// Judges the policies of one namespace.
pub(crate) fn judge<'i>(inputs: impl Iterator<Item = &'i PolicyInput>) -> Vec<PolicyOutput> {
    let (mut policies, mut bundles) = (Vec::new(), BTreeMap::new());
    for input in inputs {
        match input {
            PolicyInput::Policy(policy) => policies.push(policy),
            PolicyInput::Bundle(bundle) => drop(bundles.insert(&bundle.name, &**bundle)),
        }
    }
    // The order of precedence: the older one first, then by name.
    policies.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    let mut holders: BTreeMap<(&NamespacedName, Option<&Name>), &Arc<BackendTlsFact>> = BTreeMap::new();
    for policy in &policies {
        for target in &policy.targets {
            holders.entry(place(target)).or_insert(policy);
        }
    }
    let mut rows = Vec::new();
    let mut holdings: BTreeMap<&NamespacedName, Holding> = BTreeMap::new();
    for policy in policies {
        let (trust, refs) = trust(policy, &bundles);
        let (held, lost): (Vec<_>, Vec<_>) =
            policy.targets.iter().partition(|target| holders[&place(target)].name == policy.name);
        let security = match (&trust, policy.findings.is_empty()) {
            (Some(_), true) => Security::Tls(policy.name.clone()),
            (Some(_), false) | (None, _) => Security::Closed,
        };
        for target in &held {
            holdings.entry(&target.service).or_default().insert(target.port.clone(), security.clone());
        }
        if let (Some(trust), Security::Tls(name), false) = (&trust, &security, held.is_empty()) {
            let demand = UpstreamTls {
                sni: policy.hostname.clone(),
                names: policy.names.clone(),
                authorities: trust.clone(),
                certificate: None,
            };
            rows.push(PolicyOutput::Demand(name.clone(), Arc::new(demand)));
        }
        let lost: Vec<Finding> = lost.iter().map(|target| conflict(policy, target, holders[&place(target)])).collect();
        let refused = refused(policy, trust.is_some(), !held.is_empty(), &refs, &lost);
        rows.push(PolicyOutput::Standing(Arc::new(Standing { fact: Arc::clone(policy), refs, refused, lost })));
    }
    rows.extend(holdings.into_iter().map(|(service, held)| PolicyOutput::Holding(service.clone(), Arc::new(held))));
    rows
}

/// Whose signatures the policy trusts, if anybody's, and what is wrong with its references.
fn trust(
    policy: &BackendTlsFact,
    bundles: &BTreeMap<&NamespacedName, &BundleFact>,
) -> (Option<Authorities>, Vec<Finding>) {
    let refs = match &policy.authorities {
        AuthorityRefs::System => return (Some(Authorities::System), Vec::new()),
        AuthorityRefs::Refs(refs) => refs,
    };
    let (mut pem, mut wrong) = (String::new(), Vec::new());
    for (index, target) in refs.iter().enumerate() {
        match resolve(target, bundles) {
            Ok(authorities) => pem.push_str(authorities),
            Err((reason, message)) => {
                let field = format!("spec.validation.caCertificateRefs[{index}]");
                wrong.push(Finding::new(reason, &field, message));
            }
        }
    }
    ((!pem.is_empty()).then(|| Authorities::Inline(pem.into())), wrong)
}

fn resolve<'b>(
    target: &CertificateRef,
    bundles: &BTreeMap<&NamespacedName, &'b BundleFact>,
) -> Result<&'b Name, (Reason, String)> {
    let CertificateRef { group_kind, name } = target;
    if !group_kind.is(Kind::ConfigMap) {
        let message = format!("{group_kind} {name} is not a kind of object with CA certificates; use a ConfigMap");
        return Err((Reason::InvalidKind, message));
    }
    let bundle = bundles.get(name).copied();
    authorities::held(name, bundle).map_err(|message| (Reason::InvalidCACertificateRef, message))
}

/// What a target is about.
fn place(target: &PolicyTarget) -> (&NamespacedName, Option<&Name>) {
    (&target.service, target.port.as_ref())
}

fn conflict(policy: &BackendTlsFact, target: &PolicyTarget, holder: &BackendTlsFact) -> Finding {
    let port = target.port.as_ref().map(|port| format!("port {port} of ")).unwrap_or_default();
    let by = Precedence::of((holder.created, &holder.name), (policy.created, &policy.name));
    let message = format!(
        "BackendTLSPolicy {}, which {by}, holds for {port}Service {}; remove one of the two",
        holder.name, target.service
    );
    Finding::new(Reason::Conflicted, &target.field, message)
}

/// Why the policy is not accepted: the first thing that is to be put right.
fn refused(
    policy: &BackendTlsFact,
    trusts: bool,
    holds: bool,
    refs: &[Finding],
    lost: &[Finding],
) -> Option<(Reason, Name)> {
    let told = |findings: &[Finding]| crate::gateways::sentence(findings);
    if !policy.findings.is_empty() {
        Some((Reason::Invalid, told(&policy.findings)))
    } else if !trusts {
        Some((Reason::NoValidCACertificate, told(refs)))
    } else if !holds && !lost.is_empty() {
        Some((Reason::Conflicted, told(lost)))
    } else {
        None
    }
}

/// The Services of a policy's targets, for those who look for policies by the Services that they reach.
pub(crate) fn services(standing: &Standing) -> BTreeSet<NamespacedName> {
    standing.fact.targets.iter().map(|target| target.service.clone()).collect()
}

/// Whether a target is where the way leads.
pub(crate) fn is_about(target: &PolicyTarget, lead: &Lead) -> bool {
    target.service == lead.service && target.port.as_ref().is_none_or(|named| *named == lead.port_name)
}

/// What holds for a Service.
fn holding(output: PolicyOutput) -> Option<(NamespacedName, Arc<Holding>)> {
    match output {
        PolicyOutput::Holding(service, holding) => Some((service, holding)),
        PolicyOutput::Demand(..) | PolicyOutput::Standing(_) => None,
    }
}

/// What a policy demands.
fn demand(output: PolicyOutput) -> Option<(NamespacedName, Arc<UpstreamTls>)> {
    match output {
        PolicyOutput::Demand(policy, tls) => Some((policy, tls)),
        PolicyOutput::Holding(..) | PolicyOutput::Standing(_) => None,
    }
}

/// How a policy stands.
fn standing(output: PolicyOutput) -> Option<Arc<Standing>> {
    match output {
        PolicyOutput::Standing(standing) => Some(standing),
        PolicyOutput::Holding(..) | PolicyOutput::Demand(..) => None,
    }
}

#[cfg(test)]
mod tests;
