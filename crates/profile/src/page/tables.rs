//! Tables and bars.

use crate::drawing::{Drawing, Node, STAGES};
use crate::format::{digits, escape, quantity};
use crate::measure::Operation;
use crate::report::{Compared, Comparison, Figure, Footprint, Report};
use std::collections::BTreeMap;

/// Operators of a dataflow that are listed before one asks for the others.
const LISTED: usize = 20;

/// A figure that not every operation has.
type Pick = fn(&Operation) -> Option<f64>;

/// A table: its columns, those with figures marked, and its rows of cells.
fn table(class: &str, columns: &[(&str, bool)], rows: impl Iterator<Item = Vec<String>>) -> String {
    let attribute = |figures: bool| if figures { " class=\"n\"" } else { "" };
    let head: String = columns
        .iter()
        .map(|(name, figures)| format!("<th scope=\"col\"{}>{}</th>", attribute(*figures), escape(name)))
        .collect();
    let row = |cells: Vec<String>| {
        let cells = cells.into_iter().zip(columns);
        let cells: String =
            cells.map(|(cell, (_, figures))| format!("<td{}>{cell}</td>", attribute(*figures))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = rows.map(row).collect();
    format!(
        "<div class=\"scroll\"><table class=\"{class}\"><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// A bar of this share of its place.
fn bar(share: f64) -> String {
    format!("<i class=\"bar\" style=\"--share:{:.4}\"></i>", share.clamp(0.0, 1.0))
}

/// Operations, with bars on one logarithmic scale.
pub(super) fn operations(report: &Report) -> String {
    let operations = &report.operations;
    let all = || operations.iter().flat_map(|of| [of.p50_us, of.p99_us]).filter(|time| *time > 0.0);
    let low = all().fold(f64::MAX, f64::min) / 2.0;
    let high = all().fold(low * 10.0, f64::max);
    let share = |time: f64| if time > low { (time / low).log10() / (high / low).log10() } else { 0.0 };
    let optional = |figure: Option<f64>, unit: &str| figure.map(|figure| quantity(figure, unit)).unwrap_or_default();
    let has = |of: Pick| operations.iter().any(|operation| of(operation).is_some());
    let mut columns =
        vec![("operation", false), ("", false), ("p50", true), ("p99", true), ("max", true), ("runs", true)];
    let more: [(&str, &str, Pick); 5] = [
        ("facts", "", |of| of.facts),
        ("rows", "", |of| of.rows),
        ("encoded", "", |of| of.encoded),
        ("sent", "B", |of| of.sent_bytes),
        ("CPU", "us", |of| of.cpu_us),
    ];
    let more: Vec<_> = more.into_iter().filter(|(_, _, of)| has(*of)).collect();
    columns.extend(more.iter().map(|(name, _, _)| (*name, true)));
    let rows = operations.iter().map(|of| {
        let bars = format!(
            "<span class=\"bars\"><i class=\"bar far\" style=\"--share:{:.4}\"></i>{}</span>",
            share(of.p99_us),
            bar(share(of.p50_us))
        );
        let mut cells = vec![
            escape(&of.name),
            bars,
            quantity(of.p50_us, "us"),
            quantity(of.p99_us, "us"),
            quantity(of.max_us, "us"),
            quantity(of.count as f64, ""),
        ];
        cells.extend(more.iter().map(|(_, unit, figure)| optional(figure(of), unit)));
        cells
    });
    table("operations", &columns, rows)
}

/// Figures, one a row.
pub(super) fn figures(figures: &[Figure]) -> String {
    let rows = figures.iter().map(|figure| vec![escape(&figure.what), escape(&quantity(figure.value, &figure.unit))]);
    table("figures", &[("figure", false), ("", true)], rows)
}

/// Each other way, with how much dearer it is.
pub(super) fn comparisons(comparisons: &[Comparison]) -> String {
    let most = comparisons.iter().flat_map(|of| &of.rows).map(Compared::ratio).fold(10.0, f64::max);
    let cards = comparisons.iter().map(|comparison| {
        let rows = comparison.rows.iter().map(|row| {
            let ratio = row.ratio();
            let share = if ratio > 1.0 { ratio.log10() / most.log10() } else { 0.0 };
            vec![
                escape(&row.what),
                quantity(row.ours, &row.unit),
                quantity(row.theirs, &row.unit),
                format!("<b>{} x</b>", digits(ratio)),
                bar(share),
            ]
        });
        let columns = [("", false), ("tidegate", true), ("the other", true), ("ratio", true), ("", false)];
        format!("<h3>{}</h3>\n{}", escape(&comparison.way), table("compared", &columns, rows))
    });
    cards.collect()
}

/// What one more of each thing costs.
pub(super) fn memory(memory: &[Footprint]) -> String {
    if memory.is_empty() {
        return String::new();
    }
    let most = memory.iter().map(|row| row.bytes).fold(1.0, f64::max);
    let rows = memory.iter().map(|row| {
        let what = format!("{} <small>{}</small>", escape(&row.what), escape(&row.how));
        vec![what, quantity(row.bytes, "B"), bar(row.bytes / most)]
    });
    let body = table("memory", &[("one more", false), ("resident", true), ("", false)], rows);
    format!("<div class=\"card\">{body}</div>")
}

/// Bytes by type.
pub(super) fn sent(sent: &BTreeMap<String, usize>) -> String {
    if sent.is_empty() {
        return String::new();
    }
    let all: usize = sent.values().sum();
    let rows = sent.iter().map(|(kind, bytes)| {
        let share = *bytes as f64 / all.max(1) as f64;
        let percent = format!("{} %", digits(share * 100.0));
        vec![escape(&kind.to_uppercase()), quantity(*bytes as f64, "B"), percent, bar(share)]
    });
    let columns = [("type", false), ("sent to a cold client", true), ("share", true), ("", false)];
    format!("<div class=\"card\">{}</div>", table("sent", &columns, rows))
}

/// The time in each stage, as one bar.
pub(super) fn stages(drawing: &Drawing) -> String {
    let mut stages: BTreeMap<(usize, &str), f64> = BTreeMap::new();
    for operator in &drawing.operators {
        *stages.entry((order(&operator.stage), &operator.stage)).or_default() += operator.self_us;
    }
    let total = drawing.total_us().max(f64::MIN_POSITIVE);
    let parts = stages.iter().enumerate().map(|(index, ((_, stage), micros))| {
        let share = micros / total;
        let name = if share > 0.06 { escape(stage) } else { String::new() };
        format!(
            "<div class=\"part p{}\" style=\"flex-grow:{share:.5}\" data-tip=\"{}: {}, {} %\"><span>{name}</span></div>",
            index % 2,
            escape(stage),
            quantity(*micros, "us"),
            digits(share * 100.0)
        )
    });
    format!("<div class=\"share\">{}</div>\n", parts.collect::<String>())
}

/// Where a stage stands in the walk.
pub(super) fn order(stage: &str) -> usize {
    STAGES.iter().position(|known| *known == stage).unwrap_or(STAGES.len())
}

/// Operators, the dearest first.
pub(super) fn operators(drawing: &Drawing) -> String {
    let total = drawing.total_us().max(f64::MIN_POSITIVE);
    let order = drawing.dearest();
    let most = order.first().map_or(1.0, |first| drawing.operators[*first].self_us).max(f64::MIN_POSITIVE);
    let columns = [
        ("operator", false),
        ("stage", false),
        ("self time", true),
        ("", false),
        ("share", true),
        ("calls", true),
        ("arranged", true),
        ("batches", true),
    ];
    let row = |of: &Node| {
        let address = of.address.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
        vec![
            format!("{} <small>{address}</small>", escape(&of.name)),
            escape(&of.stage),
            quantity(of.self_us, "us"),
            bar(of.self_us / most),
            format!("{} %", digits(of.self_us / total * 100.0)),
            digits(of.calls),
            if of.arranged > 0 { quantity(of.arranged as f64, "") } else { String::new() },
            if of.batches > 0 { quantity(of.batches as f64, "") } else { String::new() },
        ]
    };
    let rows = |indexes: &[usize]| {
        let rows: Vec<Vec<String>> = indexes.iter().map(|index| row(&drawing.operators[*index])).collect();
        table("operators", &columns, rows.into_iter())
    };
    let (first, others) = order.split_at(order.len().min(LISTED));
    let more = if others.is_empty() {
        String::new()
    } else {
        format!("<details><summary>{} more operators</summary>\n{}</details>\n", others.len(), rows(others))
    };
    format!("{}{more}", rows(first))
}
