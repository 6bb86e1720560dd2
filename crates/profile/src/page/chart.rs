//! Curves.

use crate::format::{digits, escape, quantity};
use crate::report::{Line, Plot};
use std::fmt::Write;

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 120.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 44.0;

/// Between two labels at the ends of lines, at least.
const LABEL_GAP: f64 = 15.0;

/// A scale: from values to places.
struct Scale {
    log: bool,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// Logarithmic where values differ by more than `ratio`, else from 0 on.
    fn new(values: impl Iterator<Item = f64>, ratio: f64, start: f64, end: f64) -> Self {
        let (low, high) =
            values.fold((f64::MAX, 0.0), |(low, high), value| (f64::min(low, value), f64::max(high, value)));
        let log = low > 0.0 && high / low > ratio;
        let (from, to) = if log {
            (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil()))
        } else {
            (0.0, if high > 0.0 { high * 1.1 } else { 1.0 })
        };
        Scale { log, from, to, start, end }
    }

    fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.from) / self.from).log10() / (self.to / self.from).log10()
        } else {
            value / self.to
        };
        self.start + share * (self.end - self.start)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let decades = (self.to / self.from).log10().round();
            let steps: &[f64] = if decades <= 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let mut ticks = Vec::new();
            let mut decade = self.from;
            while decade <= self.to * 1.001 {
                ticks.extend(steps.iter().map(|step| decade * step).filter(|tick| *tick <= self.to * 1.001));
                decade *= 10.0;
            }
            return ticks;
        }
        let rough = self.to / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|of| of * power).find(|of| *of >= rough).unwrap_or(rough);
        (0..).map(|index| f64::from(index) * step).take_while(|tick| *tick <= self.to).collect()
    }
}

/// A plot with its title.
pub(super) fn plot(plot: &Plot) -> String {
    let points = || plot.lines.iter().flat_map(|line| line.points.iter());
    let x = Scale::new(points().map(|(x, _)| *x), 5.0, LEFT, WIDTH - RIGHT);
    let y = Scale::new(points().map(|(_, y)| *y), 20.0, HEIGHT - BOTTOM, TOP);
    let mut svg = String::new();
    axes(&mut svg, plot, &x, &y);
    let mut labels = Vec::new();
    for (index, line) in plot.lines.iter().enumerate() {
        curve(&mut svg, plot, line, index, &x, &y);
        if let Some((_, last)) = line.points.last() {
            labels.push((y.at(*last), index, line.name.as_str()));
        }
    }
    // Labels at the ends of lines, moved apart.
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut above = f64::MIN;
    for (place, index, name) in labels {
        above = f64::max(place, above + LABEL_GAP);
        let _always_fits = write!(
            svg,
            "<text class=\"label s{index}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT + 10.0,
            above + 4.0,
            escape(name)
        );
    }
    format!(
        "<figure class=\"card\"><figcaption><b>{}</b><span>{} by number of {}</span></figcaption>\
         <svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} by number of {}\">{svg}</svg>\
         </figure>\n",
        escape(&plot.title),
        escape(&plot.y),
        escape(&plot.x),
        escape(&plot.title),
        escape(&plot.x)
    )
}

fn axes(svg: &mut String, plot: &Plot, x: &Scale, y: &Scale) {
    for tick in y.ticks() {
        let place = y.at(tick);
        let _always_fits = write!(
            svg,
            "<line class=\"rule\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{place:.1}\" y2=\"{place:.1}\"/>\
             <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            place + 4.0,
            escape(&quantity(tick, &plot.unit))
        );
    }
    for tick in x.ticks() {
        let place = x.at(tick);
        let _always_fits = write!(
            svg,
            "<line class=\"mark\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <text class=\"tick\" text-anchor=\"middle\" x=\"{place:.1}\" y=\"{:.1}\">{}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 5.0,
            HEIGHT - BOTTOM + 19.0,
            escape(&short(tick))
        );
    }
    let _always_fits = write!(
        svg,
        "<text class=\"axis\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 6.0,
        escape(&plot.x)
    );
}

fn curve(svg: &mut String, plot: &Plot, line: &Line, index: usize, x: &Scale, y: &Scale) {
    let path: Vec<String> =
        line.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x.at(*at), y.at(*value))).collect();
    let _always_fits = write!(svg, "<polyline class=\"curve s{index}\" points=\"{}\"/>", path.join(" "));
    for (at, value) in &line.points {
        let _always_fits = write!(
            svg,
            "<circle class=\"dot s{index}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}: {} at {} {}</title></circle>",
            x.at(*at),
            y.at(*value),
            escape(&line.name),
            escape(&quantity(*value, &plot.unit)),
            escape(&quantity(*at, "")),
            escape(&plot.x)
        );
    }
}

/// A count as an axis has it: 50k.
fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{}M", digits(value / 1e6)),
        _ if value >= 1e3 => format!("{}k", digits(value / 1e3)),
        _ => digits(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_have_few_ticks_within_their_range() {
        for values in [vec![1.0, 2.0], vec![100.0, 10_000.0], vec![3.0, 3.0], vec![0.0], vec![0.02, 9e5]] {
            let scale = Scale::new(values.iter().copied(), 20.0, 0.0, 100.0);
            let ticks = scale.ticks();
            assert!((2..=9).contains(&ticks.len()), "{values:?}: {ticks:?}");
            for value in values.iter().chain(&ticks) {
                let place = scale.at(*value);
                assert!((-0.1..=100.1).contains(&place), "{values:?}: {value} is at {place}");
            }
        }
    }

    #[test]
    fn labels_of_lines_that_end_together_stand_apart() {
        let line = |name: &str| Line { name: name.to_owned(), points: vec![(1.0, 5.0), (10.0, 5.0)] };
        let text = plot(&Plot { lines: vec![line("a"), line("b & c")], unit: "us".to_owned(), ..Plot::default() });
        let places: Vec<&str> = text
            .split("class=\"label")
            .skip(1)
            .filter_map(|label| label.split("y=\"").nth(1)?.split('"').next())
            .collect();
        assert_eq!(places.len(), 2);
        assert_ne!(places[0], places[1]);
        assert!(text.contains("b &amp; c: 5 µs at 10"), "{text}");
    }
}
