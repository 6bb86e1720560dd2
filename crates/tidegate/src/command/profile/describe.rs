//! A report for people, as tables.

use comfy_table::{CellAlignment, Table, presets};
use tidegate_profile::{Operation, Report, quantity};

/// Operators that are listed; the page has all.
const LISTED: usize = 10;

/// The whole report.
pub(super) fn text(report: &Report) -> String {
    let mut parts = vec![operations(&report.operations)];
    let mut totals = Table::new();
    totals.load_style(presets::NOTHING);
    totals.add_row(["cold start".to_owned(), quantity(report.cold_start_ms, "ms")]);
    totals.add_row(["resident".to_owned(), quantity(report.rss_bytes, "B")]);
    for figure in &report.figures {
        totals.add_row([figure.what.clone(), quantity(figure.value, &figure.unit)]);
    }
    for footprint in &report.memory {
        totals.add_row([format!("one more {}", footprint.what), quantity(footprint.bytes, "B")]);
    }
    for (kind, bytes) in &report.sent {
        totals.add_row([format!("{kind} to a cold client"), quantity(*bytes as f64, "B")]);
    }
    parts.push(drawn(totals, 1));
    for comparison in &report.comparisons {
        let rows = comparison.rows.iter().map(|row| {
            let ratio = format!("{} x", quantity((row.ratio() * 100.0).round() / 100.0, ""));
            vec![row.what.clone(), quantity(row.ours, &row.unit), quantity(row.theirs, &row.unit), ratio]
        });
        parts.push(table(&[&comparison.way, "tidegate", "the other", "ratio"], rows, 1));
    }
    if let Some(drawing) = report.drawings.first() {
        let total = drawing.total_us().max(f64::MIN_POSITIVE);
        let rows = drawing.dearest().into_iter().take(LISTED).map(|index| {
            let operator = &drawing.operators[index];
            let share = format!("{:.0} %", operator.self_us / total * 100.0);
            vec![operator.name.clone(), operator.stage.clone(), quantity(operator.self_us, "us"), share]
        });
        let title = format!(
            "dearest of {} operators, {}: {} an epoch",
            drawing.operators.len(),
            drawing.title,
            quantity(drawing.total_us(), "us")
        );
        parts.push(table(&[&title, "stage", "self", "share"], rows, 2));
    }
    parts.extend(report.notes.iter().map(|note| format!("{note}\n")));
    parts.join("\n")
}

fn operations(operations: &[Operation]) -> String {
    let optional = |figure: Option<f64>, unit: &str| figure.map(|figure| quantity(figure, unit)).unwrap_or_default();
    let rows = operations.iter().map(|of| {
        vec![
            of.name.clone(),
            quantity(of.p50_us, "us"),
            quantity(of.p99_us, "us"),
            quantity(of.max_us, "us"),
            quantity(of.count as f64, ""),
            optional(of.rows, ""),
            optional(of.encoded, ""),
            optional(of.sent_bytes, "B"),
            optional(of.cpu_us, "us"),
        ]
    });
    table(&["operation", "p50", "p99", "max", "runs", "rows", "encoded", "sent", "CPU"], rows, 1)
}

/// A table whose first columns have text, and the others figures; columns without any figure are left out.
fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>, texts: usize) -> String {
    let rows: Vec<Vec<String>> = rows.collect();
    let is_used = |column: usize| rows.iter().any(|row| !row[column].is_empty());
    let used: Vec<usize> = (0..head.len()).filter(|column| *column < texts || is_used(*column)).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.add_row(used.iter().map(|column| head[*column].to_owned()));
    for row in rows {
        table.add_row(used.iter().map(|column| row[*column].clone()));
    }
    drawn(table, texts)
}

fn drawn(mut table: Table, texts: usize) -> String {
    for column in table.column_iter_mut().skip(texts) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{}\n", table.trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_profile::Figure;

    #[test]
    fn columns_without_figures_are_left_out() {
        let operation = |name: &str, rows: Option<f64>| Operation {
            name: name.to_owned(),
            p50_us: 412.0,
            rows,
            ..Operation::default()
        };
        let figures = vec![Figure { what: "routes".to_owned(), value: 1_000.0, unit: String::new() }];
        let operations = vec![operation("endpoint change", Some(2.0)), operation("client connect", None)];
        let text = text(&Report { operations, figures, cold_start_ms: 1_630.0, ..Report::default() });
        assert!(text.contains("rows") && !text.contains("encoded") && !text.contains("CPU"), "{text}");
        assert!(text.contains("412 µs") && text.contains("1.63 s") && text.contains("1,000"), "{text}");
    }
}
