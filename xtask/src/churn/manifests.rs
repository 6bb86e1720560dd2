//! The world as a directory of manifests, and its backends.

use super::world::{Backend, DOORS, GUESTS, HOSTS, IDLE, POOL, Route, SECURE, View, World};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use testkit::{Echo, Identity, ports};

/// Header of every answer that says by which route it came.
pub(super) const MARK: &str = "x-route";

/// Ports of one Gateway's listeners.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    pub(super) web: u16,
    pub(super) secure: u16,
    pub(super) doors: [u16; DOORS],
}

impl Ports {
    /// Some that are free.
    pub(super) fn free() -> Self {
        Ports { web: ports::free(), secure: ports::free(), doors: [(); DOORS].map(|()| ports::free()) }
    }

    /// The port of a view.
    pub(super) fn of(&self, view: View) -> u16 {
        match view {
            View::Host(_) | View::Guest(_) => self.web,
            View::Secure(_) => self.secure,
            View::Door(index) => self.doors[index],
        }
    }
}

/// The Gateways, by name: one for each Envoy, since two on one machine cannot have the same ports.
pub(super) const GATEWAYS: [&str; 2] = ["sotw", "delta"];

/// Backends that run all the time; what changes is who is sent to them.
pub(super) struct Backends {
    /// Two for each shared Service.
    pool: Vec<[Echo; 2]>,
    /// One for each host, then for each guest, then for those that nobody asks.
    own: Vec<Echo>,
}

impl Backends {
    /// Starts them.
    pub(super) async fn start() -> Result<Self> {
        let start = async |service: String, pod: usize| {
            let identity = Identity::new("churn", &service, &format!("{service}-{pod}"));
            Echo::start(SocketAddr::from(([127, 0, 0, 1], 0)), identity).await
        };
        let (mut pool, mut own) = (Vec::new(), Vec::new());
        for index in 0..POOL {
            let service = Backend::Pool(index).service();
            pool.push([start(service.clone(), 0).await?, start(service, 1).await?]);
        }
        for index in 0..HOSTS + GUESTS + IDLE {
            own.push(start(format!("own-{index}"), 0).await?);
        }
        Ok(Backends { pool, own })
    }

    fn pool(&self, index: usize) -> [SocketAddr; 2] {
        self.pool[index].each_ref().map(Echo::address)
    }

    fn own(&self, index: usize) -> SocketAddr {
        self.own[index].address()
    }
}

/// The directory.
pub(super) struct Directory {
    path: PathBuf,
    ports: [Ports; GATEWAYS.len()],
    backends: Backends,
    /// What stands in it.
    files: BTreeMap<String, String>,
}

