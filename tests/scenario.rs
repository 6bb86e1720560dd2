//! One scenario: what happens, epoch by epoch, and what must be true after each.

mod authority;

pub mod backends;

mod certificate;

pub mod controller;

pub mod expect;

pub mod observed;

use authority::Authorities;
use bytes::Bytes;
use expect::Expect;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use testkit::epochs::{self, Change};
use testkit::tls::Pair;
use tidegate_engine::{Applied, Config, Core};
use tidegate_log::{Event, Object};
use tidegate_model::{AddressRange, Kind, Locality, Name, NamespacedName, ObjectKey};
use tidegate_sources::config_map::keep_bundle;
use tidegate_sources::secret::take_material;
use tidegate_vault::Material;
use tidegate_xds::Sealed;

/// Where the scenarios lie, and where the rows of the Gateway API's conformance tests.
const SCENARIOS: &str = "scenarios";
const ROWS: &str = "gateway_api";

/// A scenario, read whole.
#[derive(Debug)]
pub struct Scenario {
    /// Its folder.
    pub folder: PathBuf,
    /// How the controller is started.
    pub settings: Settings,
    /// Epochs in order, at least one.
    pub epochs: Vec<Epoch>,
}

/// What `settings.yaml` says, if it is there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// `--retarget-hold`, in milliseconds.
    pub retarget_hold_ms: Option<u64>,
    /// `--usable-addresses`.
    pub usable_addresses: Vec<AddressRange>,
    /// `--report-lifetime`, in milliseconds.
    pub report_lifetime_ms: Option<u64>,
    /// Where the Envoy of a Gateway says that it is, as `seen_from` has it.
    pub envoys: BTreeMap<String, String>,
}

impl Settings {
    /// Where the Envoy of the Gateway says that it is.
    #[must_use]
    pub fn locality(&self, gateway: &NamespacedName) -> Locality {
        self.envoys.get(gateway.as_str()).map(|place| locality(place)).unwrap_or_default()
    }

    /// What a controller is told that is started so.
    #[must_use]
    pub fn config(&self) -> Config {
        let defaults = Config::default();
        let report_lifetime = self.report_lifetime_ms.unwrap_or(defaults.report_lifetime);
        Config { hold: self.retarget_hold_ms, usable: self.usable_addresses.clone(), report_lifetime, ..defaults }
    }
}

/// A certificate that was made for a Secret.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The Secret.
    pub secret: ObjectKey,
    /// As a client sees it, in DER.
    pub der: Bytes,
    /// It and its key, if it was made here.
    pub pair: Option<Pair>,
    /// What is kept of it, if it can be served.
    pub material: Option<Material>,
}

/// One batch and what must be true after it.
#[derive(Debug)]
pub struct Epoch {
    /// Its number in the files.
    pub number: u64,
    /// When, in milliseconds since the start: one for each epoch, and what the input says that passes before.
    pub millis: u64,
    /// Whether the controller is started anew with it.
    pub restart: bool,
    /// What happens.
    pub events: Vec<Event>,
    /// The certificates among it.
    pub certificates: Vec<Certificate>,
    /// What must then be true.
    pub expect: Expect,
}

