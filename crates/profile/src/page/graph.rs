//! The picture of a dataflow: a lane for each stage, a column for each step from where facts come in.
//!
//! A dataflow has some three hundred operators, most of which only pass rows on. Those that hold nothing, cost next to
//! nothing and have no name of their own are left out of the first form of the picture: what goes through them is drawn
//! as one way. The second form has all.

use super::tables::order;
use crate::drawing::{Drawing, Node};
use crate::format::{escape, quantity};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const LEFT: f64 = 16.0;
const COLUMN: f64 = 112.0;
const ROW: f64 = 34.0;
/// Room above the first row of a lane, for its name.
const LANE_HEAD: f64 = 26.0;
const BAR_HEIGHT: f64 = 12.0;
/// The widest bar.
const BAR: f64 = 84.0;
/// Letters of a name that fit into a column.
const LETTERS: usize = 21;
/// Between two names of one lane, which is wider than a window.
const LANE_NAMES: f64 = 1_000.0;

/// Of all time, what an operator may take that is left out.
const NEGLIGIBLE: f64 = 0.01;

/// Ways that leaving out one operator may make of those that lead to and from it.
const MAX_WAYS: usize = 16;

/// Names of operators that say nothing but what sort they are.
const SORTS: [&str; 14] = [
    "Map",
    "FlatMap",
    "Filter",
    "Concatenate",
    "Negate",
    "Inspect",
    "InspectBatch",
    "Input",
    "AsCollection",
    "Probe",
    "MapInPlace",
    "Unary",
    "Binary",
    "Join",
];

/// Both forms, with what switches between them.
pub(super) fn figure(drawing: &Drawing) -> String {
    format!(
        "<figure class=\"graph\" data-form=\"main\"><div class=\"tools\">\
         <button type=\"button\" data-zoom=\"0.8\" aria-label=\"smaller\">-</button>\
         <button type=\"button\" data-zoom=\"1.25\" aria-label=\"larger\">+</button>\
         <button type=\"button\" data-zoom=\"fit\">fit</button>\
         <button type=\"button\" data-form=\"all\">every operator</button></div>\n\
         <div class=\"view main\">{}</div>\n<div class=\"view all\">{}</div></figure>\n",
        svg(drawing, false),
        svg(drawing, true)
    )
}

/// What goes one way: messages and updates an epoch, and of which type.
#[derive(Clone, Debug, Default)]
struct Flow {
    messages: f64,
    records: f64,
    data: String,
}

/// Operators by index, and who sends to whom.
struct Graph {
    shown: BTreeSet<usize>,
    to: BTreeMap<usize, BTreeMap<usize, Flow>>,
    from: BTreeMap<usize, BTreeSet<usize>>,
}

impl Graph {
    fn new(drawing: &Drawing) -> Self {
        let shown = (0..drawing.operators.len()).collect();
        let mut graph = Graph { shown, to: BTreeMap::new(), from: BTreeMap::new() };
        for edge in &drawing.channels {
            let flow = Flow { messages: edge.messages, records: edge.records, data: edge.data.clone() };
            graph.connect(edge.source, edge.target, flow);
        }
        graph
    }

    fn connect(&mut self, source: usize, target: usize, flow: Flow) {
        let of = self.to.entry(source).or_default().entry(target).or_default();
        of.messages += flow.messages;
        of.records += flow.records;
        of.data = flow.data;
        self.from.entry(target).or_default().insert(source);
    }

    /// Leaves an operator out: whoever sends to it sends to those that it sends to, unless that would be too many ways.
    fn leave_out(&mut self, index: usize) {
        let sources = self.from.get(&index).cloned().unwrap_or_default();
        let targets = self.to.get(&index).cloned().unwrap_or_default();
        if sources.is_empty() || targets.is_empty() || sources.len() * targets.len() > MAX_WAYS {
            return;
        }
        self.shown.remove(&index);
        self.from.remove(&index);
        self.to.remove(&index);
        for target in targets.keys() {
            self.from.entry(*target).or_default().remove(&index);
        }
        for source in sources {
            let into = self.to.entry(source).or_default().remove(&index).unwrap_or_default();
            for (target, flow) in &targets {
                let (messages, records) = (into.messages.min(flow.messages), into.records.min(flow.records));
                self.connect(source, *target, Flow { messages, records, data: flow.data.clone() });
            }
        }
    }

