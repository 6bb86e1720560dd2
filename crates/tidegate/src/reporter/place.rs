//! Where endpoints are found, and where the report is kept.

use super::decide::{self, Endpoint, Stored, Target};
use anyhow::Context;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tidegate_log::{Event, Object};
use tidegate_model::{Kind, Millis, NamespacedName};
use tidegate_normalize::{Moment, normalize};
use tidegate_sources::Directory;

/// The label that names the Service of a slice.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Where endpoints are found.
#[derive(Clone, Debug)]
pub(crate) enum Whereabouts {
    /// These.
    Given(BTreeSet<Endpoint>),
    /// Those of a Service in the EndpointSlices of a directory, looked for at every round.
    Manifests {
        dir: PathBuf,
        service: NamespacedName,
        /// Only those on this node.
        node: Option<String>,
    },
}

/// Endpoints that were found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) endpoints: BTreeSet<Endpoint>,
    /// Something could not be read: it may hold more of them.
    pub(crate) problem: Option<String>,
}

impl Whereabouts {
    /// The endpoints that are named one by one.
    pub(crate) fn given(sockets: &[SocketAddr]) -> Self {
        let endpoint = |socket: &SocketAddr| Endpoint { address: socket.ip(), port: socket.port(), target: None };
        Whereabouts::Given(sockets.iter().map(endpoint).collect())
    }

    pub(crate) fn find(&self) -> anyhow::Result<Found> {
        match self {
            Whereabouts::Given(endpoints) => Ok(Found { endpoints: endpoints.clone(), problem: None }),
            Whereabouts::Manifests { dir, service, node } => {
                let once = Directory::read_once(dir, Some(tidegate_normalize::admit))?;
                let objects = once.events.iter().filter_map(|event| match event {
                    Event::Apply(object) if object.key.kind == Kind::EndpointSlice => Some(object),
                    Event::Apply(_)
                    | Event::Delete(_)
                    | Event::Synced(_)
                    | Event::Unreadable { .. }
                    | Event::Expired { .. }
                    | Event::Connect { .. }
                    | Event::Disconnect { .. }
                    | Event::Rejected { .. } => None,
                });
                let of_service = objects.filter(|slice| service_of(slice).as_ref() == Some(service));
                let endpoints = of_service.flat_map(|slice| endpoints(&slice.body, node.as_deref())).collect();
                Ok(Found { endpoints, problem: once.problems.first().map(ToString::to_string) })
            }
        }
    }
}

fn service_of(slice: &Object) -> Option<NamespacedName> {
    let name = slice.body["metadata"]["labels"][SERVICE_LABEL].as_str()?;
    Some(NamespacedName::new(slice.key.name.namespace(), name))
}

/// Every TCP port of every endpoint of a slice that an API server would take.
fn endpoints(slice: &Value, node: Option<&str>) -> Vec<Endpoint> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ports: Vec<u16> = list(&slice["ports"])
        .iter()
        .filter(|port| port["protocol"].as_str().unwrap_or("TCP") == "TCP")
        .filter_map(|port| port["port"].as_u64().and_then(|port| u16::try_from(port).ok()))
        .collect();
    let wanted = list(&slice["endpoints"]);
    let wanted = wanted.iter().filter(|endpoint| node.is_none_or(|node| endpoint["nodeName"] == node));
    let of_endpoint = |endpoint: &Value| {
        let address = endpoint["addresses"][0].as_str().and_then(|text| text.parse().ok());
        let target = target(&endpoint["targetRef"]);
        let at = |(address, port): (_, &u16)| Endpoint { address, port: *port, target: target.clone() };
        address.map(|address| ports.iter().map(|port| at((address, port))).collect::<Vec<_>>()).unwrap_or_default()
    };
    wanted.flat_map(of_endpoint).collect()
}

fn target(reference: &Value) -> Option<Target> {
    let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
    Some(Target { kind: text("kind"), name: text("name"), uid: text("uid") }).filter(|target| !target.uid.is_empty())
}

/// The file that the report is kept in.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
}

impl File {
    /// What stands there; none if there is no report.
    pub(crate) fn stored(&self) -> Option<Stored> {
        let text = fs::read_to_string(&self.path).ok()?;
        let body: Value = serde_saphyr::from_str(&text).ok()?;
        let object = Object::new(body).ok().filter(|object| object.key.kind == Kind::EndpointReport)?;
        // At the beginning of time nothing has expired, so that every entry with a time has its end.
        let ends = normalize(&object, &Moment { now: 0, report_lifetime: Millis::MAX }).endings;
        let timed: usize = ends.iter().map(|ending| ending.ends.len()).sum();
        let entries = object.body.pointer("/status/endpoints").and_then(Value::as_array).map_or(0, Vec::len);
        let oldest = ends.iter().map(|ending| ending.deadline.renewed).min();
        Some(Stored { says: decide::says(&object.body), renewed: oldest.filter(|_| timed == entries) })
    }

    /// Puts a report in its place in one step.
    pub(crate) fn write(&self, object: &Value) -> anyhow::Result<()> {
        let name = self.path.file_name().context("it names no file")?.to_string_lossy();
        // Hidden, so that nobody reads it as a manifest.
        let temporary = self.path.with_file_name(format!(".{name}.tmp"));
        fs::write(&temporary, text(&self.path, object)?).with_context(|| temporary.display().to_string())?;
        fs::rename(&temporary, &self.path).with_context(|| {
            // There is nothing else to be done about it.
            let _ = fs::remove_file(&temporary);
            self.path.display().to_string()
        })
    }