impl Scenario {
    /// Reads the scenario in `folder`.
    ///
    /// # Panics
    ///
    /// A file is missing or cannot be understood; the text names it.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let text = |file: &str| {
            let path = folder.join(file);
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
        };
        let input = text("input.yaml");
        let first = input.lines().next().unwrap_or_default();
        assert!(first.starts_with("# "), "{}: the input begins with a comment that says why", folder.display());
        let batches = epochs::split(&input).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut expected: BTreeMap<u64, Expect> = serde_saphyr::from_str(&text("expect.yaml"))
            .unwrap_or_else(|error| panic!("{}/expect.yaml: {error}", folder.display()));
        let (mut millis, mut authorities) = (0, Authorities::default());
        let epochs: Vec<Epoch> = batches
            .into_iter()
            .map(|batch| {
                let (mut events, mut certificates, mut restart) = (Vec::new(), Vec::new(), false);
                millis += 1;
                for change in batch.changes {
                    match change {
                        Change::Apply(body) if body.get("wait_ms").is_some() => {
                            millis += body["wait_ms"].as_u64().expect("wait_ms is a whole number");
                        }
                        Change::Apply(body) if body.get("restart").is_some() => restart = true,
                        change => read(folder, change, &mut authorities, &mut events, &mut certificates),
                    }
                }
                let expect = expected.remove(&batch.epoch).unwrap_or_default();
                Epoch { number: batch.epoch, millis, restart, events, certificates, expect }
            })
            .collect();
        assert!(expected.is_empty(), "{}: no such epochs: {:?}", folder.display(), expected.keys());
        let says = |epoch: &Epoch| !epoch.expect.is_empty();
        assert!(epochs.iter().any(says), "{}: nothing is expected", folder.display());
        let settings = match std::fs::read_to_string(folder.join("settings.yaml")) {
            Ok(text) => serde_saphyr::from_str(&text),
            Err(_) => Ok(Settings::default()),
        };
        let settings = settings.unwrap_or_else(|error| panic!("{}/settings.yaml: {error}", folder.display()));
        Scenario { folder: folder.to_owned(), settings, epochs }
    }

    /// Every scenario and every row of the Gateway API's conformance tests that has one, by name. `TIDEGATE_SCENARIO`
    /// limits them to those whose names contain it.
    ///
    /// # Panics
    ///
    /// There is none, or one cannot be read.
    #[must_use]
    pub fn all() -> Vec<Scenario> {
        let only = std::env::var("TIDEGATE_SCENARIO").unwrap_or_default();
        let folders = [SCENARIOS, ROWS].into_iter().flat_map(folders);
        let chosen: Vec<PathBuf> = folders.filter(|folder| name(folder).contains(&only)).collect();
        assert!(!chosen.is_empty(), "no scenario has {only:?} in its name");
        chosen.iter().map(|folder| Scenario::read(folder)).collect()
    }

    /// Its name: that of its folder, after `gateway_api/` if it is a row.
    #[must_use]
    pub fn name(&self) -> String {
        name(&self.folder)
    }

    /// Whether it is a row of the Gateway API's conformance tests. What a row expects stands in `expect.yaml` alone: it
    /// has no golden files.
    #[must_use]
    pub fn is_row(&self) -> bool {
        self.name().starts_with(ROWS)
    }

    /// Every change in order, without the batches.
    pub fn changes(&self) -> impl Iterator<Item = &Event> {
        self.epochs.iter().flat_map(|epoch| &epoch.events)
    }

    /// The objects that exist in the end.
    #[must_use]
    pub fn last_objects(&self) -> BTreeMap<ObjectKey, Object> {
        let mut objects = BTreeMap::new();
        for event in self.changes() {
            match event {
                Event::Apply(object) => _ = objects.insert(object.key.clone(), object.clone()),
                Event::Delete(key) => _ = objects.remove(key),
                other => unreachable!("an input holds only objects, not {other:?}"),
            }
        }
        objects
    }
}

