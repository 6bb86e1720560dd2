//! What brings a client back to the endpoint that it was at.
//!
//! Envoy writes the endpoint into a cookie or header of the answer and reads it from the next request. It chooses among
//! the endpoints of one cluster only: the cluster is chosen before, by weight. An endpoint that is gone is replaced.

use super::duration;
use super::headers::is_clean;
use crate::ir;
use tidegate_model::SessionCarrier;
use tidegate_proto::envoy::config::core::v3::TypedExtensionConfig;
use tidegate_proto::envoy::extensions::filters::http::stateful_session::v3::{
    StatefulSession, StatefulSessionPerRoute, stateful_session_per_route::Override,
};
use tidegate_proto::envoy::extensions::http::stateful_session::cookie::v3::CookieBasedSessionState;
use tidegate_proto::envoy::extensions::http::stateful_session::header::v3::HeaderBasedSessionState;
use tidegate_proto::envoy::r#type::http::v3::Cookie;
use tidegate_proto::{Any, pack};

/// The settings of the filter; none for a name that nothing can be called.
pub(super) fn per_route(session: &ir::Session) -> Option<StatefulSessionPerRoute> {
    if session.name.is_empty() || !is_clean(&session.name) {
        return None;
    }
    let state = match session.carrier {
        SessionCarrier::Cookie { lifetime } => {
            let cookie = Cookie {
                name: session.name.to_string(),
                // Without a time of its own a cookie ends with the client.
                ttl: Some(duration(lifetime.unwrap_or(0))),
                path: session.path.to_string(),
                ..Cookie::default()
            };
            state("envoy.http.stateful_session.cookie", pack(&CookieBasedSessionState { cookie: Some(cookie) }))
        }
        SessionCarrier::Header => {
            let header = HeaderBasedSessionState { name: session.name.to_string() };
            state("envoy.http.stateful_session.header", pack(&header))
        }
    };
    let stateful = StatefulSession { session_state: Some(state), ..StatefulSession::default() };
    Some(StatefulSessionPerRoute { r#override: Some(Override::StatefulSession(stateful)) })
}

fn state(name: &str, config: Any) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.to_owned(), typed_config: Some(config) }
}
