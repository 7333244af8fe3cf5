//! Plots as SVG, whose colours come from the page's style sheet.
//!
//! Series differ by colour, by dashes and by the shape of their points, so that no reader depends on colour.

use std::fmt::Write;

use crate::axis::{Range, Scale};
use crate::escape::escape;
use crate::figure::{Axis, Bars, Series};
use crate::number::short;

/// Size of a plot of lines, and of the space around its area, in pixels of the drawing.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 48.0;
/// Largest number of points for which each has a shape.
const SHAPES_MAX: usize = 48;
/// Points that a line keeps; of longer ones, each part gives its lowest and its highest.
const POINTS_MAX: usize = 600;
/// Styles of series in the style sheet.
const STYLES: usize = 8;
/// Height of a bar, and of the space around those of a category.
const BAR: f64 = 16.0;
const BAR_GAP: f64 = 12.0;
/// Width for the names of categories.
const NAMES: f64 = 190.0;
/// Characters of a category's name that fit.
const NAME_CHARS: usize = 30;

/// The shape of series `index` around (x, y).
fn shape(index: usize, x: f64, y: f64, title: &str) -> String {
    let r = 4.0;
    let inner = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) };
    let path = match index % 5 {
        0 => return format!("<circle class=\"p\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\">{inner}</circle>"),
        1 => [(-r, -r), (r, -r), (r, r), (-r, r)].to_vec(),
        2 => [(0.0, -r * 1.2), (r * 1.2, r), (-r * 1.2, r)].to_vec(),
        3 => [(0.0, -r * 1.4), (r * 1.4, 0.0), (0.0, r * 1.4), (-r * 1.4, 0.0)].to_vec(),
        _ => [(-r * 1.2, -r), (r * 1.2, -r), (0.0, r * 1.2)].to_vec(),
    };
    let points: Vec<String> = path.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
    format!("<polygon class=\"p\" points=\"{}\">{inner}</polygon>", points.join(" "))
}

/// A line and a point of series `index`, for a legend.
pub(crate) fn key(index: usize) -> String {
    format!(
        "<svg class=\"key s{}\" width=\"34\" height=\"14\" viewBox=\"0 0 34 14\" aria-hidden=\"true\">\
         <path class=\"l\" d=\"M1 7H33\"/>{}</svg>",
        index % STYLES,
        shape(index, 17.0, 7.0, "")
    )
}

/// A filled square of series `index`, for a legend of bars.
pub(crate) fn bar_key(index: usize) -> String {
    format!(
        "<svg class=\"key s{}\" width=\"14\" height=\"14\" viewBox=\"0 0 14 14\" aria-hidden=\"true\">\
         <rect class=\"b\" width=\"14\" height=\"14\"/></svg>",
        index % STYLES
    )
}

/// At most about [`POINTS_MAX`] of `points`, with the extremes of what is left out.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let parts = POINTS_MAX / 2;
    let mut kept = Vec::with_capacity(POINTS_MAX);
    for part in 0..parts {
        let part = &points[part * points.len() / parts..(part + 1) * points.len() / parts];
        let low = (0..part.len()).min_by(|a, b| part[*a].1.total_cmp(&part[*b].1));
        let high = (0..part.len()).max_by(|a, b| part[*a].1.total_cmp(&part[*b].1));
        let (Some(low), Some(high)) = (low, high) else { continue };
        kept.push(part[low.min(high)]);
        if low != high {
            kept.push(part[low.max(high)]);
        }
    }
    kept
}

/// Opens the element, which `title` and `description` describe to those who do not see it.
fn open(id: &str, height: f64, title: &str, description: &str) -> String {
    format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
        escape(title),
        escape(description)
    )
}