impl Directory {
    /// A directory that holds `world`.
    pub(super) fn new(
        path: PathBuf,
        ports: [Ports; GATEWAYS.len()],
        backends: Backends,
        world: &World,
    ) -> Result<Self> {
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let mut directory = Directory { path, ports, backends, files: BTreeMap::new() };
        directory.write(world)?;
        Ok(directory)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Saves what differs, each file in one step as editors do, and removes what is not wanted.
    pub(super) fn write(&mut self, world: &World) -> Result<()> {
        let wanted = self.render(world);
        for (name, text) in &wanted {
            if self.files.get(name) != Some(text) {
                let path = self.path.join(name);
                let beside = path.with_extension("part");
                fs::write(&beside, text)
                    .and_then(|()| fs::rename(&beside, &path))
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        for name in self.files.keys().filter(|name| !wanted.contains_key(*name)) {
            let path = self.path.join(name);
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        self.files = wanted;
        Ok(())
    }

    fn render(&self, world: &World) -> BTreeMap<String, String> {
        let mut files = BTreeMap::from([("gateways.yaml".to_owned(), self.gateways(world))]);
        for (index, route) in world.hosts.iter().enumerate() {
            let sections: &[&str] = if index < SECURE { &["web", "secure"] } else { &["web"] };
            files.insert(format!("host-{index}.yaml"), self.host(View::Host(index), sections, route));
        }
        for (index, route) in world.guests.iter().enumerate() {
            if let Some(route) = route {
                files.insert(format!("guest-{index}.yaml"), self.host(View::Guest(index), &["web"], route));
            }
        }
        for (index, door) in world.doors.iter().enumerate() {
            let section = format!("door-{index}");
            files.insert(format!("{section}.yaml"), self.host(View::Door(index), &[&section], &door.route));
        }
        for (index, pair) in world.certificates.iter().enumerate() {
            files.insert(format!("certificate-{index}.yaml"), secret(index, &pair.certificate, &pair.key));
        }
        for (index, shared) in world.pool.iter().enumerate() {
            let addresses = &self.backends.pool(index)[..shared.endpoints];
            let text = service(&Backend::Pool(index).service(), shared.h2c, addresses);
            files.insert(format!("pool-{index}.yaml"), text);
        }
        for (index, full) in world.idle.iter().enumerate() {
            let address = [self.backends.own(HOSTS + GUESTS + index)];
            let name = format!("idle-{index}");
            let route = route(&name, &format!("{name}.churn.example"), &["web"], 0, &[(name.clone(), 1)]);
            let text = service(&name, false, if *full { &address } else { &[] }) + &route;
            files.insert(format!("{name}.yaml"), text);
        }
        files
    }

    /// A route, with the Services that are its own.
    fn host(&self, view: View, sections: &[&str], rule: &Route) -> String {
        let host = view.host();
        let (name, _) = host.split_once('.').expect("the name of a host has dots");
        let mut text = String::new();
        for (backend, _) in &rule.backends {
            if let Backend::Own { owner, .. } = backend {
                text += &service(&backend.service(), false, &[self.backends.own(*owner)]);
            }
        }
        let backends: Vec<_> = rule.backends.iter().map(|(backend, weight)| (backend.service(), *weight)).collect();
        text + &route(name, &host, sections, rule.mark, &backends)
    }

    fn gateways(&self, world: &World) -> String {
        let mut text = "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: tidegate }
spec: { controllerName: tidegate.dev/gateway-controller }
"
        .to_owned();
        let certificates: Vec<String> = (0..SECURE).map(|index| format!("{{ name: certificate-{index} }}")).collect();
        let certificates = certificates.join(", ");
        for (name, ports) in GATEWAYS.iter().zip(&self.ports) {
            let Ports { web, secure, doors } = ports;
            let _infallible = write!(
                text,
                "---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{ name: {name}, namespace: churn }}
spec:
  gatewayClassName: tidegate
  listeners:
  - {{ name: web, protocol: HTTP, port: {web} }}
  - {{ name: secure, protocol: HTTPS, port: {secure}, tls: {{ certificateRefs: [{certificates}] }} }}
"
            );
            for (index, port) in doors.iter().enumerate().filter(|(index, _)| world.doors[*index].open) {
                let _infallible = writeln!(text, "  - {{ name: door-{index}, protocol: HTTP, port: {port} }}");
            }
        }
        text
    }
}

fn route(name: &str, host: &str, sections: &[&str], mark: u32, backends: &[(String, u32)]) -> String {
    let parents = GATEWAYS.iter().flat_map(|gateway| {
        sections.iter().map(move |section| format!("{{ name: {gateway}, sectionName: {section} }}"))
    });
    let parents = parents.collect::<Vec<_>>().join(", ");
    let backends = backends.iter().map(|(name, weight)| format!("{{ name: {name}, port: 80, weight: {weight} }}"));
    let backends = backends.collect::<Vec<_>>().join(", ");
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{ name: {name}, namespace: churn }}
spec:
  parentRefs: [{parents}]
  hostnames: [{host}]
  rules:
  - filters:
    - type: ResponseHeaderModifier
      responseHeaderModifier: {{ set: [{{ name: {MARK}, value: \"{mark}\" }}] }}
    backendRefs: [{backends}]
"
    )
}

/// A Service with a slice for each endpoint, since each has a port of its own.
fn service(name: &str, h2c: bool, addresses: &[SocketAddr]) -> String {
    let protocol = if h2c { ", appProtocol: kubernetes.io/h2c" } else { "" };
    let mut text = format!(
        "---
apiVersion: v1
kind: Service
metadata: {{ name: {name}, namespace: churn }}
spec: {{ ports: [{{ name: http, port: 80{protocol} }}] }}
"
    );
    for (index, address) in addresses.iter().enumerate() {
        let (ip, port) = (address.ip(), address.port());
        let _infallible = write!(
            text,
            "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{ name: {name}-{index}, namespace: churn, labels: {{ kubernetes.io/service-name: {name} }} }}
addressType: IPv4
ports: [{{ name: http, port: {port} }}]
endpoints: [{{ addresses: ['{ip}'] }}]
"
        );
    }
    text
}

fn secret(index: usize, certificate: &str, key: &str) -> String {
    let indented = |pem: &str| pem.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let (certificate, key) = (indented(certificate), indented(key));
    format!(
        "apiVersion: v1
kind: Secret
metadata: {{ name: certificate-{index}, namespace: churn }}
type: kubernetes.io/tls
stringData:
  tls.crt: |
{certificate}  tls.key: |
{key}"
    )
}
