//! Pages as Markdown.

use std::fmt::Write;

use crate::explorer::Explorer;
use crate::figure::{Figure, Plot};
use crate::page::{Block, Page};
use crate::table::{Cell, Column, Table};

/// Writes one row of a table. Bars and line ends in cells cannot end them.
fn row(out: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|").replace(['\n', '\r'], " ")).collect();
    writeln!(out, "| {} |", cells.join(" | ")).expect("writing to a string");
}

fn head(out: &mut String, cells: &[String]) {
    row(out, cells.iter().cloned());
    writeln!(out, "|{}", "---|".repeat(cells.len())).expect("writing to a string");
}

impl Table {
    /// The table as Markdown, without its caption.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        head(&mut out, &self.columns.iter().map(Column::title).collect::<Vec<_>>());
        for cells in self.rows() {
            row(&mut out, cells.iter().map(Cell::shown));
        }
        out
    }
}

impl Page {
    /// The page as Markdown. Figures are left out, except that a line names the points that they mark.
    pub fn to_markdown(&self) -> String {
        let mut out = format!("# {}\n", one_line(&self.title));
        for block in &self.opening {
            self::block(&mut out, block);
        }
        for section in &self.sections {
            write!(out, "\n## {}\n", one_line(&section.title)).expect("writing to a string");
            for block in &section.blocks {
                self::block(&mut out, block);
            }
        }
        out
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Writes a block behind an empty line.
fn block(out: &mut String, block: &Block) {
    let text = match block {
        Block::Prose(text) => format!("{text}\n"),
        Block::List(items) => items.iter().map(|item| format!("- {}\n", one_line(item))).collect(),
        Block::Facts(facts) => {
            facts.iter().map(|(name, value)| format!("- {}: {}\n", one_line(name), one_line(value))).collect()
        }
        Block::Note(text) => format!("Note: {text}\n"),
        Block::Warning { label, text } => format!("**{label}**: {text}\n"),
        Block::Table(table) if table.caption.is_empty() => table.to_markdown(),
        Block::Table(table) => format!("{}\n\n{}", table.caption, table.to_markdown()),
        Block::Figure(figure) => marks(figure),
        Block::Explorer(explorer) => chosen(explorer),
    };
    if !text.is_empty() {
        write!(out, "\n{text}").expect("writing to a string");
    }
}

fn marks(figure: &Figure) -> String {
    let Plot::Lines { series, .. } = &figure.plot else { return String::new() };
    let marks = series.iter().flat_map(|one| one.marks.iter().map(move |mark| (one, mark)));
    marks.map(|(one, mark)| format!("- {}, {}: {}\n", figure.title, one.name, one_line(&mark.words))).collect()
}

fn chosen(explorer: &Explorer) -> String {
    let made: Vec<String> = explorer
        .controls()
        .iter()
        .map(|control| format!("{} {}", control.label, control.choices[control.chosen]))
        .collect();
    let mut out = format!("{} With {}:\n\n", explorer.caption, made.join(", "));
    head(&mut out, &["".into(), "value".into()]);
    for (name, value) in explorer.chosen() {
        row(&mut out, [name, value].into_iter().map(str::to_owned));
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::page::tests::sample;

    #[test]
    fn a_page() {
        let text = sample().to_markdown();
        for words in [
            "# A <page>\n\nFirst & last.\n",
            "\n**Warning**: hot\n",
            "\n## Numbers\n\nAll of them.\n\n| name | rate MB/s | news |\n|---|---|---|\n| a\\|b | 12.50 | good |\n",
            "- Curve, nacre: knee at 2\n",
            "With a 2, b 1:\n\n|  | value |\n",
        ] {
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
    }
}
