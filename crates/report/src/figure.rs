//! Figures: lines over an axis, and bars.

use serde::Serialize;

pub use crate::axis::Scale;

/// A figure, with words for those who cannot see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name for files and links: letters, digits and hyphens.
    pub name: String,
    pub title: String,
    /// A sentence on the content, which also stands below the figure.
    pub caption: String,
    pub plot: Plot,
}

/// The way in which a figure is drawn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Plot {
    /// Lines through points.
    Lines { x: Axis, y: Axis, series: Vec<Series> },
    /// Horizontal bars.
    Bars(Bars),
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Axis {
    pub label: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unit: String,
    pub scale: Scale,
}

/// Points in the order in which they are joined.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    pub name: String,
    /// (x, y) in the axes' units.
    pub points: Vec<(f64, f64)>,
    /// Points that are made to stand out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
}

/// A point with words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    pub x: f64,
    pub y: f64,
    pub words: String,
}

/// Groups of bars, one group for each category.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bars {
    pub axis: Axis,
    pub categories: Vec<String>,
    /// Name and values by category; `None` is not known.
    pub series: Vec<(String, Vec<Option<f64>>)>,
    /// Bars of a category stand behind each other and add up.
    pub stacked: bool,
}

impl Axis {
    pub fn new(label: impl Into<String>, unit: impl Into<String>, scale: Scale) -> Axis {
        Axis { label: label.into(), unit: unit.into(), scale }
    }

    /// Label and unit.
    pub fn title(&self) -> String {
        if self.unit.is_empty() { self.label.clone() } else { format!("{}, {}", self.label, self.unit) }
    }
}

impl Series {
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, marks: Vec::new() }
    }
}

impl Figure {
    /// A line per point or bar for people who read instead of looking: series, x or category, y.
    pub(crate) fn rows(&self) -> Vec<[String; 3]> {
        use crate::number::{ABSENT, significant};
        match &self.plot {
            Plot::Lines { series, .. } => series
                .iter()
                .flat_map(|one| one.points.iter().map(|(x, y)| [one.name.clone(), significant(*x), significant(*y)]))
                .collect(),
            Plot::Bars(bars) => bars
                .series
                .iter()
                .flat_map(|(name, values)| {
                    bars.categories.iter().zip(values).map(move |(category, value)| {
                        let value = value.map_or(ABSENT.into(), significant);
                        [name.clone(), category.clone(), value]
                    })
                })
                .collect(),
        }
    }

    /// Headings of [`Figure::rows`].
    pub(crate) fn heads(&self) -> [String; 3] {
        match &self.plot {
            Plot::Lines { x, y, .. } => ["series".into(), x.title(), y.title()],
            Plot::Bars(bars) => ["series".into(), "of".into(), bars.axis.title()],
        }
    }
}
