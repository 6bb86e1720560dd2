//! The dataflow as it is drawn: operators by stage of the translation, and what goes between them.
//!
//! The dataflow itself knows no stages; the Rust types on its channels do, for each stage has a module of its own. An
//! operator belongs to the stage whose rows it makes; one that only passes on what is nobody's own, to that of what it
//! gets.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use tidegate_engine::{Channel, Picture, Profiler};

/// The stages in the order of the walk. Modules that are in no stage of this list follow it.
pub(crate) const STAGES: [&str; 20] = [
    "facts",
    "references",
    "certificates",
    "authorities",
    "policies",
    "backends",
    "labels",
    "gateways",
    "attach",
    "rivals",
    "lower",
    "streams",
    "sockets",
    "hold",
    "published",
    "assemble",
    "endpoints",
    "identity",
    "status",
    "rows",
];

/// A dataflow and what it did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drawing {
    /// In which situation.
    pub title: String,
    /// Epochs that were derived.
    pub epochs: u64,
    /// Operators, by address.
    pub operators: Vec<Node>,
    /// What goes between them.
    pub channels: Vec<Edge>,
}

/// An operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Indexes from the outermost scope inwards.
    pub address: Vec<usize>,
    /// Its name.
    pub name: String,
    /// The stage of the translation.
    pub stage: String,
    /// Time in it, in microseconds an epoch.
    pub self_us: f64,
    /// How often it ran, an epoch.
    pub calls: f64,
    /// Updates that its arrangement holds.
    pub arranged: u64,
    /// Batches in which they are.
    pub batches: u64,
}

/// A way between two operators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// The index of the operator that sends.
    pub source: usize,
    /// The index of the one that receives.
    pub target: usize,
    /// What is sent.
    pub data: String,
    /// Messages an epoch.
    pub messages: f64,
    /// Updates in them, an epoch.
    pub records: f64,
}

impl Drawing {
    /// Draws what a dataflow did after its first epoch, and that one.
    #[must_use]
    pub fn both(profiler: &Profiler) -> Vec<Drawing> {
        let later = Drawing::new("epochs after the first", &profiler.look());
        vec![later, Drawing::new("cold start", &profiler.first())]
    }

    /// Draws what a dataflow did.
    #[must_use]
    pub fn new(title: &str, picture: &Picture) -> Self {
        let epochs = picture.epochs.max(1) as f64;
        let index: BTreeMap<&[usize], usize> =
            picture.operators.iter().enumerate().map(|(index, of)| (of.address.as_slice(), index)).collect();
        let ends = |channel: &Channel| Some((*index.get(&*channel.source)?, *index.get(&*channel.target)?));
        let channels: Vec<(usize, usize, &Channel)> = picture
            .channels
            .iter()
            .filter_map(|channel| ends(channel).map(|(source, target)| (source, target, channel)))
            .collect();
        let stages = stages(picture.operators.len(), &channels);
        let operators = picture.operators.iter().zip(stages).map(|(of, stage)| Node {
            address: of.address.clone(),
            name: of.name.clone(),
            stage,
            self_us: of.busy.as_secs_f64() * 1e6 / epochs,
            calls: of.calls as f64 / epochs,
            arranged: of.arranged,
            batches: of.batches,
        });
        let edges = channels.iter().map(|(source, target, channel)| Edge {
            source: *source,
            target: *target,
            data: short_type(&channel.data),
            messages: channel.messages as f64 / epochs,
            records: channel.records as f64 / epochs,
        });
        Drawing {
            title: title.to_owned(),
            epochs: picture.epochs,
            operators: operators.collect(),
            channels: edges.collect(),
        }
    }

    /// Time in all operators, in microseconds an epoch.
    #[must_use]
    pub fn total_us(&self) -> f64 {
        self.operators.iter().map(|operator| operator.self_us).sum()
    }

    /// The indexes of the operators, the dearest first.
    #[must_use]
    pub fn dearest(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.operators.len()).collect();
        order.sort_by(|a, b| self.operators[*b].self_us.total_cmp(&self.operators[*a].self_us).then(a.cmp(b)));
        order
    }

    /// Folded stacks for flame graphs: situation, stage, operator, and nanoseconds an epoch.
    #[must_use]
    pub fn folded(&self) -> String {
        let frame = |text: &str| text.replace([';', '\n'], ",");
        let mut text = String::new();
        for operator in &self.operators {
            let address = operator.address.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
            let nanos = (operator.self_us * 1e3).round();
            let _always_fits = writeln!(
                text,
                "{};{};{} [{address}] {nanos}",
                frame(&self.title),
                frame(&operator.stage),
                frame(&operator.name)
            );
        }
        text
    }
}

