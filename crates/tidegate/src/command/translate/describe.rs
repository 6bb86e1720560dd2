//! The status for people: what is wrong first, with the file and line where to change it.

use super::judge::{self, Judgement, Severity, text as string};
use super::world::World;
use crate::app::view::key_of;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_model::{Kind, ObjectKey};
use tidegate_sources::manifests::unread::instead_of;

/// How many things of the same sort are told of an object; `-o json` has all of them.
const MAX_ALIKE: usize = 5;

/// What there is to say about everything.
pub(super) fn text(world: &World, judgement: &Judgement) -> String {
    let mut page = String::new();
    for mistake in &judgement.whole {
        page.push_str(&format!("ERROR {mistake}\n\n"));
    }
    let (bad, good): (Vec<_>, Vec<_>) =
        judgement.objects.iter().copied().partition(|(severity, _)| *severity == Severity::Error);
    for (severity, index) in bad {
        page.push_str(&object(world, severity, &world.objects[index]));
    }
    for (key, why) in strangers(world) {
        page.push_str(&format!("note  {}\n        {why}\n\n", named(world, &key)));
    }
    for (kind, advice) in world.unknown_kinds.iter().filter_map(|kind| Some((kind, instead_of(kind)?))) {
        page.push_str(&format!("note  {kind}\n        is not read: {advice}\n\n"));
    }
    for (severity, index) in good {
        page.push_str(&object(world, severity, &world.objects[index]));
    }
    page.push_str(&rest(world));
    page
}

/// One object: where it is, its conditions, what else there is to say. `!` marks what is wrong.
fn object(world: &World, severity: Severity, object: &Value) -> String {
    let Some(key) = key_of(object) else { return String::new() };
    let word = match severity {
        Severity::Error => "ERROR",
        Severity::Warning => "warn ",
        Severity::Fine => "ok   ",
    };
    let mut page = findings(world, object);
    let mut blocks = judge::blocks(object).into_iter().peekable();
    while let Some(block) = blocks.next() {
        let lines: Vec<String> = block.conditions.iter().map(line).collect();
        let indent = if block.title.is_empty() {
            ""
        } else {
            page.push_str(&format!("        {}\n", block.title));
            "  "
        };
        page.extend(lines.iter().map(|line| format!("      {indent}{line}\n")));
        // Of many that are wrong alike the first says it all.
        let is_bad = block.conditions.iter().any(judge::is_bad);
        let mut alike = Vec::new();
        while let Some(next) = blocks.next_if(|next| next.conditions.iter().map(line).eq(lines.iter().cloned())) {
            alike.push(next.title);
        }
        if is_bad && alike.len() > MAX_ALIKE {
            page.push_str(&format!("        and {} more with the same conditions\n", alike.len()));
        } else {
            for title in alike {
                page.push_str(&format!("        {title}\n"));
                page.extend(lines.iter().map(|line| format!("      {indent}{line}\n")));
            }
        }
    }
    let refused = world.refused_in(&page);
    page.extend(refused.into_iter().map(|refused| format!("      ! {refused}\n")));
    format!("{word} {}\n{page}\n", named(world, &key))
}

/// The findings of an object, of each reason the first few.
fn findings(world: &World, object: &Value) -> String {
    let mut page = String::new();
    let mut told: BTreeMap<(bool, &str), usize> = BTreeMap::new();
    for finding in judge::findings(object) {
        let is_error = judge::is_error(world, object, finding);
        let reason = finding["reason"].as_str().unwrap_or_default();
        let count = told.entry((is_error, reason)).or_default();
        *count += 1;
        if *count <= MAX_ALIKE {
            let mark = if is_error { "!" } else { "-" };
            page.push_str(&format!("      {mark} {} ({reason})\n", judge::told(finding)));
        }
    }
    for ((is_error, reason), count) in told.into_iter().filter(|(_, count)| *count > MAX_ALIKE) {
        let mark = if is_error { "!" } else { "-" };
        page.push_str(&format!("      {mark} and {} more ({reason})\n", count - MAX_ALIKE));
    }
    page
}

/// A condition in columns.
fn line(condition: &Value) -> String {
    let [kind, status, reason, message] =
        ["type", "status", "reason", "message"].map(|field| string(&condition[field]));
    let mark = if judge::is_bad(condition) { "!" } else { " " };
    format!("{mark} {kind:<12} {status:<7} {reason:<16} {message}")
}

fn named(world: &World, key: &ObjectKey) -> String {
    let place = world.place(key);
    if place.is_empty() { key.to_string() } else { format!("{key}  {place}") }
}

/// Objects that would have a status if they were ours, and why they are not.
fn strangers(world: &World) -> Vec<(ObjectKey, String)> {
    let ours: BTreeSet<ObjectKey> = world.objects.iter().filter_map(key_of).collect();
    let why = |(key, body): (&ObjectKey, &Arc<Value>)| {
        let spec = &body["spec"];
        let why = if ours.contains(key) {
            return None;
        } else if key.kind == Kind::GatewayClass {
            let controller = string(&spec["controllerName"]);
            format!("spec.controllerName is {controller}, not {}: its Gateways are not served", world.controller)
        } else if key.kind == Kind::Gateway {
            let class = string(&spec["gatewayClassName"]);
            format!("its GatewayClass {class} belongs to another controller: it is not served")
        } else {
            return None;
        };
        Some((key.clone(), why))
    };
    world.manifests.iter().filter_map(why).collect()
}

/// How many objects of each kind there is nothing to say about.
fn rest(world: &World) -> String {
    let mut silent: BTreeMap<Kind, usize> = BTreeMap::new();
    let told: BTreeSet<ObjectKey> = world.objects.iter().filter_map(key_of).collect();
    for key in world.manifests.keys().filter(|key| !told.contains(*key)) {
        if key.kind != Kind::GatewayClass && key.kind != Kind::Gateway {
            *silent.entry(key.kind).or_default() += 1;
        }
    }
    if silent.is_empty() {
        return String::new();
    }
    let kinds: Vec<String> = silent.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
    format!("Nothing to say about: {}\n", kinds.join(", "))
}
