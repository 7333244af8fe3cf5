//! The document.

use serde::Serialize;

use crate::explorer::Explorer;
use crate::figure::Figure;
use crate::table::Table;

/// Value of the field `format` of a page in JSON.
pub const PAGE_FORMAT: &str = "nacre-report";
/// Version of pages in JSON.
pub const PAGE_VERSION: u32 = 1;

/// A page: blocks that come first, then sections.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page {
    pub title: String,
    /// Blocks before the first section.
    pub opening: Vec<Block>,
    pub sections: Vec<Section>,
}

/// A part of a page under a heading.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    pub title: String,
    pub blocks: Vec<Block>,
}

/// A block of a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// A paragraph of plain text.
    Prose(String),
    List(Vec<String>),
    /// Names and their values.
    Facts(Vec<(String, String)>),
    Note(String),
    /// Bad news; the label is one word, such as `Failed`.
    Warning {
        label: String,
        text: String,
    },
    Table(Table),
    Figure(Figure),
    Explorer(Explorer),
}

impl Page {
    pub fn new(title: impl Into<String>) -> Page {
        Page { title: title.into(), opening: Vec::new(), sections: Vec::new() }
    }

    /// Adds a section, unless it has no blocks.
    pub fn section(&mut self, title: impl Into<String>, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.sections.push(Section { title: title.into(), blocks });
        }
    }

    /// All tables, in their order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.blocks().filter_map(|block| if let Block::Table(table) = block { Some(table) } else { None })
    }

    /// All blocks, in their order.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.opening.iter().chain(self.sections.iter().flat_map(|section| &section.blocks))
    }

    /// The page as JSON, which begins with `format` and `version`.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Versioned<'a> {
            format: &'static str,
            version: u32,
            #[serde(flatten)]
            page: &'a Page,
        }
        let versioned = Versioned { format: PAGE_FORMAT, version: PAGE_VERSION, page: self };
        serde_json::to_string_pretty(&versioned).expect("a page has only strings as keys")
    }
}

impl Block {
    pub fn warning(label: impl Into<String>, text: impl Into<String>) -> Block {
        Block::Warning { label: label.into(), text: text.into() }
    }
}

impl From<Table> for Block {
    fn from(table: Table) -> Block {
        Block::Table(table)
    }
}

impl From<Explorer> for Block {
    fn from(explorer: Explorer) -> Block {
        Block::Explorer(explorer)
    }
}

impl From<Figure> for Block {
    fn from(figure: Figure) -> Block {
        Block::Figure(figure)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::figure::{Axis, Bars, Mark, Plot, Scale, Series};
    use crate::table::{Cell, Column, Tone};

    /// A page with one block of each kind.
    pub(crate) fn sample() -> Page {
        let mut page = Page::new("A <page>");
        page.opening = vec![
            Block::Prose("First & last.".into()),
            Block::Facts(vec![("kernel".into(), "6.1".into())]),
            Block::List(vec!["one".into()]),
            Block::Note("cool".into()),
            Block::warning("Warning", "hot"),
        ];
        let columns = vec![Column::text("name"), Column::number("rate", "MB/s"), Column::text("news")];
        let mut table = Table::new("numbers", "All of them.", columns);
        table.push(vec![
            Cell::text("a|b"),
            Cell::Number(12.5),
            Cell::Verdict { tone: Tone::Good, words: "good".into() },
        ]);
        page.section("Numbers", vec![table.into()]);
        let mut series = Series::new("nacre", vec![(1.0, 1.0), (2.0, 2.1), (3.0, 3.0)]);
        series.marks.push(Mark { x: 2.0, y: 2.1, words: "knee at 2".into() });
        let figure =
            |title: &str, plot| Figure { name: "f".into(), title: title.into(), caption: "Caption.".into(), plot };
        let axis = |label: &str, unit: &str| Axis::new(label, unit, Scale::Linear);
        let bars = Bars {
            axis: axis("cores", ""),
            categories: vec!["a".into(), "b".into()],
            series: vec![("usr".into(), vec![Some(2.0), None])],
            stacked: false,
        };
        page.section(
            "Figures",
            vec![
                figure("Curve", Plot::Lines { x: axis("rate", ""), y: axis("latency", "ms"), series: vec![series] })
                    .into(),
                figure("Cores", Plot::Bars(bars)).into(),
            ],
        );
        page.section("Choices", vec![Block::Explorer(crate::explorer::tests::sample())]);
        page.section("Nothing", vec![]);
        page
    }

    #[test]
    fn json_begins_with_its_version() {
        let json = sample().to_json();
        assert!(json.starts_with("{\n  \"format\": \"nacre-report\",\n  \"version\": 1,\n  \"title\": \"A <page>\","));
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["sections"].as_array().unwrap().len(), 3, "a section without blocks is none");
        assert_eq!(read["sections"][0]["blocks"][0]["table"]["rows"][0][1]["number"], 12.5);
    }
}
