use super::*;

fn bundle(name: &str, authorities: Result<&str, &str>) -> PolicyInput {
    let authorities = authorities.map(Name::from).map_err(Name::from);
    PolicyInput::Bundle(Arc::new(BundleFact { name: NamespacedName::new("shop", name), authorities }))
}

/// A policy about these ports (`service` or `service:port`) that trusts these ConfigMaps; none is the system.
fn policy(name: &str, created: i64, targets: &[&str], trusts: &[&str]) -> BackendTlsFact {
    let target = |(index, text): (usize, &&str)| {
        let (service, port) = text.split_once(':').map_or((*text, None), |(service, port)| (service, Some(port)));
        let field = format!("spec.targetRefs[{index}]").into();
        PolicyTarget { field, service: NamespacedName::new("shop", service), port: port.map(Name::from) }
    };
    let reference = |name: &&str| {
        let group_kind = if name.starts_with('?') { Kind::Secret.into() } else { Kind::ConfigMap.into() };
        CertificateRef { group_kind, name: NamespacedName::new("shop", name) }
    };
    BackendTlsFact {
        name: NamespacedName::new("shop", name),
        generation: 1,
        created,
        targets: targets.iter().enumerate().map(target).collect(),
        hostname: "cart.example".into(),
        names: Vec::new(),
        authorities: match trusts {
            [] => AuthorityRefs::System,
            refs => AuthorityRefs::Refs(refs.iter().map(reference).collect()),
        },
        findings: Vec::new(),
    }
}

/// What holds for each port, and the reason for which each policy is not accepted.
fn judged(policies: Vec<BackendTlsFact>) -> (Vec<String>, Vec<String>) {
    let mut inputs = vec![bundle("ca", Ok("pem")), bundle("bad", Err("holds no certificate; put one in"))];
    inputs.extend(policies.into_iter().map(|policy| PolicyInput::Policy(Arc::new(policy))));
    let (mut ports, mut verdicts) = (Vec::new(), Vec::new());
    for output in judge(inputs.iter()) {
        match output {
            PolicyOutput::Holding(service, holding) => ports.extend(holding.iter().map(|(port, security)| {
                let port = port.as_ref().map(|port| format!(":{port}")).unwrap_or_default();
                let security = match security {
                    Security::Plain => "plain",
                    Security::Tls(policy) => policy.name(),
                    Security::Closed => "closed",
                };
                format!("{}{port} {security}", service.name())
            })),
            PolicyOutput::Standing(standing) => {
                let reason = standing.refused.as_ref().map_or("accepted", |(reason, _)| reason.as_str());
                let refs = standing.refs.iter().map(|finding| format!(" {}", finding.reason));
                verdicts.push(format!("{} {reason}{}", standing.fact.name.name(), refs.collect::<String>()));
            }
            PolicyOutput::Demand(..) => {}
        }
    }
    ports.sort();
    verdicts.sort();
    (ports, verdicts)
}

#[test]
fn the_older_policy_holds_and_the_narrower_one_for_its_port() {
    let (ports, verdicts) = judged(vec![
        policy("young", 2, &["cart"], &["ca"]),
        policy("b-old", 1, &["cart"], &["ca"]),
        policy("c-old", 1, &["cart"], &["ca"]),
        policy("port", 3, &["cart:https"], &[]),
        policy("half", 4, &["cart:https", "pay"], &["ca"]),
    ]);
    assert_eq!(ports, ["cart b-old", "cart:https port", "pay half"]);
    assert_eq!(verdicts, ["b-old accepted", "c-old Conflicted", "half accepted", "port accepted", "young Conflicted"]);
}

#[test]
fn a_policy_that_cannot_be_used_holds_and_lets_nothing_pass() {
    let broken = BackendTlsFact {
        findings: vec![Finding::new(Reason::UnsupportedValue, "spec", "no; do something else")],
        ..policy("broken", 1, &["a"], &["ca"])
    };
    let (ports, verdicts) = judged(vec![
        broken,
        policy("missing", 1, &["b"], &["nobody"]),
        policy("malformed", 1, &["c"], &["bad"]),
        policy("kind", 1, &["d"], &["?ca"]),
        policy("some", 1, &["e"], &["bad", "ca"]),
        policy("late", 2, &["b"], &["ca"]),
    ]);
    assert_eq!(ports, ["a closed", "b closed", "c closed", "d closed", "e some"]);
    assert_eq!(
        verdicts,
        [
            "broken Invalid",
            "kind NoValidCACertificate InvalidKind",
            "late Conflicted",
            "malformed NoValidCACertificate InvalidCACertificateRef",
            "missing NoValidCACertificate InvalidCACertificateRef",
            "some accepted InvalidCACertificateRef",
        ]
    );
}

#[test]
fn a_port_is_reached_as_the_policy_on_its_name_says_else_as_the_one_on_the_service() {
    let holding: Holding =
        [(None, Security::Closed), (Some("https".into()), Security::Tls(NamespacedName::new("shop", "p")))].into();
    assert_eq!(security(Some(&holding), &"https".into()), Security::Tls(NamespacedName::new("shop", "p")));
    assert_eq!(security(Some(&holding), &"".into()), Security::Closed);
    assert_eq!(security(None, &"https".into()), Security::Plain);
}
