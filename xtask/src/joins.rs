//! `cargo xtask break-joins`: breaks each join in turn in a copy of the sources and demands that the comparison with
//! the reference fails. A test that cannot fail is a defect; this is how we know that ours can.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

/// One way to break a join: a piece of source text and what stands there instead.
struct Break {
    what: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

const fn cut(what: &'static str, file: &'static str, from: &'static str, to: &'static str) -> Break {
    Break { what, file, from, to }
}

const GATEWAYS: &str = "crates/translate/src/gateways.rs";
const ATTACH: &str = "crates/translate/src/attach.rs";
const BACKENDS: &str = "crates/translate/src/backends.rs";
const ASSEMBLE: &str = "crates/translate/src/assemble.rs";
const ENDPOINTS: &str = "crates/translate/src/endpoints.rs";
const LOOKUP: &str = "crates/translate/src/lookup.rs";
const LIB: &str = "crates/translate/src/lib.rs";

const BREAKS: &[Break] = &[
    cut("a key without values gets no answer", LOOKUP, "if input[0].0.is_none() {", "if input[0].0.is_none() && input.len() > 1 {"),
    cut("Gateways do not see their class", GATEWAYS, "class_state(&controller, known.first().copied())", "class_state(&controller, known.get(1).copied())"),
    cut("Gateways of a missing class are dropped", GATEWAYS, "verdict(gateway, state).map(", "verdict(gateway, state).filter(|v| matches!(v, Verdict::Ours(_))).map("),
    cut("namespace labels are not joined", ATTACH, "known.first().map(|n| n.labels.clone())", "known.get(1).map(|n| n.labels.clone())"),
    cut("only the first parent reference is asked", ATTACH, "Some((ask.parent.name.clone(), (ask.clone(), labels.clone())))", "(ask.index == 0).then(|| (ask.parent.name.clone(), (ask.clone(), labels.clone())))"),
    cut("only the first parent reference is answered", ATTACH, "Some((ask.route.clone(), attachment))", "(ask.index == 0).then(|| (ask.route.clone(), attachment))"),
    cut("grants are not joined", BACKENDS, "known.iter().map(|name| (*name).clone()).collect::<Permitted>()", "known.iter().skip(1).map(|name| (*name).clone()).collect::<Permitted>()"),
    cut("references into other namespaces are dropped", BACKENDS, ".map(|ask| (ask, true)).concat(crossing)", ".map(|ask| (ask, true)).concat(crossing.filter(|_| false))"),
    cut("Services are not joined", BACKENDS, "known.first().map(|service| (*service).clone())", "known.get(1).map(|service| (*service).clone())"),
    cut("references that are not permitted are dropped", BACKENDS, "Some((ask.route.clone(), (ask.target.clone(), resolution)))", "permitted.then(|| (ask.route.clone(), (ask.target.clone(), resolution)))"),
    cut("attachments do not reach lowering", LIB, ".concat(attachments.clone().map(|(route, attachment)| (route, RouteInput::Attached(attachment))))", ".concat(attachments.clone().filter(|_| false).map(|(route, attachment)| (route, RouteInput::Attached(attachment))))"),
    cut("resolutions do not reach lowering", LIB, ".concat(resolutions.map(", ".concat(resolutions.filter(|_| false).map("),
    cut("findings do not reach route status", LIB, ".concat(findings.clone().flat_map(route_finding))", ".concat(findings.clone().filter(|_| false).flat_map(route_finding))"),
    cut("a listener without routes has no virtual host", ASSEMBLE, "let domains = listeners.concat(of_entries).distinct_total();", "let domains = listeners.filter(|_| false).concat(of_entries).distinct_total();"),
    cut("domains of entries are not there", ASSEMBLE, "let domains = listeners.concat(of_entries).distinct_total();", "let domains = listeners.concat(of_entries.filter(|_| false)).distinct_total();"),
    cut("wider domains are not carried", ASSEMBLE, "wider.into_iter().map(move", "wider.into_iter().take(1).map(move"),
    cut("an empty virtual host does not exist", ASSEMBLE, "exists\n        .concat(placed)", "exists\n        .filter(|_| false)\n        .concat(placed)"),
    cut("a member is counted once a route", LIB, "lowered.clone().flat_map(used).distinct_total()", "lowered.clone().flat_map(used)"),
    cut("slices do not reach their Service", ENDPOINTS, "wanted.concat(slices)", "wanted.concat(slices.filter(|_| false))"),
    cut("an unreferenced Service is published", ENDPOINTS, "let wanted = wanted.map(", "let wanted = wanted.filter(|b| b.port_name != \"web\").map("),
    cut("a route is counted once a parent reference", LIB, ".concat(attachments.flat_map(attached).distinct_total().map(", ".concat(attachments.flat_map(attached).map("),
    cut("attached routes are not counted", LIB, ".concat(attachments.flat_map(attached).distinct_total().map(", ".concat(attachments.filter(|_| false).flat_map(attached).distinct_total().map("),
    cut("findings do not reach Gateway status", LIB, ".concat(findings.clone().flat_map(gateway_finding))", ".concat(findings.clone().filter(|_| false).flat_map(gateway_finding))"),
    cut("findings of other kinds are lost", LIB, ".concat(findings.flat_map(other_finding))", ".concat(findings.filter(|_| false).flat_map(other_finding))"),
    cut("foreign classes get status", LIB, ".filter(move |class| class.controller == controller)", ".filter(move |class| class.controller == controller || true)"),
    cut("route status is not published", LIB, ".concat(lowered.flat_map(route_status))", ".concat(lowered.filter(|_| false).flat_map(route_status))"),
    cut("Gateways' own rows are not published", LIB, "ours.flat_map(|state| gateways::rows(&state))", "ours.filter(|_| false).flat_map(|state| gateways::rows(&state))"),
    cut("a changed object keeps its old facts", "crates/engine/src/facts.rs", "changes.push((fact, diff));", "if diff > 0 { changes.push((fact, diff)); }"),
];

/// How many histories are played against each break.
const SEQUENCES: &str = "60";

/// Breaks each join in turn and lists what noticed.
///
/// # Errors
///
/// A break went unnoticed, a break no longer fits the sources, or the unbroken sources fail.
pub(crate) fn run() -> Result<()> {
    let copy = crate::root().join("target/break-joins");
    copy_sources(&copy)?;
    println!("the sources as they are");
    if !compare(&copy)? {
        bail!("the comparison with the reference fails without any break");
    }
    let mut unnoticed = Vec::new();
    for (number, one) in (1..).zip(BREAKS) {
        let file = copy.join(one.file);
        let whole = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if whole.matches(one.from).count() != 1 {
            bail!("{}: `{}` must stand there once, to be broken: {}", one.file, one.from, one.what);
        }
        fs::write(&file, whole.replacen(one.from, one.to, 1))?;
        let passed = compare(&copy);
        fs::write(&file, whole)?;
        let noticed = !passed?;
        println!("{number:>3}/{} {} {}", BREAKS.len(), if noticed { "noticed  " } else { "UNNOTICED" }, one.what);
        if !noticed {
            unnoticed.push(one.what);
        }
    }
    if unnoticed.is_empty() {
        println!("{} broken joins, each noticed", BREAKS.len());
        Ok(())
    } else {
        bail!("not noticed: {}", unnoticed.join("; "))
    }
}

/// Whether the comparison passes on the sources in `copy`. A break must compile, or it says nothing.
fn compare(copy: &Path) -> Result<bool> {
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new(crate::cargo());
        command.args(["test", "--quiet", "--package", "tidegate-scenarios", "--test", "incremental"]).args(arguments);
        command.current_dir(copy).env("CARGO_TARGET_DIR", copy.join("../break-joins-target"));
        command.env("TIDEGATE_SEQUENCES", SEQUENCES);
        command
    };
    let built = cargo(&["--no-run"]).output().context("cannot run cargo")?;
    if !built.status.success() {
        bail!("does not compile:\n{}", String::from_utf8_lossy(&built.stderr));
    }
    let run = cargo(&["--", "every_epoch"]).output().context("cannot run cargo")?;
    Ok(run.status.success())
}

/// Copies what git tracks, so that a break can never reach the work tree.
fn copy_sources(copy: &Path) -> Result<()> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(crate::root()).output()?;
    if !listed.status.success() {
        bail!("git ls-files failed; break-joins needs a git checkout");
    }
    if copy.exists() {
        fs::remove_dir_all(copy)?;
    }
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (crate::root().join(name), copy.join(name));
        if from.is_file() {
            fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
            fs::copy(&from, &to).with_context(|| format!("cannot copy {name}"))?;
        }
    }
    Ok(())
}