/// The stage of each operator: of what it makes, else of what it gets, else that of whoever sends to it.
fn stages(count: usize, channels: &[(usize, usize, &Channel)]) -> Vec<String> {
    let mut stages: Vec<Option<String>> = vec![None; count];
    for (source, _, channel) in channels {
        if let Some(stage) = stage_of(&channel.data) {
            stages[*source].get_or_insert(stage);
        }
    }
    for (_, target, channel) in channels {
        if let Some(stage) = stage_of(&channel.data) {
            stages[*target].get_or_insert(stage);
        }
    }
    // What nobody sends to is where facts come in.
    let mut receives = vec![false; count];
    channels.iter().for_each(|(_, target, _)| receives[*target] = true);
    for (stage, receives) in stages.iter_mut().zip(&receives) {
        if !receives {
            *stage = Some("facts".to_owned());
        }
    }
    // As long as something is learned: at most once for each operator.
    for _ in 0..count {
        let mut learned = false;
        for (source, target, _) in channels {
            if stages[*target].is_none() && stages[*source].is_some() {
                stages[*target] = stages[*source].clone();
                learned = true;
            }
        }
        if !learned {
            break;
        }
    }
    stages.into_iter().map(|stage| stage.unwrap_or_else(|| "facts".to_owned())).collect()
}

/// The stage whose own type this is.
fn stage_of(data: &str) -> Option<String> {
    if let Some((_, rest)) = data.split_once("tidegate_translate::") {
        return rest.split("::").next().map(str::to_owned);
    }
    data.contains("tidegate_xds::row::Row").then(|| "rows".to_owned())
}

/// A Rust type without the paths of its names, and of a container of updates only what one update is.
fn short_type(data: &str) -> String {
    let mut short = String::new();
    let mut name = String::new();
    for character in data.chars() {
        if character.is_alphanumeric() || character == '_' {
            name.push(character);
        } else if character == ':' {
            name.clear();
        } else {
            short.push_str(&name);
            name.clear();
            short.push(character);
        }
    }
    short.push_str(&name);
    let row = short.strip_prefix("Vec<(").and_then(|rest| rest.strip_suffix(", u64, isize)>"));
    row.map_or(short.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate_engine::Operator;

    fn picture() -> Picture {
        let operator = |index: usize, name: &str| Operator {
            name: name.to_owned(),
            address: vec![0, index],
            calls: 4,
            busy: Duration::from_micros(index as u64 * 10),
            ..Operator::default()
        };
        let channel = |source: usize, target: usize, data: &str| Channel {
            source: vec![0, source],
            target: vec![0, target],
            data: format!("alloc::vec::Vec<({data}, u64, isize)>"),
            messages: 2,
            records: 6,
        };
        Picture {
            operators: vec![operator(1, "Input"), operator(2, "FlatMap"), operator(3, "a; b"), operator(4, "Inspect")],
            channels: vec![
                channel(1, 2, "alloc::sync::Arc<tidegate_model::fact::RouteFact>"),
                channel(2, 3, "(tidegate_model::name::RouteKey, tidegate_translate::lower::RouteInput)"),
                channel(3, 4, "tidegate_xds::row::Row"),
            ],
            epochs: 2,
        }
    }

    #[test]
    fn operators_are_in_the_stage_whose_rows_they_make() {
        let drawing = Drawing::new("change", &picture());
        let stages: Vec<&str> = drawing.operators.iter().map(|operator| operator.stage.as_str()).collect();
        assert_eq!(stages, ["facts", "lower", "rows", "rows"]);
        assert_eq!(drawing.channels[0].data, "Arc<RouteFact>");
        assert_eq!(drawing.channels[1].data, "(RouteKey, RouteInput)");
        assert_eq!((drawing.channels[0].messages, drawing.channels[0].records), (1.0, 3.0));
        assert_eq!((drawing.operators[2].self_us, drawing.operators[2].calls), (15.0, 2.0));
        assert_eq!(drawing.dearest(), [3, 2, 1, 0]);
        assert_eq!(drawing.total_us(), 50.0);
    }

    #[test]
    fn folded_stacks_have_frames_and_a_count_on_each_line() {
        let folded = Drawing::new("change", &picture()).folded();
        assert_eq!(folded.lines().count(), 4);
        for line in folded.lines() {
            let (frames, count) = line.rsplit_once(' ').unwrap();
            assert_eq!(frames.split(';').count(), 3, "{line}");
            assert!(count.parse::<u64>().is_ok(), "{line}");
        }
        assert!(folded.contains("change;rows;a, b [0.3] 15000\n"), "{folded}");
    }
}
