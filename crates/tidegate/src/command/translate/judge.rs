//! What counts as an error: the exit code, and what is shown first. `translate --help` says it in words.

use super::world::World;
use crate::app::view::key_of;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use tidegate_model::{Kind, ObjectKey, Reason, plain};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// Something is not served as it is written.
    Error,
    /// It is served, and something is worth saying.
    Warning,
    /// Nothing to say.
    Fine,
}

/// An error, for a list: where, what, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mistake(pub(super) String);

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The verdict on everything.
pub(super) struct Judgement {
    /// Each object of [`World::objects`] by its index, the worst first.
    pub(super) objects: Vec<(Severity, usize)>,
    /// Errors that are none of an object's.
    pub(super) whole: Vec<Mistake>,
    of_objects: Vec<Mistake>,
}

impl Judgement {
    /// Judges everything.
    pub(super) fn of(world: &World) -> Judgement {
        let judged = world.objects.iter().map(|object| severity(world, object));
        let mut objects: Vec<(Severity, usize)> = judged.zip(0..).collect();
        objects.sort_unstable();
        let worst = objects.iter().filter(|(severity, _)| *severity == Severity::Error);
        let of_objects: Vec<Mistake> = worst.map(|(_, index)| first_mistake(world, &world.objects[*index])).collect();
        let mut whole: Vec<Mistake> = world.problems.iter().map(|problem| Mistake(problem.to_string())).collect();
        let bugs = world.violations.iter();
        whole.extend(bugs.map(|bug| Mistake(format!("the result breaks a guarantee, which is a bug: {bug}"))));
        let has_gateways = world.manifests.keys().any(|key| key.kind == Kind::Gateway);
        if has_gateways && world.sealed.gateways.is_empty() && whole.is_empty() && of_objects.is_empty() {
            let text = format!(
                "no Gateway is served: none in the directory is of a class of {}; correct spec.controllerName of the class, or \
                 see --controller",
                world.controller
            );
            whole.push(Mistake(text));
        }
        Judgement { objects, whole, of_objects }
    }

    /// Every error, one line each.
    pub(super) fn errors(&self) -> impl Iterator<Item = &Mistake> {
        self.whole.iter().chain(&self.of_objects)
    }

    /// One line about all of it.
    pub(super) fn summary(&self, world: &World) -> String {
        let warnings = self.objects.iter().filter(|(severity, _)| *severity == Severity::Warning).count();
        let mut summary = format!(
            "{}, {} served, {}, {}",
            counted(world.manifests.len(), "object"),
            counted(served(world), "Gateway"),
            counted(self.errors().count(), "error"),
            counted(warnings, "warning"),
        );
        if !world.unknown_kinds.is_empty() {
            summary.push_str(&format!(", not read: {}", world.unknown_kinds.join(", ")));
        }
        summary
    }
}

/// The Gateways at which anything can come in.
fn served(world: &World) -> usize {
    world.sealed.gateways.values().filter(|view| !view.listeners.is_empty()).count()
}

fn counted(number: usize, what: &str) -> String {
    match number {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

fn severity(world: &World, object: &Value) -> Severity {
    let findings = findings(object);
    if blocks(object).iter().flat_map(|block| block.conditions).any(is_bad)
        || findings.iter().any(|finding| is_error(world, object, finding))
    {
        Severity::Error
    } else if findings.is_empty() && !blocks(object).iter().flat_map(|block| block.conditions).any(is_open) {
        Severity::Fine
    } else {
        Severity::Warning
    }
}

/// Conditions that belong together.
pub(super) struct Block<'o> {
    /// Whose they are, empty for those of the object itself.
    pub(super) title: String,
    pub(super) conditions: &'o [Value],
}

/// Every condition of an object, where it stands.
pub(super) fn blocks(object: &Value) -> Vec<Block<'_>> {
    let status = &object["status"];
    let mut blocks = Vec::new();
    if !slice(&status["conditions"]).is_empty() {
        blocks.push(Block { title: String::new(), conditions: slice(&status["conditions"]) });
    }
    for listener in slice(&status["listeners"]) {
        let routes = listener["attachedRoutes"].as_u64().unwrap_or_default();
        let title = format!("listener {}, attached routes: {routes}", text(&listener["name"]));
        blocks.push(Block { title, conditions: slice(&listener["conditions"]) });
    }
    for parent in slice(&status["parents"]) {
        blocks.push(Block { title: title("parent", &parent["parentRef"]), conditions: slice(&parent["conditions"]) });
    }
    for ancestor in slice(&status["ancestors"]) {
        let title = title("through", &ancestor["ancestorRef"]);
        blocks.push(Block { title, conditions: slice(&ancestor["conditions"]) });
    }
    blocks
}

