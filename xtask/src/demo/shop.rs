//! A copy of `examples/shop` that may be edited, as its owner would: by saving files.

use anyhow::{Context, Result, bail};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use testkit::epochs::{self, Change};
use testkit::tls::Pair;
use testkit::{Identity, ports};

/// The ports that the example's Gateway names, in the order of its listeners.
const PORTS: [u16; 3] = [8080, 8443, 8081];

/// The directory.
pub(super) struct Shop {
    dir: PathBuf,
    /// Port of the listener for everybody.
    pub(super) web: u16,
    /// Port of the listener for partners.
    pub(super) partners: u16,
    /// Port of the listener with TLS.
    pub(super) secure: u16,
    /// What the certificate for `shop.example` is replaced by.
    pub(super) renewed: Pair,
}

/// A Service that the example does not have, with the route to it, in one file: both appear in one epoch.
pub(super) const REVIEWS: &str = r#"apiVersion: v1
kind: Service
metadata: { name: reviews, namespace: shop }
spec:
  ports:
  - { name: http, port: 80 }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: reviews-1
  namespace: shop
  labels: { kubernetes.io/service-name: reviews }
addressType: IPv4
ports:
- { name: http, port: 9001 }
endpoints:
- addresses: ["127.0.13.1"]
  targetRef: { kind: Pod, name: reviews-0, namespace: shop }
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: reviews, namespace: shop }
spec:
  parentRefs:
  - { name: edge, sectionName: web }
  hostnames: [shop.example]
  rules:
  - matches:
    - path: { type: PathPrefix, value: /reviews }
    backendRefs:
    - { name: reviews, port: 80 }
"#;

impl Shop {
    /// Copies the example to `dir`. If somebody listens on its ports, the copy's Gateway names others.
    pub(super) fn copy_to(dir: &Path) -> Result<Self> {
        copy_tree(&crate::root().join("examples/shop"), dir)?;
        let chosen = PORTS.map(|port| if ports::is_free(port) { port } else { ports::free() });
        let [web, secure, partners] = chosen;
        let shop = Shop { dir: dir.to_owned(), web, partners, secure, renewed: Pair::new(&["shop.example"]) };
        if chosen != PORTS {
            println!("not all of the ports {PORTS:?} are free; the copy's Gateway listens on {chosen:?}");
            for (old, new) in PORTS.into_iter().zip(chosen) {
                shop.edit("gateway.yaml", &[(&format!("port: {old}\n"), &format!("port: {new}\n"))])?;
            }
        }
        Ok(shop)
    }

    /// The path of one of its files.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// The text of one of its files.
    pub(super) fn read(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.path(file)).with_context(|| format!("cannot read {}", self.path(file).display()))
    }

    /// Saves a file: written beside it and moved into place, as editors do.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.path(file);
        let beside = path.with_extension("part");
        fs::write(&beside, text)
            .and_then(|()| fs::rename(&beside, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes a file.
    pub(super) fn remove(&self, file: &str) -> Result<()> {
        fs::remove_file(self.path(file)).with_context(|| format!("cannot remove {}", self.path(file).display()))
    }

    /// Replaces texts of a file, each of which must stand in it once.
    pub(super) fn edit(&self, file: &str, replacements: &[(&str, &str)]) -> Result<()> {
        let mut text = self.read(file)?;
        for (old, new) in replacements {
            if text.matches(old).count() != 1 {
                bail!("{file} of examples/shop must hold {old:?} once; the demo edits it");
            }
            text = text.replace(old, new);
        }
        self.write(file, &text)
    }

    /// Puts the new certificate for `shop.example` in the place of the old one.
    pub(super) fn renew_certificate(&self) -> Result<()> {
        let text = self.read("certificates.yaml")?;
        let (head, rest) = text.split_once("  tls.crt: |\n").context("certificates.yaml must hold a tls.crt")?;
        let (_, tail) = rest.split_once("\n---\n").context("certificates.yaml must hold two Secrets")?;
        let indented = |pem: &str| pem.lines().map(|line| format!("    {line}\n")).collect::<String>();
        let (certificate, key) = (indented(&self.renewed.certificate), indented(&self.renewed.key));
        self.write("certificates.yaml", &format!("{head}  tls.crt: |\n{certificate}  tls.key: |\n{key}---\n{tail}"))
    }

    /// Takes all endpoints of a backend's file away; gives back what it held.
    pub(super) fn scale_to_zero(&self, file: &str) -> Result<String> {
        let text = self.read(file)?;
        let (head, _) =
            text.split_once("\nendpoints:\n").with_context(|| format!("{file} must end with its endpoints"))?;
        self.write(file, &format!("{head}\nendpoints: []\n"))?;
        Ok(text)
    }

    /// Every endpoint of every slice, and who answers there.
    pub(super) fn backends(&self) -> Result<Vec<(SocketAddr, Identity)>> {
        let mut backends = Vec::new();
        let folder = self.path("backends");
        let files = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        for file in files {
            let path = file.with_context(|| format!("cannot list {}", folder.display()))?.path();
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            backends.extend(endpoints(&text).with_context(|| format!("cannot use {}", path.display()))?);
        }
        backends.extend(endpoints(REVIEWS)?);
        Ok(backends)
    }
}

/// The endpoints of the slices among some documents.
fn endpoints(text: &str) -> Result<Vec<(SocketAddr, Identity)>> {
    let mut found = Vec::new();
    for change in epochs::split(text)?.into_iter().flat_map(|batch| batch.changes) {
        let Change::Apply(slice) = change else { continue };
        if slice["kind"] != "EndpointSlice" {
            continue;
        }
        let text = |pointer: &str| slice.pointer(pointer).and_then(|value| value.as_str()).unwrap_or_default();
        let (namespace, service) = (text("/metadata/namespace"), text("/metadata/labels/kubernetes.io~1service-name"));
        let port =
            slice.pointer("/ports/0/port").and_then(serde_json::Value::as_u64).context("a slice without a port")?;
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            let address = endpoint.pointer("/addresses/0").and_then(|value| value.as_str()).unwrap_or_default();
            let address = format!("{address}:{port}").parse().with_context(|| format!("{address:?} is no address"))?;
            let pod = endpoint.pointer("/targetRef/name").and_then(|value| value.as_str()).unwrap_or_default();
            found.push((address, Identity::new(namespace, service, pod)));
        }
    }
    Ok(found)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot list {}", from.display()))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_tree(&source, &target)?;
        } else {
            fs::copy(&source, &target).with_context(|| format!("cannot copy {}", source.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_what_the_demo_edits() {
        let dir = tempfile::tempdir().unwrap();
        let shop = Shop::copy_to(dir.path()).unwrap();
        let pods = shop.backends().unwrap().into_iter().map(|(_, who)| format!("{}/{}", who.namespace, who.pod));
        let mut pods: Vec<_> = pods.collect();
        pods.sort();
        let expected = [
            "payments/pay-0",
            "payments/pay-1",
            "shop/reviews-0",
            "shop/store-v1-0",
            "shop/store-v1-1",
            "shop/store-v2-0",
        ];
        assert_eq!(pods, expected);
        let before = shop.scale_to_zero("backends/pay.yaml").unwrap();
        assert_eq!(endpoints(&shop.read("backends/pay.yaml").unwrap()).unwrap(), []);
        assert_eq!(endpoints(&before).unwrap().len(), 2);
        shop.edit("routes.yaml", &[("weight: 90", "weight: 20"), ("weight: 10", "weight: 80")]).unwrap();
        assert!(shop.edit("routes.yaml", &[("weight: 90", "weight: 20")]).unwrap_err().to_string().contains("once"));
    }
}
