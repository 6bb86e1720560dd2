//! The oracle of policies: those of each namespace, judged by all that is in it.

use crate::backends::ServiceState;
use crate::lower::Lead;
use crate::policies::{self, Holding, PolicyInput, PolicyOutput, Standing};
use crate::status::OtherInput;
use crate::status::policies::led;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{BackendTlsFact, BundleFact, Kind, NamespacedName, ObjectKey, ServiceFact};
use tidegate_xds::ir::UpstreamTls;

/// What is found out about all policies.
#[derive(Default)]
pub(super) struct Judged {
    holdings: BTreeMap<NamespacedName, Arc<Holding>>,
    demands: BTreeMap<NamespacedName, Arc<UpstreamTls>>,
    standings: Vec<Arc<Standing>>,
}

impl Judged {
    pub(super) fn of(policies: &[&Arc<BackendTlsFact>], bundles: &[&Arc<BundleFact>]) -> Self {
        let mut judged = Judged::default();
        let namespaces: BTreeSet<&str> = policies.iter().map(|policy| policy.name.namespace()).collect();
        for namespace in namespaces {
            let here = policies.iter().filter(|policy| policy.name.namespace() == namespace);
            let mut inputs: Vec<PolicyInput> = here.map(|policy| PolicyInput::Policy(Arc::clone(policy))).collect();
            let here = bundles.iter().filter(|bundle| bundle.name.namespace() == namespace);
            inputs.extend(here.map(|bundle| PolicyInput::Bundle(Arc::clone(bundle))));
            for output in policies::judge(inputs.iter()) {
                match output {
                    PolicyOutput::Holding(service, holding) => drop(judged.holdings.insert(service, holding)),
                    PolicyOutput::Demand(policy, demand) => drop(judged.demands.insert(policy, demand)),
                    PolicyOutput::Standing(standing) => judged.standings.push(standing),
                }
            }
        }
        judged
    }

    pub(super) fn holding(&self, service: &NamespacedName) -> Option<&Arc<Holding>> {
        self.holdings.get(service)
    }

    pub(super) fn demand(&self, policy: &NamespacedName) -> Option<&UpstreamTls> {
        self.demands.get(policy).map(|demand| &**demand)
    }

    /// A Service with what holds for it.
    pub(super) fn state(&self, name: &NamespacedName, service: Option<&Arc<ServiceFact>>) -> ServiceState {
        ServiceState { service: service.cloned(), holding: self.holding(name).cloned() }
    }

    /// What the status of policies is made of.
    pub(super) fn status_inputs(&self, leads: &BTreeSet<Lead>) -> Vec<(ObjectKey, OtherInput)> {
        let mut inputs = Vec::new();
        for standing in &self.standings {
            let object = ObjectKey { kind: Kind::BackendTlsPolicy, name: standing.fact.name.clone() };
            inputs.push((object, OtherInput::Policy(Arc::clone(standing))));
            let services = policies::services(standing);
            let there = leads.iter().filter(|lead| services.contains(&lead.service));
            inputs.extend(there.map(|lead| led(standing, lead)));
        }
        inputs
    }
}
