//! What the files mean together: pure, without a file system and without a clock.

use super::document::{self, Located, Mistake, Parsed};
use super::problem::Problem;
use super::provenance::{Place, Provenance};
use blake3::Hash;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_log::{Event, Object};
use tidegate_model::{Finding, Kind, ObjectKey};
use tidegate_vault::{Material, Vault};

/// What an API server would refuse an object for; empty for one that it would take. Given from outside: the rules of
/// the kinds are not a source's business, but that a refused object changes nothing is.
pub type Admission = fn(&Object) -> Vec<Finding>;

/// How many kinds that are not read are remembered, so that each is noted once.
const UNKNOWN_MAX: usize = 1000;

/// What follows for what a broken object guards.
const CLOSED: &str = "; what it is about is closed until then, as far as that can be read";

/// Fields of one object of which the same is told.
const MAX_ALIKE: usize = 5;

/// What a look at a file found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its contents.
    Contents(Vec<u8>),
    /// It is there and cannot be read, for this reason.
    Unreadable(String),
    /// It is not there.
    Gone,
}

/// The manifests of a directory: which file has which object in which form. Keeps hashes, never objects.
///
/// *Invariant*: an object is published in the form of the first whole file, by path, that has it. What guards something
/// counts at the first look even if it is broken ([`Kind::guards`]): there is no earlier form that could go on.
#[derive(Debug, Default)]
pub struct Manifests {
    admission: Option<Admission>,
    /// Where the material of Secrets goes.
    vault: Vault,
    files: BTreeMap<Arc<Path>, File>,
    objects: BTreeMap<ObjectKey, Published>,
    /// Objects that several files have.
    contested: BTreeSet<ObjectKey>,
    unknown: BTreeSet<String>,
    new_unknown: Vec<String>,
    provenance: Provenance,
    started: bool,
}

/// What is known of one file.
#[derive(Debug, Default)]
struct File {
    /// Hash of the contents that were last looked at; none if they could not be read.
    contents: Option<Hash>,
    /// Its objects when it was last taken.
    claims: BTreeMap<ObjectKey, Claim>,
    problems: Vec<Problem>,
}

/// An object in a file.
#[derive(Clone, Copy, Debug)]
struct Claim {
    line: u64,
    column: u64,
    form: Form,
}

/// Hashes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    /// Of everything but `metadata.generation`.
    whole: Hash,
    /// Of what a change of counts as a new generation.
    spec: Hash,
}

/// An object that some file has or had.
#[derive(Debug, Default)]
struct Published {
    /// The files that have it; the first one counts.
    paths: BTreeSet<Arc<Path>>,
    /// What was last sent, and with which generation; none before that.
    sent: Option<(Form, i64)>,
}

/// What one look changes.
#[derive(Default)]
struct Changes {
    keys: BTreeSet<ObjectKey>,
    bodies: BTreeMap<(ObjectKey, Arc<Path>), (Object, Option<Material>)>,
}

impl Manifests {
    /// No files; every object is taken.
    #[must_use]
    pub fn new() -> Self {
        Manifests::default()
    }

    /// No files; objects that `admission` refuses are not taken.
    #[must_use]
    pub fn with_admission(admission: Option<Admission>) -> Self {
        Manifests { admission, ..Manifests::default() }
    }

    /// The same, with the material of Secrets going to `vault`.
    #[must_use]
    pub fn with_vault(self, vault: Vault) -> Self {
        Manifests { vault, ..self }
    }

    /// Takes what was found at one look and returns the events that make the one batch of it. The first look is the
    /// initial list: it ends with `synced` for every kind.
    ///
    /// `read` reads one more file, when an object that two files had now comes from the other one.
    pub fn look(
        &mut self,
        found: impl IntoIterator<Item = (PathBuf, Found)>,
        read: &mut dyn FnMut(&Path) -> Found,
    ) -> Vec<Event> {
        let mut changes = Changes::default();
        for (path, found) in found {
            self.take(&Arc::from(path), found, false, &mut changes);
        }
        let mut read_again = BTreeSet::new();
        loop {
            let missing = self.missing_bodies(&changes, &read_again);
            if missing.is_empty() {
                break;
            }
            for path in missing {
                let found = read(&path);
                self.take(&path, found, true, &mut changes);
                read_again.insert(path);
            }
        }
        let mut events = self.settle(changes);
        if !self.started {
            self.started = true;
            events.extend(Kind::ALL.map(Event::Synced));
        }
        events
    }