    /// What stands in the way of keeping the report there: something else that would be lost.
    pub(crate) fn other(&self, report: &NamespacedName) -> Option<&'static str> {
        let Ok(metadata) = fs::symlink_metadata(&self.path) else { return None };
        if !metadata.is_file() {
            return Some("is no regular file");
        }
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        if text.trim().is_empty() {
            return None;
        }
        let body = serde_saphyr::from_str::<Value>(&text).ok();
        let object = body.and_then(|body| Object::new(body).ok());
        let is_it = object.is_some_and(|object| object.key.kind == Kind::EndpointReport && object.key.name == *report);
        (!is_it).then_some("holds something else")
    }
}

/// In the form that the name of the file says.
fn text(path: &Path, object: &Value) -> anyhow::Result<String> {
    if path.extension().is_some_and(|extension| extension == "json") {
        return Ok(format!("{object:#}\n"));
    }
    Ok(serde_saphyr::to_string(object)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reporter::decide::{Reporter, Thresholds};
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_back_in_either_form() {
        let folder = tempfile::tempdir().unwrap();
        let name = NamespacedName::parse;
        let thresholds = Thresholds { healthy: 1, unhealthy: 1 };
        let target = Target { kind: "Pod".to_owned(), name: "cart-1".to_owned(), uid: "123".to_owned() };
        let endpoint = Endpoint { address: "10.0.0.1".parse().unwrap(), port: 8080, target: Some(target) };
        let mut reporter = Reporter::new(name("shop/cart-n1"), name("shop/cart"), "1".to_owned(), 15_000, thresholds);
        reporter.watch(BTreeSet::from([endpoint]), true);
        for file in ["report.yaml", "report.json"] {
            let file = File { path: folder.path().join(file) };
            assert_eq!(file.stored(), None);
            let object = reporter.object(1_764_547_200_123);
            file.write(&object).unwrap();
            let stored = file.stored().unwrap();
            assert_eq!(stored, Stored { says: decide::says(&object), renewed: Some(1_764_547_200_123) });
            assert_eq!(reporter.due(1_764_547_200_123, Some(&stored)), decide::Due::At(1_764_547_215_123));
        }
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn endpoints_are_those_of_the_slices_of_the_service_and_node() {
        let folder = tempfile::tempdir().unwrap();
        let slice = |service: &str| {
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": { "name": format!("{service}-1"), "namespace": "shop", "labels": { SERVICE_LABEL: service } },
                "ports": [{ "name": "a", "port": 8080 }, { "name": "b", "port": 53, "protocol": "UDP" }],
                "endpoints": [
                    { "addresses": ["10.0.0.1"], "nodeName": "n1", "targetRef": { "kind": "Pod", "name": "p", "uid": "u" } },
                    { "addresses": ["10.0.0.2"], "nodeName": "n2" },
                ],
            })
        };
        for service in ["cart", "web"] {
            fs::write(folder.path().join(format!("{service}.json")), slice(service).to_string()).unwrap();
        }
        let find = |node: Option<&str>| {
            let (dir, service) = (folder.path().to_owned(), NamespacedName::parse("shop/cart"));
            Whereabouts::Manifests { dir, service, node: node.map(str::to_owned) }.find().unwrap().endpoints
        };
        let sockets = |found: &BTreeSet<Endpoint>| found.iter().map(|e| e.socket().to_string()).collect::<Vec<_>>();
        assert_eq!(sockets(&find(None)), ["10.0.0.1:8080", "10.0.0.2:8080"]);
        let of_node = find(Some("n1"));
        assert_eq!(sockets(&of_node), ["10.0.0.1:8080"]);
        assert_eq!(of_node.first().unwrap().target.as_ref().unwrap().uid, "u");
    }

    #[test]
    fn endpoints_of_which_some_manifest_cannot_be_read_may_not_be_all() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("slice.yaml"), "kind: [").unwrap();
        let (dir, service) = (folder.path().to_owned(), NamespacedName::parse("shop/cart"));
        let found = Whereabouts::Manifests { dir, service, node: None }.find().unwrap();
        assert!(found.problem.is_some_and(|problem| problem.contains("slice.yaml")));
    }

    #[test]
    fn a_file_with_something_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = File { path: folder.path().join("report.yaml") };
        let report = NamespacedName::parse("shop/cart-1");
        let of = |name: &str| {
            json!({ "apiVersion": "tidegate.dev/v1alpha1", "kind": "EndpointReport",
                "metadata": { "namespace": "shop", "name": name }, "spec": {}, "status": {} })
        };
        assert_eq!(file.other(&report), None, "nothing is there");
        fs::write(&file.path, "\n").unwrap();
        assert_eq!(file.other(&report), None, "it is empty");
        file.write(&of("cart-1")).unwrap();
        assert_eq!(file.other(&report), None);
        file.write(&of("cart-2")).unwrap();
        assert!(file.other(&report).is_some());
        fs::write(&file.path, "kind: Service\n---\nkind: Service\n").unwrap();
        assert!(file.other(&report).is_some());
        let folder = File { path: folder.path().to_owned() };
        assert!(folder.other(&report).is_some());
    }
}
