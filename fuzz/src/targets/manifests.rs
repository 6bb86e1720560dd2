//! Files of manifests. Whatever stands in them: no crash; the same every time; a mistake names its line and says what
//! follows; a file that is not whole changes nothing; and what was sent in the end is what a fresh start would send.

use super::Seen;
use crate::choices::Choices;
use crate::{mutate, render, seeds};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tidegate_log::Event;
use tidegate_model::ObjectKey;
use tidegate_sources::manifests::document::{self, Parsed};
use tidegate_sources::{Manifests, manifests::Found};

/// The files, in the order in which they count.
const FILES: [&str; 3] = ["a.yaml", "b.yaml", "c/d.json"];

/// The longest text that a problem may show, in bytes: people read it on a terminal, and logs keep it.
const MESSAGE_MAX: usize = 2000;

type Disk = BTreeMap<PathBuf, Vec<u8>>;

/// What is live, by what was sent of it, without the generation.
type Live = BTreeMap<ObjectKey, Value>;

/// Any bytes as one file.
pub(super) fn text(input: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let (first, second) = (document::parse(input), document::parse(input));
    assert_eq!(format!("{first:?}"), format!("{second:?}"), "read twice, the same bytes say two things");
    check_parsed(&first, input, &mut seen);
    let mut play = Play::new();
    play.look(vec![(PathBuf::from(FILES[0]), Some(input.to_vec()))], &mut seen);
    play.finish();
    seen
}

/// A directory of files that change, seen at several looks.
pub(super) fn directory(input: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut choices = Choices::new(input);
    let mut play = Play::new();
    for _ in 0..2 + choices.below(3) {
        let mut changed = Vec::new();
        for _ in 0..1 + choices.below(2) {
            let path = PathBuf::from(*choices.pick(&FILES));
            let contents = match choices.below(12) {
                11 => None,
                10 => Some(Vec::new()),
                _ => Some(contents(&mut choices, &mut play.hidden)),
            };
            changed.retain(|(other, _): &(PathBuf, _)| *other != path);
            changed.push((path, contents));
        }
        play.look(changed, &mut seen);
    }
    play.finish();
    seen
}

/// A file of some objects, most of them changed. `hidden` ends where key material gets out of where it belongs.
fn contents(choices: &mut Choices<'_>, hidden: &mut bool) -> Vec<u8> {
    let objects = seeds::objects();
    let mut values = Vec::new();
    for _ in 0..1 + choices.below(3) {
        let (object, other) = (choices.pick(objects), choices.pick(objects));
        let mut value = if choices.chance(10) { seeds::secret() } else { (*object.body).clone() };
        for _ in 0..choices.below(6).saturating_sub(2) {
            mutate::mutate(&mut value, &other.body, choices);
        }
        let mut without = value.clone();
        if let Some(fields) = without.as_object_mut() {
            fields.remove("data");
            fields.remove("stringData");
        }
        *hidden &= !without.to_string().contains(seeds::MATERIAL);
        values.push(value);
    }
    if choices.chance(10) {
        values = vec![serde_json::json!({"apiVersion": "v1", "kind": "List", "items": values})];
    }
    let wild = choices.chance(50);
    render::file(&values, wild, choices)
}

/// A directory and what is known of it.
struct Play {
    manifests: Manifests,
    disk: Disk,
    live: Live,
    looks: u32,
    /// Key material stood only where it belongs.
    hidden: bool,
}

impl Play {
    fn new() -> Self {
        let manifests = Manifests::with_admission(Some(tidegate_normalize::admit));
        Play { manifests, disk: Disk::new(), live: Live::new(), looks: 0, hidden: true }
    }

    /// Changes files and looks at them.
    fn look(&mut self, changed: Vec<(PathBuf, Option<Vec<u8>>)>, seen: &mut Seen) {
        let mut found = Vec::new();
        for (path, contents) in changed {
            match &contents {
                Some(contents) => drop(self.disk.insert(path.clone(), contents.clone())),
                None => drop(self.disk.remove(&path)),
            }
            found.push((path, contents.map_or(Found::Gone, Found::Contents)));
        }
        let disk = &self.disk;
        let events = self.manifests.look(found, &mut |path| read(disk, path));
        for event in &events {
            self.check_event(event, seen);
            apply(event, &mut self.live);
        }
        assert_eq!(self.manifests.len(), self.live.len(), "what was sent is not what is counted");
        self.looks += 1;
        self.check_problems(seen);
        for kind in self.manifests.take_unknown_kinds() {
            assert!(kind.len() <= MESSAGE_MAX, "a kind of {} bytes is noted", kind.len());
            seen.note("unknown kind");
        }
    }

