//! Tables with typed cells and units.

use serde::Serialize;

use crate::number::{ABSENT, significant};

/// A table. Every row has a cell for each column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Name for files and links: letters, digits and hyphens.
    pub name: String,
    /// A sentence over the table.
    pub caption: String,
    pub columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// A column: its heading and the unit of its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    pub heading: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Cells are aligned to the right.
    pub numeric: bool,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    Text(String),
    Count(u64),
    /// A number in the column's unit.
    Number(f64),
    /// A median with the ends of its confidence interval.
    Spread {
        median: f64,
        low: f64,
        high: f64,
    },
    /// The ends of an interval.
    Range {
        low: f64,
        high: f64,
    },
    /// 0 to 100.
    Percent(f64),
    /// Words that say good or bad news.
    Verdict {
        tone: Tone,
        words: String,
    },
    /// Not known.
    Absent,
}

/// The kind of news that a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    Good,
    Bad,
    Neutral,
}

impl Column {
    /// A column of words.
    pub fn text(heading: impl Into<String>) -> Column {
        Column { heading: heading.into(), unit: String::new(), numeric: false }
    }

    /// A column of numbers in `unit`, which may be empty.
    pub fn number(heading: impl Into<String>, unit: impl Into<String>) -> Column {
        Column { heading: heading.into(), unit: unit.into(), numeric: true }
    }

    /// Heading and unit.
    pub fn title(&self) -> String {
        match (self.heading.is_empty(), self.unit.is_empty()) {
            (_, true) => self.heading.clone(),
            (true, false) => self.unit.clone(),
            (false, false) => format!("{} {}", self.heading, self.unit),
        }
    }
}

impl Cell {
    /// A number, or [`Cell::Absent`] for none and for what is no number.
    pub fn number(value: Option<f64>) -> Cell {
        value.filter(|value| value.is_finite()).map_or(Cell::Absent, Cell::Number)
    }

    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// The cell as people read it.
    pub fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => count.to_string(),
            Cell::Number(value) => significant(*value),
            Cell::Spread { median, low, high } if *median != 0.0 => {
                format!("{} ±{:.1} %", significant(*median), (high - low) / 2.0 / median.abs() * 100.0)
            }
            Cell::Spread { median, .. } => significant(*median),
            Cell::Range { low, high } => format!("{} to {}", significant(*low), significant(*high)),
            Cell::Percent(value) => format!("{value:.1} %"),
            Cell::Verdict { words, .. } => words.clone(),
            Cell::Absent => ABSENT.into(),
        }
    }

    /// The cell for programs: numbers unrounded, empty if not known.
    fn raw(&self) -> String {
        match self {
            Cell::Number(value) | Cell::Percent(value) => value.to_string(),
            Cell::Spread { median, .. } => median.to_string(),
            Cell::Absent => String::new(),
            other => other.shown(),
        }
    }
}

impl Table {
    /// A table without rows.
    pub fn new(name: impl Into<String>, caption: impl Into<String>, columns: Vec<Column>) -> Table {
        Table { name: name.into(), caption: caption.into(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// Panics if it has not a cell for each column.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "a row of table {} does not fit its columns", self.name);
        self.rows.push(row);
    }

    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as CSV (RFC 4180): a line of headings, then a line per row with unrounded numbers.
    pub fn to_csv(&self) -> String {
        let line =
            |fields: Vec<String>| fields.iter().map(|field| csv_field(field)).collect::<Vec<_>>().join(",") + "\n";
        let mut out = line(self.columns.iter().map(Column::title).collect());
        out.extend(self.rows.iter().map(|row| line(row.iter().map(Cell::raw).collect())));
        out
    }
}

/// Quotes a field where it needs that. A field that a spreadsheet would take for a formula gets a quote in front,
/// except numbers.
pub fn csv_field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_as_people_read_them() {
        for (cell, want) in [
            (Cell::Spread { median: 100.0, low: 98.0, high: 102.0 }, "100.0 ±2.0 %"),
            (Cell::Spread { median: 0.0, low: 0.0, high: 1.0 }, "0.000"),
            (Cell::Range { low: 1.0, high: 2.5 }, "1.000 to 2.500"),
            (Cell::Percent(93.75), "93.8 %"),
            (Cell::number(Some(f64::NAN)), ABSENT),
            (Cell::number(None), ABSENT),
            (Cell::Count(7), "7"),
        ] {
            assert_eq!(cell.shown(), want);
        }
        assert_eq!(Column::number("mean", "us").title(), "mean us");
        assert_eq!(Column::number("", "MB/s").title(), "MB/s");
    }

    #[test]
    fn csv_is_unrounded_and_quoted() {
        let mut table = Table::new("t", "", vec![Column::text("name, of it"), Column::number("rate", "MB/s")]);
        table.push(vec![Cell::text("a \"b\""), Cell::Number(1.234_567)]);
        table.push(vec![Cell::text("=1+1"), Cell::Absent]);
        table.push(vec![Cell::text("-5"), Cell::Spread { median: 2.0, low: 1.0, high: 3.0 }]);
        assert_eq!(table.to_csv(), "\"name, of it\",rate MB/s\n\"a \"\"b\"\"\",1.234567\n'=1+1,\n-5,2\n");
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn rows_fit_their_columns() {
        Table::new("t", "", vec![Column::text("a")]).push(vec![]);
    }
}
