//! Tables as `ceph` prints them: columns as wide as their widest cell, two blanks apart, every line filled up.

use std::fmt::Write;

/// The side to which the cells of a column lean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lean {
    Left,
    Right,
}

/// A table with a heading line.
#[derive(Debug, Default)]
pub struct TextTable {
    headings: Vec<(String, Lean, Lean)>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub fn new() -> TextTable {
        TextTable::default()
    }

    /// Adds a column with its heading, and the sides to which heading and cells lean.
    #[must_use]
    pub fn column(mut self, heading: &str, heading_lean: Lean, cells_lean: Lean) -> TextTable {
        self.headings.push((heading.to_owned(), heading_lean, cells_lean));
        self
    }

    /// Adds columns whose headings and cells lean to the left (`l`) or right (`r`), headings left if `L` or `R`:
    /// `[("ID", 'R')]` is a heading on the left over numbers on the right.
    pub fn with_columns(columns: &[(&str, char)]) -> TextTable {
        columns.iter().fold(TextTable::new(), |table, (heading, lean)| match lean {
            'l' | 'L' => table.column(heading, Lean::Left, Lean::Left),
            'R' => table.column(heading, Lean::Left, Lean::Right),
            'r' => table.column(heading, Lean::Right, Lean::Right),
            other => panic!("'{other}' is no alignment"),
        })
    }

    /// Adds a line. Panics if the number of cells is not that of the columns.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.headings.len(), "one cell for each column: {cells:?}");
        self.rows.push(cells);
    }

    /// Returns the text, each line with an end. `headings`: true to begin with the heading line.
    pub fn render(&self, headings: bool) -> String {
        let chars = |text: &str| text.chars().count();
        let widths: Vec<usize> = (0..self.headings.len())
            .map(|i| {
                let cells = self.rows.iter().map(|row| chars(&row[i])).max().unwrap_or(0);
                if headings { cells.max(chars(&self.headings[i].0)) } else { cells }
            })
            .collect();
        let mut out = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = (&str, Lean)>| {
            for (i, (cell, lean)) in cells.enumerate() {
                let (gap, width) = (if i == 0 { "" } else { "  " }, widths[i]);
                match lean {
                    Lean::Left => write!(out, "{gap}{cell:<width$}"),
                    Lean::Right => write!(out, "{gap}{cell:>width$}"),
                }
                .expect("writing to a string");
            }
            out.push('\n');
        };
        if headings {
            line(&mut self.headings.iter().map(|(text, lean, _)| (text.as_str(), *lean)));
        }
        for row in &self.rows {
            line(&mut row.iter().zip(&self.headings).map(|(cell, (_, _, lean))| (cell.as_str(), *lean)));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_filled_up() {
        let mut table = TextTable::with_columns(&[("ID", 'R'), ("NAME", 'l'), ("N", 'r')]);
        table.row(vec!["-1".into(), "default".into(), "1.00".into()]);
        table.row(vec!["10".into(), "a".into(), String::new()]);
        assert_eq!(table.render(true), "ID  NAME        N\n-1  default  1.00\n10  a            \n");
    }
}