    fn check_event(&self, event: &Event, seen: &mut Seen) {
        let key = match event {
            Event::Apply(object) => {
                let line = serde_json::to_vec(event).expect("an event can be written");
                let again: Event = serde_json::from_slice(&line).unwrap_or_else(|error| {
                    panic!("the log line of {} cannot be read: {error}", object.key);
                });
                assert_eq!(again, *event, "{} comes back from the log otherwise", object.key);
                seen.note(&format!("apply {}", object.key.kind));
                &object.key
            }
            Event::Delete(key) => {
                seen.note(&format!("delete {}", key.kind));
                key
            }
            _ => return,
        };
        let whole = |contents: &Vec<u8>| {
            let parsed = document::parse(contents);
            (is_whole(&parsed) || self.looks == 0) && parsed.objects.iter().any(|object| object.object.key == *key)
        };
        let there = self.disk.values().any(whole);
        let applied = matches!(event, Event::Apply(_));
        assert_eq!(there, applied, "{event:?}, and files that are whole and have the object: {there}");
    }

    fn check_problems(&self, seen: &mut Seen) {
        for problem in self.manifests.problems() {
            seen.note(&format!("{}: {}", shape(&problem.field), problem.message));
            let shown = problem.to_string();
            assert!(self.disk.contains_key(&problem.path), "no such file: {shown}");
            let lines = lines(&self.disk[&problem.path]);
            // Where an object of a file stands that is not whole is known from when it was.
            let of_before = problem.message.starts_with("also in ");
            assert!(problem.line <= lines || of_before, "{shown}: the file has {lines} lines");
            assert!(problem.line > 0 || is_about_all(&problem.message), "no line: {shown}");
            assert!(!self.hidden || !shown.contains(seeds::MATERIAL), "key material is shown: {shown}");
            assert!((problem.column > 0) == (problem.line > 0), "no column: {shown}");
            check_text(&problem.message);
            assert!(problem.field.len() <= MESSAGE_MAX, "a field of {} bytes is shown", problem.field.len());
            let says_what_to_do = problem.message.contains("; ") || problem.message.contains("must be");
            assert!(says_what_to_do, "does not say what follows: {shown}");
        }
    }

    /// A fresh start sends the same, if nothing is wrong.
    fn finish(&self) {
        if !self.manifests.problems().is_empty() {
            return;
        }
        let mut fresh = Manifests::with_admission(Some(tidegate_normalize::admit));
        let found = self.disk.iter().map(|(path, contents)| (path.clone(), Found::Contents(contents.clone())));
        let mut live = Live::new();
        for event in fresh.look(found, &mut |path| read(&self.disk, path)) {
            apply(&event, &mut live);
        }
        assert_eq!(live, self.live, "a fresh start sends something else");
    }
}

fn read(disk: &Disk, path: &Path) -> Found {
    disk.get(path).map_or(Found::Gone, |contents| Found::Contents(contents.clone()))
}

fn apply(event: &Event, live: &mut Live) {
    match event {
        Event::Apply(object) => {
            let mut body = (*object.body).clone();
            let generation = body["metadata"].as_object_mut().and_then(|metadata| metadata.remove("generation"));
            assert!(generation.is_some_and(|generation| generation.as_i64() >= Some(1)), "{}", object.key);
            live.insert(object.key.clone(), body);
        }
        Event::Delete(key) => assert!(live.remove(key).is_some(), "{key} is deleted and was not there"),
        _ => {}
    }
}

fn is_whole(parsed: &Parsed) -> bool {
    parsed.mistakes.is_empty()
        && parsed.objects.iter().all(|object| tidegate_normalize::admit(&object.object).is_empty())
}

fn check_parsed(parsed: &Parsed, contents: &[u8], seen: &mut Seen) {
    for mistake in &parsed.mistakes {
        seen.note(&format!("{}: {}", shape(&mistake.field), mistake.message));
        assert!(mistake.line > 0 || is_about_all(&mistake.message), "{mistake:?}");
        assert!(mistake.line <= lines(contents) && (mistake.column > 0) == (mistake.line > 0), "{mistake:?}");
        check_text(&mistake.message);
    }
    for located in &parsed.objects {
        assert!(located.line > 0 && located.line <= lines(contents) && located.column > 0, "{}", located.object.key);
        seen.note(located.object.key.kind.as_str());
    }
}

/// What concerns a file as a whole has no line.
fn is_about_all(message: &str) -> bool {
    ["the file is empty", "the text cannot be read"].iter().any(|start| message.starts_with(start))
}

/// One line, of a length that can be shown.
fn check_text(text: &str) {
    assert!(!text.is_empty() && text.len() <= MESSAGE_MAX, "a message of {} bytes", text.len());
    assert!(!text.chars().any(char::is_control), "control characters in {text:?}");
}

/// Lines of a text, however they end; a file that ends with an end of line has one more, where its end is found.
fn lines(contents: &[u8]) -> u64 {
    1 + contents.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() as u64
}

/// A field without its numbers and without what the user made up.
fn shape(field: &str) -> String {
    field.chars().filter(|c| c.is_ascii_alphabetic() || matches!(c, '.' | '[')).take(60).collect()
}