    /// Everything that is wrong, by path and line.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.files.values().flat_map(|file| &file.problems).cloned().collect();
        for key in &self.contested {
            let mut claims = self.objects[key].paths.iter().map(|path| (path, self.files[path].claims[key]));
            let Some((first, used)) = claims.next() else { continue };
            problems.extend(claims.map(|(path, claim)| Problem {
                path: path.to_path_buf(),
                line: claim.line,
                column: claim.column,
                object: Some(key.clone()),
                field: String::new(),
                message: format!(
                    "also in {}:{}, which is the one that is used; remove one of the two",
                    first.display(),
                    used.line
                ),
            }));
        }
        problems.sort();
        problems
    }

    /// Kinds that were found and are not read, as `apiVersion kind`, each told once.
    pub fn take_unknown_kinds(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new_unknown)
    }

    /// Where the objects stand.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        self.provenance.clone()
    }

    /// How many objects were sent and are live.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether no object is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Takes one file. `again`: its contents may be those that are known, only the bodies are needed.
    fn take(&mut self, path: &Arc<Path>, found: Found, again: bool, changes: &mut Changes) {
        match found {
            Found::Gone => {
                if self.files.contains_key(path) {
                    self.replace(path, BTreeMap::new(), changes);
                    self.files.remove(path);
                }
            }
            Found::Unreadable(reason) => {
                let file = self.files.entry(path.clone()).or_default();
                file.contents = None;
                let mistake = Mistake { line: 0, column: 0, field: String::new(), message: reason };
                file.problems = vec![problem(path, mistake, &held(file.claims.len()))];
            }
            Found::Contents(contents) => {
                let hash = blake3::hash(&contents);
                let file = self.files.entry(path.clone()).or_default();
                if file.contents.replace(hash) == Some(hash) && !again {
                    return;
                }
                if contents.iter().all(u8::is_ascii_whitespace) && !file.claims.is_empty() {
                    let message = "the file is empty".to_owned();
                    let mistake = Mistake { line: 0, column: 0, field: String::new(), message };
                    let follows = format!("{}; delete the file to remove them", held(file.claims.len()));
                    file.problems = vec![problem(path, mistake, &follows)];
                    return;
                }
                self.take_parsed(path, document::parse(&contents), changes);
            }
        }
    }

    /// Moves the objects that an API server would refuse to the mistakes. Of what guards something a broken form is better
    /// than none.
    fn refuse(&self, parsed: &mut Parsed) -> Vec<Problem> {
        let Some(admission) = self.admission else { return Vec::new() };
        let mut refused = Vec::new();
        parsed.objects.retain(|located| {
            let findings = admission(&located.object);
            let closes = !self.started && located.object.key.kind.guards();
            let follows = if closes { CLOSED } else { "" };
            refused.extend(summed_up(&findings).into_iter().map(|(finding, more)| Problem {
                path: PathBuf::new(),
                line: located.line,
                column: located.column,
                object: Some(located.object.key.clone()),
                field: finding.field.to_string(),
                message: format!("{more}{}{follows}", finding.message),
            }));
            findings.is_empty() || closes
        });
        refused
    }

    fn take_parsed(&mut self, path: &Arc<Path>, mut parsed: Parsed, changes: &mut Changes) {
        let refused = self.refuse(&mut parsed);
        for unknown in parsed.unknown {
            if self.unknown.len() < UNKNOWN_MAX && self.unknown.insert(unknown.clone()) {
                self.new_unknown.push(unknown);
            }
        }
        let whole = parsed.mistakes.is_empty() && refused.is_empty();
        let file = self.files.get_mut(path).expect("the entry was made by the caller");
        let follows = if whole || !self.started {
            "the other documents of the file are used".to_owned()
        } else {
            held(file.claims.len())
        };
        file.problems = parsed.mistakes.into_iter().map(|mistake| problem(path, mistake, &follows)).collect();
        file.problems.extend(refused.into_iter().map(|refused| Problem {
            path: path.to_path_buf(),
            message: format!("{}; {follows}", refused.message),
            ..refused
        }));
        if !whole && self.started {
            return;
        }
        let mut claims: BTreeMap<ObjectKey, Claim> = BTreeMap::new();
        for located in parsed.objects {
            let Located { object, material, line, column } = located;
            let key = object.key.clone();
            if let Some(first) = claims.get(&key) {
                let message =
                    format!("also at line {}, which is the one that is used; remove one of the two", first.line);
                let path = path.to_path_buf();
                file.problems.push(Problem { path, line, column, object: Some(key), field: String::new(), message });
                continue;
            }
            claims.insert(key.clone(), Claim { line, column, form: form(&object.body) });
            changes.bodies.insert((key, path.clone()), (object, material));
        }
        self.replace(path, claims, changes);
    }

    /// Makes `claims` the objects of the file.
    fn replace(&mut self, path: &Arc<Path>, claims: BTreeMap<ObjectKey, Claim>, changes: &mut Changes) {
        let file = self.files.get_mut(path).expect("the entry was made by the caller");
        let before = std::mem::replace(&mut file.claims, claims);
        for key in before.into_keys().filter(|key| !file.claims.contains_key(key)) {
            if let Some(object) = self.objects.get_mut(&key) {
                object.paths.remove(path);
                if object.paths.len() < 2 {
                    self.contested.remove(&key);
                }
            }
            changes.keys.insert(key);
        }
        for key in file.claims.keys() {
            let object = self.objects.entry(key.clone()).or_default();
            object.paths.insert(path.clone());
            if object.paths.len() > 1 {
                self.contested.insert(key.clone());
            }
            changes.keys.insert(key.clone());
        }
    }

    /// Files that must be read again, because an object is to be sent in their form and only its hash is known.
    fn missing_bodies(&self, changes: &Changes, read_again: &BTreeSet<Arc<Path>>) -> BTreeSet<Arc<Path>> {
        let missing = changes.keys.iter().filter_map(|key| {
            let object = self.objects.get(key)?;
            let path = object.paths.first()?;
            let form = self.files[path].claims[key].form;
            let known = object.sent.is_some_and(|(sent, _)| sent == form);
            let here = changes.bodies.contains_key(&(key.clone(), path.clone()));
            (!known && !here && !read_again.contains(path)).then(|| path.clone())
        });
        missing.collect()
    }

    /// The events that bring what was sent to what the files say now.
    fn settle(&mut self, mut changes: Changes) -> Vec<Event> {
        let mut events = Vec::new();
        let mut places = Vec::new();
        for key in std::mem::take(&mut changes.keys) {
            let Some(object) = self.objects.get_mut(&key) else { continue };
            let Some(path) = object.paths.first() else {
                if object.sent.is_some() {
                    self.vault.hold(&key, None);
                    events.push(Event::Delete(key.clone()));
                }
                self.objects.remove(&key);
                places.push((key, None));
                continue;
            };
            let claim = self.files[path].claims[&key];
            let place = Place { path: path.clone(), line: claim.line };
            match object.sent {
                Some((sent, _)) if sent == claim.form => places.push((key, Some(place))),
                _ => {
                    // Without a body the file broke since it was taken: what was sent stays until it is whole again.
                    let Some((body, material)) = changes.bodies.remove(&(key.clone(), path.clone())) else { continue };
                    // Before the event: what it leads to may be sent at once.
                    self.vault.hold(&key, material);
                    let generation = match object.sent {
                        None => 1,
                        Some((sent, generation)) if sent.spec == claim.form.spec => generation,
                        Some((_, generation)) => generation + 1,
                    };
                    object.sent = Some((claim.form, generation));
                    events.push(Event::Apply(with_generation(body, generation)));
                    places.push((key, Some(place)));
                }
            }
        }
        self.provenance.update(places);
        events
    }
}