    /// The column of each operator: one more than that of whoever sends to it. Who gets nothing stands before the first
    /// that it sends to.
    fn columns(&self) -> BTreeMap<usize, usize> {
        let mut waits: BTreeMap<usize, usize> =
            self.shown.iter().map(|index| (*index, self.from.get(index).map_or(0, BTreeSet::len))).collect();
        let mut ready: Vec<usize> = waits.iter().filter(|(_, count)| **count == 0).map(|(index, _)| *index).collect();
        let mut columns: BTreeMap<usize, usize> = self.shown.iter().map(|index| (*index, 0)).collect();
        let mut order = Vec::new();
        while let Some(index) = ready.pop() {
            order.push(index);
            let next = columns[&index] + 1;
            for target in self.to.get(&index).into_iter().flat_map(BTreeMap::keys) {
                columns.entry(*target).and_modify(|column| *column = next.max(*column));
                let count = waits.entry(*target).or_default();
                *count = count.saturating_sub(1);
                if *count == 0 {
                    ready.push(*target);
                }
            }
        }
        for index in order.into_iter().rev() {
            let gets_nothing = self.from.get(&index).is_none_or(BTreeSet::is_empty);
            let next = self.to.get(&index).and_then(|to| to.keys().map(|target| columns[target]).min());
            if let Some(next) = next.filter(|_| gets_nothing) {
                columns.insert(index, next.saturating_sub(1));
            }
        }
        columns
    }
}

/// Where everything stands.
struct Layout {
    /// Left and middle of each bar.
    places: BTreeMap<usize, (f64, f64)>,
    /// Name, top and height of each lane.
    lanes: Vec<(String, f64, f64)>,
    width: f64,
    height: f64,
}

impl Layout {
    fn new(drawing: &Drawing, graph: &Graph) -> Self {
        let columns = graph.columns();
        let mut lanes: BTreeMap<(usize, &str), BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
        for (index, column) in &columns {
            let stage = drawing.operators[*index].stage.as_str();
            lanes.entry((order(stage), stage)).or_default().entry(*column).or_default().push(*index);
        }
        let (mut places, mut drawn, mut top) = (BTreeMap::new(), Vec::new(), 0.0);
        for ((_, stage), lane) in lanes {
            for (column, indexes) in &lane {
                for (row, index) in indexes.iter().enumerate() {
                    let (x, y) = (LEFT + *column as f64 * COLUMN, top + LANE_HEAD + (row as f64 + 0.5) * ROW);
                    places.insert(*index, (x, y));
                }
            }
            let rows = lane.values().map(Vec::len).max().unwrap_or_default();
            let height = LANE_HEAD + rows as f64 * ROW + 6.0;
            drawn.push((stage.to_owned(), top, height));
            top += height;
        }
        let last = columns.values().copied().max().unwrap_or_default();
        Layout { places, lanes: drawn, width: LEFT * 2.0 + (last as f64 + 1.0) * COLUMN, height: top }
    }
}

fn svg(drawing: &Drawing, all: bool) -> String {
    let mut graph = Graph::new(drawing);
    let total = drawing.total_us();
    if !all {
        for (index, operator) in drawing.operators.iter().enumerate() {
            if is_negligible(operator, total) {
                graph.leave_out(index);
            }
        }
    }
    let layout = Layout::new(drawing, &graph);
    let most = drawing.operators.iter().map(|operator| operator.self_us).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = String::new();
    for (index, (stage, top, height)) in layout.lanes.iter().enumerate() {
        lane(&mut svg, index, stage, *top, *height, layout.width);
    }
    for (source, targets) in &graph.to {
        for (target, flow) in targets {
            way(&mut svg, drawing, &layout, most, (*source, *target), flow);
        }
    }
    for index in &graph.shown {
        bar(&mut svg, &drawing.operators[*index], *index, layout.places[index], most, total);
    }
    format!(
        "<svg class=\"dataflow\" width=\"{0:.0}\" height=\"{1:.0}\" viewBox=\"0 0 {0:.0} {1:.0}\" role=\"img\" \
         aria-label=\"{2} operators\">{svg}</svg>",
        layout.width,
        layout.height,
        graph.shown.len()
    )
}

fn is_negligible(operator: &Node, total: f64) -> bool {
    let is_sort = SORTS.iter().any(|sort| operator.name.starts_with(sort));
    is_sort && operator.arranged == 0 && operator.self_us < total * NEGLIGIBLE
}

fn lane(svg: &mut String, index: usize, stage: &str, top: f64, height: f64, width: f64) {
    let _always_fits = write!(
        svg,
        "<rect class=\"lane l{}\" x=\"0\" y=\"{top:.1}\" width=\"{width:.0}\" height=\"{height:.1}\"/>",
        index % 2
    );
    let mut x = 8.0;
    while x < width {
        let _always_fits =
            write!(svg, "<text class=\"lane-name\" x=\"{x:.0}\" y=\"{:.1}\">{}</text>", top + 14.0, escape(stage));
        x += LANE_NAMES;
    }
}