/// Lines over an axis.
pub(crate) fn lines(id: &str, words: (&str, &str), x: &Axis, y: &Axis, series: &[Series]) -> String {
    let all = || series.iter().flat_map(|one| &one.points);
    // An axis of time or load begins where its values begin.
    let across = Range::around(x.scale, all().map(|point| point.0));
    let up = Range::around(y.scale, all().map(|point| point.1));
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let place = |point: (f64, f64)| {
        let (x, y) = (across.place(point.0)?, up.place(point.1)?);
        Some((LEFT + x * (right - LEFT), bottom - y * (bottom - TOP)))
    };
    let mut out = open(id, HEIGHT, words.0, words.1);
    for tick in &up.ticks {
        let at = bottom - up.place(*tick).unwrap_or(0.0) * (bottom - TOP);
        write!(
            out,
            "<path class=\"g\" d=\"M{LEFT} {at:.1}H{right}\"/><text class=\"t e\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            short(*tick)
        )
        .expect("writing to a string");
    }
    for tick in &across.ticks {
        let at = LEFT + across.place(*tick).unwrap_or(0.0) * (right - LEFT);
        write!(
            out,
            "<path class=\"g\" d=\"M{at:.1} {TOP}V{bottom}\"/><text class=\"t m\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 18.0,
            short(*tick)
        )
        .expect("writing to a string");
    }
    write!(
        out,
        "<path class=\"a\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\
         <text class=\"h m\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
         <text class=\"h m\" transform=\"translate(15 {:.1}) rotate(-90)\">{}</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 8.0,
        escape(&scaled(x)),
        (TOP + bottom) / 2.0,
        escape(&scaled(y))
    )
    .expect("writing to a string");
    for (index, one) in series.iter().enumerate() {
        write!(out, "<g class=\"s{}\">", index % STYLES).expect("writing to a string");
        let mut path = String::new();
        let mut pen_down = false;
        for point in thinned(&one.points) {
            let Some((x, y)) = place(point) else {
                pen_down = false;
                continue;
            };
            write!(path, "{}{x:.1} {y:.1}", if pen_down { "L" } else { "M" }).expect("writing to a string");
            pen_down = true;
        }
        write!(out, "<path class=\"l\" d=\"{path}\"/>").expect("writing to a string");
        if one.points.len() <= SHAPES_MAX {
            for point in &one.points {
                let Some((x, y)) = place(*point) else { continue };
                let title = format!("{}: {} at {}", one.name, short(point.1), short(point.0));
                out.push_str(&shape(index, x, y, &title));
            }
        }
        out.push_str("</g>");
    }
    out.push_str(&marks(series, &place));
    out + "</svg>"
}

/// The axis' title, with a word on its scale.
fn scaled(axis: &Axis) -> String {
    match axis.scale {
        Scale::Linear => axis.title(),
        Scale::Log => format!("{} (logarithmic)", axis.title()),
    }
}

/// Rings around marked points, numbered; the list below the figure has their words.
fn marks(series: &[Series], place: &impl Fn((f64, f64)) -> Option<(f64, f64)>) -> String {
    let mut out = String::new();
    let all = series.iter().flat_map(|one| &one.marks).enumerate();
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for (number, mark) in all {
        let Some((x, y)) = place((mark.x, mark.y)) else { continue };
        // The number stands above its ring, or higher where another one stands already.
        let at = x.clamp(LEFT + 12.0, WIDTH - RIGHT - 12.0);
        let mut above = y - 13.0;
        while taken.iter().any(|(x, y)| (x - at).abs() < 18.0 && (y - above).abs() < 14.0) {
            above -= 14.0;
        }
        let above = if above < TOP + 8.0 { y + 24.0 } else { above };
        taken.push((at, above));
        write!(
            out,
            "<circle class=\"ring\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\"><title>{}</title></circle>\
             <text class=\"n m\" x=\"{at:.1}\" y=\"{above:.1}\">{}</text>",
            escape(&mark.words),
            number + 1
        )
        .expect("writing to a string");
    }
    out
}

