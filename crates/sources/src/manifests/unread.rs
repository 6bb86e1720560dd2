//! Kinds that are not read, and what to write in their place.

/// The group of the kinds that the Gateway API tries out.
const EXPERIMENTS: &str = "gateway.networking.x-k8s.io/";

/// What to use instead of a kind that is not read, written `apiVersion kind`; none if it does not concern the Gateway API.
#[must_use]
pub fn instead_of(unread: &str) -> Option<&'static str> {
    let (_, kind) = unread.strip_prefix(EXPERIMENTS)?.split_once(' ')?;
    Some(match kind {
        "XListenerSet" => "use kind ListenerSet of gateway.networking.k8s.io/v1, which has the same fields",
        "XBackend" => "use a Service; for an address outside of the cluster, with an EndpointSlice made by hand",
        "XBackendTrafficPolicy" => {
            "use retry and sessionPersistence in the rules of an HTTPRoute; there is no budget of retries"
        }
        "XMesh" => "remove it: Gateways are served, and no mesh",
        _ => "remove it: experimental kinds of the Gateway API are not served",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experimental_kind_has_something_in_its_place() {
        let advice = |unread| instead_of(unread).unwrap_or_default();
        assert!(advice("gateway.networking.x-k8s.io/v1alpha1 XListenerSet").contains("kind ListenerSet"));
        assert!(advice("gateway.networking.x-k8s.io/v1alpha1 XBackend").contains("a Service"));
        assert!(advice("gateway.networking.x-k8s.io/v1alpha1 XNew").contains("experimental"));
        assert_eq!(instead_of("apps/v1 Deployment"), None);
    }
}
