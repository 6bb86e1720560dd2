//! Pages: one file each, with everything in it. Nothing is fetched, so that a page can be kept, sent and read anywhere.
//!
//! Everything is drawn here, as SVG; the script only adds what moves: tooltips, focus, zoom, sorting. Without it the page
//! says the same.

mod chart;

mod graph;

mod tables;

use crate::drawing::Drawing;
use crate::format::{escape, quantity};
use crate::report::{Machine, Report};
use std::fmt::Write;

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// A report as a page.
#[must_use]
pub fn report(report: &Report) -> String {
    let mut body = String::new();
    push(&mut body, &header(&format!("tidegate profile: {}", report.profile), &context(report)));
    push(&mut body, &heads(report));
    push(&mut body, &section("Operations", "What one costs, and the worst of a hundred.", &tables::operations(report)));
    if !report.figures.is_empty() {
        push(&mut body, &section("Figures", "", &tables::figures(&report.figures)));
    }
    if !report.plots.is_empty() {
        let plots: String = report.plots.iter().map(chart::plot).collect();
        let what = "How that grows. Scales are logarithmic where sizes are.";
        push(&mut body, &section("Growth", what, &format!("<div class=\"grid\">{plots}</div>")));
    }
    if !report.comparisons.is_empty() {
        push(&mut body, &section("Other ways to do the same", "", &tables::comparisons(&report.comparisons)));
    }
    let stores = [tables::memory(&report.memory), tables::sent(&report.sent)].concat();
    if !stores.is_empty() {
        let what = "What one more of each thing costs, and what a client is sent that held nothing.";
        push(&mut body, &section("Memory and bytes", what, &format!("<div class=\"grid\">{stores}</div>")));
    }
    push(&mut body, &dataflows(&report.drawings));
    if !report.notes.is_empty() {
        let notes: String = report.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
        push(&mut body, &section("How to read this", "", &format!("<ul class=\"notes\">{notes}</ul>")));
    }
    page(&format!("tidegate profile: {}", report.profile), &body)
}

/// Dataflows as a page; `about` says of what.
#[must_use]
pub fn dataflow(about: &str, drawings: &[Drawing]) -> String {
    let machine = machine(&Machine::this());
    page(
        "tidegate dataflow",
        &[header("tidegate dataflow", &[about.to_owned(), machine]), dataflows(drawings)].concat(),
    )
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         <div id=\"tip\" role=\"tooltip\" hidden></div>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(title)
    )
}

fn push(body: &mut String, part: &str) {
    body.push_str(part);
    body.push('\n');
}

fn header(title: &str, facts: &[String]) -> String {
    let facts: String = facts.iter().map(|fact| format!("<span>{}</span>", escape(fact))).collect();
    format!("<header><h1>{}</h1><p class=\"facts\">{facts}</p></header>\n", escape(title))
}

fn section(title: &str, what: &str, body: &str) -> String {
    let what = if what.is_empty() { String::new() } else { format!("<p class=\"what\">{}</p>", escape(what)) };
    format!("<section><h2>{}</h2>{what}\n{body}</section>\n", escape(title))
}

/// What was measured, and where.
fn context(report: &Report) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(size) = &report.size {
        let count = |count: usize| quantity(count as f64, "");
        facts.push(format!(
            "{} Services x {} endpoints in {} zones",
            count(size.services),
            count(size.endpoints),
            count(size.zones)
        ));
        facts.push(format!("{} routes on {} Gateways", count(size.routes), count(size.gateways)));
        facts.push(format!("{} clients", count(size.clients)));
        facts.push(format!("{} worker{}", size.workers, if size.workers == 1 { "" } else { "s" }));
    }
    facts.push(machine(&report.machine));
    facts
}

fn machine(machine: &Machine) -> String {
    let build = if machine.optimized { "release build" } else { "debug build" };
    let memory = quantity(machine.memory_bytes as f64, "B");
    format!("{} CPUs, {}, {memory}, {build}", machine.cpus, machine.model)
}

/// The figures that one looks for first.
fn heads(report: &Report) -> String {
    let mut heads = Vec::new();
    if let Some(first) = report.operations.first() {
        heads.push((quantity(first.p50_us, "us"), format!("{}, p50", first.name)));
        heads.push((quantity(first.p99_us, "us"), format!("{}, p99", first.name)));
    }
    heads.push((quantity(report.cold_start_ms, "ms"), "cold start".to_owned()));
    heads.push((quantity(report.rss_bytes, "B"), "resident".to_owned()));
    if let Some(drawing) = report.drawings.first() {
        heads.push((quantity(drawing.operators.len() as f64, ""), "operators".to_owned()));
    }
    let heads = heads.into_iter().fold(String::new(), |mut text, (figure, what)| {
        let _always_fits =
            write!(text, "<div class=\"head\"><b>{}</b><span>{}</span></div>", escape(&figure), escape(&what));
        text
    });
    format!("<div class=\"heads\">{heads}</div>\n")
}

fn dataflows(drawings: &[Drawing]) -> String {
    let drawn = drawings.iter().enumerate().map(|(index, drawing)| {
        let summary = format!(
            "<b>{}</b> <span>{} an epoch in {} operators, {} epochs</span>",
            escape(&drawing.title),
            quantity(drawing.total_us(), "us"),
            drawing.operators.len(),
            quantity(drawing.epochs as f64, "")
        );
        format!(
            "<details class=\"flow\"{}><summary>{summary}</summary>\n{}{}{}</details>\n",
            if index == 0 { " open" } else { "" },
            tables::stages(drawing),
            graph::figure(drawing),
            tables::operators(drawing)
        )
    });
    let drawn: String = drawn.collect();
    if drawn.is_empty() {
        return drawn;
    }
    let what = "From left to right as rows go, a lane for each stage. A bar is an operator: its width is time in it, the \
                line below what it holds arranged; the width of a way is how many updates went it. Point at one to \
                follow it.";
    section("Dataflow", what, &drawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compare, Runner, Size, fanout};
    use std::collections::BTreeSet;

    #[test]
    fn a_page_is_whole_in_itself_and_has_every_part() {
        let all = BTreeSet::from([Compare::Naive, Compare::Recompute]);
        let of = fanout(&mut Runner::here(), &Size::quick(), &all).unwrap();
        for text in [report(&of), dataflow("live", &of.drawings)] {
            for outside in ["http://", "https://", "src=", "@import", "url(", "<link"] {
                assert!(!text.contains(outside), "{outside} leads out of the page");
            }
            for operator in &of.drawings[0].operators {
                assert!(text.contains(&escape(&operator.name)), "{} is not there", operator.name);
            }
            let count = |what: &str| text.matches(what).count();
            for tag in ["section", "details", "svg", "table", "g", "div", "tr", "text"] {
                let opened = count(&format!("<{tag} ")) + count(&format!("<{tag}>"));
                assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
            }
            assert!(!text.contains("NaN") && !text.contains("inf "), "every figure is a number");
        }
        let text = report(&of);
        for title in ["Operations", "Growth", "Other ways to do the same", "Memory and bytes", "Dataflow"] {
            assert!(text.contains(&format!("<h2>{title}</h2>")), "{title}");
        }
    }
}