/// The folders with a scenario each, in order.
fn folders(under: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(under);
    let entries = std::fs::read_dir(&root).unwrap_or_else(|error| panic!("cannot read {}: {error}", root.display()));
    let paths = entries.map(|entry| entry.expect("a folder that was opened can be listed").path());
    let mut folders: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// The name of the scenario in a folder.
fn name(folder: &Path) -> String {
    let last = folder.file_name().unwrap_or_default().to_string_lossy();
    let is_row = folder.parent().is_some_and(|parent| parent.ends_with(ROWS));
    if is_row { format!("{ROWS}/{last}") } else { last.into_owned() }
}

/// The end of every first list.
#[must_use]
pub fn synced() -> Vec<Event> {
    Kind::ALL.map(Event::Synced).to_vec()
}

/// Applies a batch that must seal.
///
/// # Panics
///
/// If it does not.
pub fn seal(core: &mut Core, events: &[Event], millis: u64) -> Arc<Sealed> {
    match core.apply(events, millis) {
        Applied::Sealed(sealed) => sealed,
        Applied::Pending { missing } => panic!("still waiting for {missing:?}"),
    }
}

/// What a document of the input does. `delete: HTTPRoute shop/cart` (or a list of such) deletes, `certificate: shop/cert`
/// makes a Secret with a new certificate, `bundle: shop/ca` a ConfigMap with CA certificates, `authority: shop/ca` one with that
/// of a new authority, `backends: [shop/cart]` Services with an endpoint each; everything else is an object that an API server
/// would have to take.
fn read(
    folder: &Path,
    change: Change,
    authorities: &mut Authorities,
    events: &mut Vec<Event>,
    certificates: &mut Vec<Certificate>,
) {
    let object = |body: Value| Object::new(body).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut body = match change {
        Change::Delete(body) => return events.push(Event::Delete(object(body).key)),
        Change::Apply(body) => body,
    };
    if let Some(deleted) = body.get("delete") {
        let one = std::slice::from_ref(deleted);
        let names = deleted.as_array().map_or(one, Vec::as_slice);
        events.extend(names.iter().map(|name| Event::Delete(key(name.as_str().unwrap_or_default()))));
        return;
    }
    if body.get("backends").is_some() {
        let bodies = backends::make(&body);
        let mut take = |body| read(folder, Change::Apply(body), authorities, events, certificates);
        return bodies.into_iter().for_each(&mut take);
    }
    if body.get("bundle").is_some() || body.get("authority").is_some() {
        body = authority::make(&body, authorities);
    }
    let made = body.get("certificate").map(|_| certificate::make(&body, authorities));
    let pair = made.map(|(secret, pair)| {
        body = secret;
        pair
    });
    if body["kind"] == "ConfigMap" {
        let kept = keep_bundle(&mut body);
        kept.unwrap_or_else(|refusal| panic!("{}: refused: {refusal:?}", folder.display()));
    }
    let is_secret = body["kind"] == "Secret";
    let material = if is_secret { take_material(&mut body) } else { Ok(None) };
    let material = material.unwrap_or_else(|refusal| panic!("{}: refused: {refusal:?}", folder.display()));
    let object = object(body);
    if is_secret {
        let der = pair.as_ref().map(|pair| pair.der.clone()).unwrap_or_default();
        certificates.push(Certificate { secret: object.key.clone(), der, pair, material });
    }
    let refused = tidegate_normalize::admit(&object);
    assert!(refused.is_empty(), "{}: an API server would refuse {}: {refused:?}", folder.display(), object.key);
    events.push(Event::Apply(object));
}

/// Where somebody is: `region r1, zone z1`, any of network, region, zone, sub-zone and host; `anywhere` is not known.
///
/// # Panics
///
/// If it is not written so.
#[must_use]
pub fn locality(text: &str) -> Locality {
    let mut locality = Locality::default();
    for part in text.split(", ").filter(|part| *part != "anywhere") {
        let (level, name) = part.split_once(' ').unwrap_or_else(|| panic!("{text:?}: {part:?} is not `zone z1`"));
        *match level {
            "network" => &mut locality.network,
            "region" => &mut locality.region,
            "zone" => &mut locality.zone,
            "sub-zone" => &mut locality.sub_zone,
            "host" => &mut locality.host,
            _ => panic!("{text:?}: {level:?} is no level of a locality"),
        } = Name::from(name);
    }
    locality
}

/// The key that `Kind namespace/name` writes; a name without namespace is of a kind that has none.
///
/// # Panics
///
/// If it is not one.
#[must_use]
pub fn key(text: &str) -> ObjectKey {
    let (kind, name) = text.split_once(' ').unwrap_or_else(|| panic!("{text:?} is not `Kind namespace/name`"));
    let kind = Kind::ALL.into_iter().find(|k| k.as_str() == kind).unwrap_or_else(|| panic!("{text:?}: no such kind"));
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    ObjectKey::new(kind, namespace, name)
}