/// Horizontal bars, each with its value at its end.
pub(crate) fn bars(id: &str, words: (&str, &str), bars: &Bars) -> String {
    let known = |index: usize| bars.series.iter().filter_map(move |(_, values)| values.get(index).copied().flatten());
    let (values, per_category): (Vec<f64>, usize) = if bars.stacked {
        ((0..bars.categories.len()).map(|index| known(index).sum()).collect(), 1)
    } else {
        ((0..bars.categories.len()).flat_map(known).collect(), bars.series.len().max(1))
    };
    let range = Range::around(Scale::Linear, values.into_iter());
    let group = per_category as f64 * BAR + BAR_GAP;
    let bottom = TOP + group * bars.categories.len() as f64;
    let (left, right) = (NAMES, WIDTH - 60.0);
    let width = |value: f64| range.place(value).unwrap_or(0.0) * (right - left);
    let mut out = open(id, bottom + BOTTOM, words.0, words.1);
    for tick in &range.ticks {
        let at = left + width(*tick);
        write!(
            out,
            "<path class=\"g\" d=\"M{at:.1} {TOP}V{bottom:.1}\"/>\
             <text class=\"t m\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 18.0,
            short(*tick)
        )
        .expect("writing to a string");
    }
    for (index, category) in bars.categories.iter().enumerate() {
        let top = TOP + group * index as f64 + BAR_GAP / 2.0;
        let mut name: String = category.chars().take(NAME_CHARS).collect();
        if category.chars().count() > NAME_CHARS {
            name.push('…');
        }
        write!(
            out,
            "<text class=\"t e\" x=\"{:.1}\" y=\"{:.1}\">{}<title>{}</title></text>",
            left - 8.0,
            top + (group - BAR_GAP) / 2.0 + 4.0,
            escape(&name),
            escape(category)
        )
        .expect("writing to a string");
        let mut from = 0.0;
        for (place, (name, values)) in bars.series.iter().enumerate() {
            let Some(value) = values.get(index).copied().flatten() else { continue };
            let y = if bars.stacked { top } else { top + place as f64 * BAR };
            let start = if bars.stacked { from } else { 0.0 };
            write!(
                out,
                "<g class=\"s{}\"><rect class=\"b\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
                 <title>{}</title></rect></g>",
                place % STYLES,
                left + width(start),
                (width(start + value) - width(start)).max(0.0),
                BAR - 2.0,
                escape(&format!("{category}, {name}: {}", short(value)))
            )
            .expect("writing to a string");
            from += value;
            if !bars.stacked {
                let at = (left + width(value) + 6.0, y + BAR - 5.0);
                write!(out, "<text class=\"t\" x=\"{:.1}\" y=\"{:.1}\">{}</text>", at.0, at.1, short(value))
                    .expect("writing to a string");
            }
        }
        if bars.stacked {
            let at = (left + width(from) + 6.0, top + BAR - 5.0);
            write!(out, "<text class=\"t\" x=\"{:.1}\" y=\"{:.1}\">{}</text>", at.0, at.1, short(from))
                .expect("writing to a string");
        }
    }
    write!(
        out,
        "<path class=\"a\" d=\"M{left} {TOP}V{bottom:.1}H{right}\"/><text class=\"h m\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        (left + right) / 2.0,
        bottom + BOTTOM - 8.0,
        escape(&bars.axis.title())
    )
    .expect("writing to a string");
    out + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis() -> Axis {
        Axis::new("a & b", "us", Scale::Linear)
    }

    #[test]
    fn points_lie_where_their_values_say() {
        let series = [Series::new("s", vec![(0.0, 0.0), (5.0, 5.0), (f64::NAN, 1.0), (10.0, 10.0)])];
        let text = lines("f", ("<t>", "d"), &axis(), &axis(), &series);
        // The area is 630 wide from 70 on, and 276 high down to 292.
        assert!(text.contains("d=\"M70.0 292.0L385.0 154.0M700.0 16.0\""), "{text}");
        assert!(text.contains("&lt;t&gt;") && text.contains("a &amp; b, us"), "{text}");
        assert_eq!(text.matches("<circle class=\"p\"").count(), 3, "what is no number has no point");
    }

    #[test]
    fn long_series_keep_their_extremes() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|n| (f64::from(n), 1.0)).collect();
        (points[12_345].1, points[77_777].1) = (50.0, -7.0);
        let kept = thinned(&points);
        assert!(kept.len() <= POINTS_MAX && kept.windows(2).all(|pair| pair[0].0 < pair[1].0), "{}", kept.len());
        assert!(kept.contains(&(12_345.0, 50.0)) && kept.contains(&(77_777.0, -7.0)));
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let series = vec![("x".to_owned(), vec![Some(10.0), None]), ("y".to_owned(), vec![Some(5.0), Some(2.0)])];
        let mut plot = Bars { axis: axis(), categories: vec!["c".into(), "d".into()], series, stacked: false };
        let widths = |text: &str| -> Vec<String> {
            text.split("<rect ").skip(1).map(|part| part.split("width=\"").nth(1).unwrap()[..5].to_owned()).collect()
        };
        let text = bars("f", ("t", "d"), &plot);
        assert_eq!(widths(&text), ["470.0", "235.0", "94.0\""]);
        plot.stacked = true;
        // Both together are 15, where the axis ends.
        assert_eq!(widths(&bars("f", ("t", "d"), &plot))[0], "313.3");
    }
}