/// The width of a bar: by the root of its time, so that the small ones can be told apart.
fn width(operator: &Node, most: f64) -> f64 {
    5.0 + (operator.self_us / most).sqrt() * (BAR - 5.0)
}

fn way(svg: &mut String, drawing: &Drawing, layout: &Layout, most: f64, ends: (usize, usize), flow: &Flow) {
    let (source, target) = ends;
    let ((from_x, from_y), (to_x, to_y)) = (layout.places[&source], layout.places[&target]);
    let from_x = from_x + width(&drawing.operators[source], most);
    let bend = ((to_x - from_x) / 2.0).max(24.0);
    let thickness = 0.7 + (1.0 + flow.records).log10() * 1.3;
    let idle = if flow.records > 0.0 { "" } else { " idle" };
    let _always_fits = write!(
        svg,
        "<path class=\"way{idle}\" data-s=\"{source}\" data-t=\"{target}\" stroke-width=\"{thickness:.2}\" \
         d=\"M{from_x:.1} {from_y:.1}C{:.1} {from_y:.1} {:.1} {to_y:.1} {to_x:.1} {to_y:.1}\">\
         <title>{} to {}\n{} messages, {} updates an epoch\n{}</title></path>",
        from_x + bend,
        to_x - bend,
        escape(&drawing.operators[source].name),
        escape(&drawing.operators[target].name),
        crate::format::digits(flow.messages),
        crate::format::digits(flow.records),
        escape(&flow.data)
    );
}

fn bar(svg: &mut String, operator: &Node, index: usize, (x, y): (f64, f64), most: f64, total: f64) {
    let share = operator.self_us / total.max(f64::MIN_POSITIVE);
    let heat = (operator.self_us / most).sqrt();
    let held = if operator.arranged > 0 {
        let length = (1.0 + operator.arranged as f64).log10() * 12.0;
        format!(
            "<line class=\"held\" x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
            x + length,
            y + BAR_HEIGHT / 2.0 + 3.5,
            y + BAR_HEIGHT / 2.0 + 3.5
        )
    } else {
        String::new()
    };
    let arranged = if operator.arranged > 0 {
        format!("\n{} updates held in {} batches", quantity(operator.arranged as f64, ""), operator.batches)
    } else {
        String::new()
    };
    let dear = if heat > 0.5 { " dear" } else { "" };
    let _always_fits = write!(
        svg,
        "<g class=\"op{dear}\" data-i=\"{index}\"><title>{} ({})\n{} an epoch, {} %\n{} calls an epoch{arranged}</title>\
         <rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\" style=\"--heat:{heat:.3}\"/>{held}\
         <text x=\"{x:.1}\" y=\"{:.1}\">{}</text></g>",
        escape(&operator.name),
        escape(&operator.stage),
        quantity(operator.self_us, "us"),
        crate::format::digits(share * 100.0),
        crate::format::digits(operator.calls),
        y - BAR_HEIGHT / 2.0,
        width(operator, most),
        y - BAR_HEIGHT / 2.0 - 3.0,
        escape(&cut(&operator.name))
    );
}

/// As much of a name as a column has room for.
fn cut(name: &str) -> String {
    if name.chars().count() <= LETTERS {
        return name.to_owned();
    }
    let kept: String = name.chars().take(LETTERS - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drawing::Edge;

    fn drawing() -> Drawing {
        let node = |name: &str, self_us: f64| Node { name: name.to_owned(), self_us, ..Node::default() };
        let edge = |source: usize, target: usize| Edge { source, target, records: 3.0, ..Edge::default() };
        Drawing {
            operators: vec![node("Input", 9.0), node("Map", 0.1), node("services by name", 60.0), node("Input", 5.0)],
            channels: vec![edge(0, 1), edge(1, 2), edge(3, 2)],
            ..Drawing::default()
        }
    }

    #[test]
    fn what_costs_nothing_and_has_no_name_is_left_out_of_the_first_form() {
        let drawing = drawing();
        let count = |all: bool| svg(&drawing, all).matches("<g class=\"op").count();
        assert_eq!((count(false), count(true)), (3, 4));
        let ways = |all: bool| svg(&drawing, all).matches("<path class=\"way\"").count();
        assert_eq!((ways(false), ways(true)), (2, 3));
    }

    #[test]
    fn rows_go_to_the_right_and_sources_stand_before_what_they_send_to() {
        let columns = Graph::new(&drawing()).columns();
        assert_eq!(columns, BTreeMap::from([(0, 0), (1, 1), (2, 2), (3, 1)]));
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(cut("virtual hosts without entries"), "virtual hosts withou…");
        assert_eq!(cut("members"), "members");
    }
}
