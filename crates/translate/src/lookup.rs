//! The outer join of this crate: what is known of a key, for every key that somebody asks about.

use differential_dataflow::{ExchangeData, VecCollection};
use std::hash::Hash;
use tidegate_model::Epoch;

/// A collection at epochs.
pub(crate) type Rows<'s, D> = VecCollection<'s, Epoch, D, isize>;

/// For every key in `wanted`, `answer` of the values that it has, of none too.
///
/// `reduce` is not called for a key without rows, so each wanted key brings a marker (`None`, which sorts first).
/// Keys that nobody wants cost their arrangement and nothing else; more askers of one key only change the marker's
/// multiplicity, not the answer.
pub(crate) fn lookup<'s, K, V, A>(
    name: &str,
    wanted: Rows<'s, K>,
    values: Rows<'s, (K, V)>,
    answer: impl Fn(&[&V]) -> A + 'static,
) -> Rows<'s, (K, A)>
where
    K: ExchangeData + Hash,
    V: ExchangeData + Hash,
    A: ExchangeData,
{
    let values = values.map(|(key, value)| (key, Some(value)));
    wanted.map(|key| (key, None)).concat(values).reduce_named(name, move |_key, input, output| {
        if input[0].0.is_none() {
            let known: Vec<&V> = input[1..].iter().filter_map(|(value, _)| value.as_ref()).collect();
            output.push((answer(&known), 1));
        }
    })
}