/// The findings of an object; of many that say the same of other fields the first few, and one that counts the others.
fn summed_up(findings: &[Finding]) -> Vec<(&Finding, String)> {
    let mut alike: BTreeMap<&str, usize> = BTreeMap::new();
    findings.iter().for_each(|finding| *alike.entry(&finding.message).or_default() += 1);
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut told = Vec::new();
    for finding in findings {
        let more = alike[&*finding.message].saturating_sub(MAX_ALIKE);
        let seen = seen.entry(&finding.message).or_default();
        *seen += 1;
        if *seen <= MAX_ALIKE {
            told.push((finding, String::new()));
        } else if *seen == MAX_ALIKE + 1 {
            told.push((finding, format!("{more} more fields: ")));
        }
    }
    told
}

/// What follows for a file that is not taken.
fn held(objects: usize) -> String {
    match objects {
        0 => "nothing of this file is used until it is whole".to_owned(),
        1 => "its object stays as it was before".to_owned(),
        _ => format!("its {objects} objects stay as they were before"),
    }
}

fn problem(path: &Path, mistake: Mistake, follows: &str) -> Problem {
    let Mistake { line, column, field, message } = mistake;
    let message = format!("{message}; {follows}");
    Problem { path: path.to_path_buf(), line, column, object: None, field, message }
}

/// Hashes of an object whose fields are sorted. Labels, annotations and a status do not count for the generation, nor
/// does another version of the same API.
fn form(body: &Value) -> Form {
    let mut spec = blake3::Hasher::new();
    for (name, value) in body.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
            // Length first: no name or value can pass for the end of another.
            spec.update(&(name.len() as u64).to_le_bytes());
            spec.update(name.as_bytes());
            write_json(&mut spec, value);
        }
    }
    let mut whole = blake3::Hasher::new();
    write_json(&mut whole, body);
    Form { whole: whole.finalize(), spec: spec.finalize() }
}

fn write_json(hasher: &mut blake3::Hasher, value: &Value) {
    serde_json::to_writer(hasher, value).expect("a hasher takes everything, and a JSON value can always be written");
}

fn with_generation(mut object: Object, generation: i64) -> Object {
    let metadata = Arc::make_mut(&mut object.body).get_mut("metadata").and_then(Value::as_object_mut);
    let metadata = metadata.expect("an object has a name, which stands in its metadata");
    metadata.insert("generation".to_owned(), Value::from(generation));
    // Sorted again, should the map keep the order of insertion.
    metadata.sort_keys();
    object
}
