//! When a request is tried again, and how long a try may take.

use super::duration;
use crate::ir;
use tidegate_model::RetryFact;
use tidegate_proto::envoy::config::route::v3::RetryPolicy;
use tidegate_proto::envoy::config::route::v3::retry_policy::{
    RetryBackOff, RetryHostPredicate, retry_host_predicate::ConfigType,
};
use tidegate_proto::envoy::extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate;
use tidegate_proto::google::protobuf::UInt32Value;
use tidegate_proto::pack;

/// How many tries follow the first one where nobody says.
const ATTEMPTS: u32 = 1;

/// How often another endpoint is looked for before one is asked again that was already.
const OTHER_ENDPOINT: i64 = 5;

/// The policy of what is forwarded; none if there is nothing to say.
pub(super) fn policy(to: &ir::Forward) -> Option<RetryPolicy> {
    let limit = to.try_timeout.filter(|limit| *limit > 0);
    if limit.is_none() && to.retry.is_none() {
        return None;
    }
    // The limit of a try stands in the retry policy, and is kept there (504) without any retry too.
    let per_try_timeout = limit.map(duration);
    Some(match &to.retry {
        None => RetryPolicy { num_retries: Some(UInt32Value { value: 0 }), per_try_timeout, ..RetryPolicy::default() },
        Some(retry) => RetryPolicy { per_try_timeout, ..again(retry) },
    })
}

fn again(retry: &RetryFact) -> RetryPolicy {
    // No answer at all: no connection, a broken one, or a try that took too long.
    let mut retry_on = "reset".to_owned();
    if !retry.codes.is_empty() {
        retry_on.push_str(",retriable-status-codes");
    }
    let another = RetryHostPredicate {
        name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
        config_type: Some(ConfigType::TypedConfig(pack(&PreviousHostsPredicate::default()))),
    };
    RetryPolicy {
        retry_on,
        num_retries: Some(UInt32Value { value: retry.attempts.unwrap_or(ATTEMPTS) }),
        retriable_status_codes: retry.codes.iter().map(|code| u32::from(*code)).collect(),
        // A field rule: above 0.
        retry_back_off: retry
            .backoff
            .map(|backoff| RetryBackOff { base_interval: Some(duration(backoff.max(1))), ..RetryBackOff::default() }),
        retry_host_predicate: vec![another],
        host_selection_retry_max_attempts: OTHER_ENDPOINT,
        ..RetryPolicy::default()
    }
}