/// A reference to another object.
fn title(how: &str, reference: &Value) -> String {
    let mut title = format!("{how} {} ", text(&reference["kind"]));
    if reference["namespace"].is_string() {
        title.push_str(&format!("{}/", text(&reference["namespace"])));
    }
    title.push_str(&text(&reference["name"]));
    if reference["sectionName"].is_string() {
        title.push_str(&format!(", listener {}", text(&reference["sectionName"])));
    }
    if let Some(port) = reference["port"].as_u64() {
        title.push_str(&format!(", port {port}"));
    }
    title
}

/// The findings of an object that no condition repeats.
pub(super) fn findings(object: &Value) -> Vec<&Value> {
    let blocks = blocks(object);
    let messages: Vec<Cow<'_, str>> =
        blocks.iter().flat_map(|block| block.conditions).map(|condition| text(&condition["message"])).collect();
    slice(&object["findings"])
        .iter()
        .filter(|finding| {
            let (field, message) = (text(&finding["field"]), text(&finding["message"]));
            !messages.iter().any(|told| told.contains(&*field) && told.contains(&*message))
        })
        .collect()
}

/// Whether a condition says that something is not as it should be. Other types are information.
pub(super) fn is_bad(condition: &Value) -> bool {
    match &*text(&condition["type"]) {
        "Accepted" | "ResolvedRefs" => text(&condition["status"]) != "True",
        "Programmed" => text(&condition["status"]) == "False",
        "Conflicted" => text(&condition["status"]) != "False",
        _ => false,
    }
}

/// Whether nobody here knows if a condition holds.
fn is_open(condition: &Value) -> bool {
    text(&condition["status"]) == "Unknown"
}

/// Whether a finding that leads to no condition is an error: a reference that leads nowhere.
pub(super) fn is_error(world: &World, object: &Value, finding: &Value) -> bool {
    let reason = text(&finding["reason"]);
    if reason == Reason::NoMatchingParent.as_str() {
        // A Gateway of another controller is not ours to miss.
        let parent = key_of(object).and_then(|object| world.parent_of(&object, &text(&finding["field"])));
        return parent.is_none_or(|parent| !world.manifests.contains_key(&parent));
    }
    [Reason::Pending, Reason::Invalid, Reason::KindUnreadable].iter().any(|error| error.as_str() == reason)
}

/// The error of an object that says most: a condition that is not about what follows, else a finding.
fn first_mistake(world: &World, object: &Value) -> Mistake {
    let name = |key: &ObjectKey| {
        let place = world.place(key);
        if place.is_empty() { key.to_string() } else { format!("{place}: {key}") }
    };
    let name = key_of(object).map(|key| name(&key)).unwrap_or_default();
    let blocks = blocks(object);
    let bad = || blocks.iter().flat_map(|block| block.conditions).filter(|condition| is_bad(condition));
    let cause = bad().find(|condition| condition["type"] != "Programmed").or_else(|| bad().next());
    let said = match cause {
        Some(condition) => {
            let [kind, status, reason, message] =
                ["type", "status", "reason", "message"].map(|field| text(&condition[field]));
            format!("{kind} is {status}, {reason}: {message}")
        }
        None => {
            let finding = findings(object).into_iter().find(|finding| is_error(world, object, finding));
            finding.map(told).unwrap_or_default()
        }
    };
    let refused = world.refused_in(&said).into_iter().map(|refused| format!("; {refused}"));
    Mistake(format!("{name}: {said}{}", refused.collect::<String>()))
}

/// A finding as a sentence.
pub(super) fn told(finding: &Value) -> String {
    let (field, message) = (text(&finding["field"]), text(&finding["message"]));
    if field.is_empty() { message.into_owned() } else { format!("{field}: {message}") }
}

/// A text as people are shown it, whatever a user wrote.
pub(super) fn text(value: &Value) -> Cow<'_, str> {
    plain(value.as_str().unwrap_or_default())
}

fn slice(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
