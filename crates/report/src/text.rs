//! Pages as text for terminals.

use crate::figure::{Bars, Figure, Plot, Series};
use crate::number::{ABSENT, short};
use crate::page::{Block, Page};
use crate::table::{Cell, Column, Table};

/// Blocks of eighths, for small curves.
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of a bar or a small curve.
const BAR_COLUMNS: usize = 40;

impl Page {
    /// The page as text of at most `width` columns, except for words and cells that are longer by themselves.
    /// Characters that command a terminal are replaced.
    pub fn to_text(&self, width: usize) -> String {
        let width = width.max(40);
        let mut out = underlined(&plain(&self.title), '=');
        let mut add = |text: String| {
            if !text.is_empty() {
                out.push('\n');
                out.push_str(&text);
            }
        };
        for block in &self.opening {
            add(self::block(block, width));
        }
        for section in &self.sections {
            add(underlined(&plain(&section.title), '-'));
            for block in &section.blocks {
                add(self::block(block, width));
            }
        }
        out
    }
}

/// `text` without control characters. Line ends become spaces.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_whitespace() {
                ' '
            } else if c.is_control() {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

fn underlined(text: &str, with: char) -> String {
    format!("{text}\n{}\n", with.to_string().repeat(columns(text)))
}

/// `text` in lines of `width`, the first behind `first`, the others behind as many spaces.
fn wrapped(first: &str, text: &str, width: usize) -> String {
    let indent = columns(first);
    let mut out = first.to_owned();
    let mut column = indent;
    for word in plain(text).split_whitespace() {
        if column > indent && column + 1 + columns(word) > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        }
        if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += columns(word);
    }
    out.push('\n');
    out
}

fn block(block: &Block, width: usize) -> String {
    match block {
        Block::Prose(text) => wrapped("", text, width),
        Block::List(items) => items.iter().map(|item| wrapped("* ", item, width)).collect(),
        Block::Facts(facts) => pairs(facts.iter().map(|(name, value)| (name.as_str(), value.as_str())), width),
        Block::Note(text) => wrapped("note: ", text, width),
        Block::Warning { label, text } => wrapped(&format!("{}: ", plain(label).to_lowercase()), text, width),
        Block::Table(table) => {
            let caption = if table.caption.is_empty() { String::new() } else { wrapped("", &table.caption, width) };
            caption + &table.to_text(width)
        }
        Block::Figure(figure) => self::figure(figure, width),
        Block::Explorer(explorer) => {
            let made = explorer.controls().iter().map(|one| format!("{} {}", one.label, one.choices[one.chosen]));
            let words = format!("{} With {}:", explorer.caption, made.collect::<Vec<_>>().join(", "));
            wrapped("", &words, width) + &pairs(explorer.chosen(), width)
        }
    }
}

/// Names in one column, values in another.
fn pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, width: usize) -> String {
    let pairs: Vec<(String, &str)> = pairs.map(|(name, value)| (plain(name), value)).collect();
    let widest = pairs.iter().map(|(name, _)| columns(name)).max().unwrap_or(0).min(width / 2);
    pairs.iter().map(|(name, value)| wrapped(&format!("{name:<widest$}  "), value, width)).collect()
}

impl Table {
    /// The table as text, without its caption: in columns if it fits `width`, else a few lines for each row.
    pub fn to_text(&self, width: usize) -> String {
        let heads: Vec<String> = self.columns.iter().map(|column| plain(&column.title())).collect();
        let rows: Vec<Vec<String>> =
            self.rows().iter().map(|row| row.iter().map(|cell| plain(&cell.shown())).collect()).collect();
        let widths: Vec<usize> = (0..heads.len())
            .map(|index| rows.iter().map(|row| columns(&row[index])).chain([columns(&heads[index])]).max().unwrap_or(0))
            .collect();
        let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        if total > width {
            return self.to_records(&heads, &rows, width);
        }
        let line = |cells: &[String]| {
            let padded = cells.iter().zip(&widths).zip(&self.columns).map(|((cell, width), column)| {
                if column.numeric { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        line(&heads) + &line(&rule) + &rows.iter().map(|row| line(row)).collect::<String>()
    }

    /// Words of a row in its first line, numbers below.
    fn to_records(&self, heads: &[String], rows: &[Vec<String>], width: usize) -> String {
        let numeric = |column: &&Column| column.numeric;
        let leading = self.columns.iter().position(|column| numeric(&column)).unwrap_or(1).max(1);
        rows.iter()
            .zip(self.rows())
            .map(|(row, cells)| {
                let title = row[..leading].join(", ");
                let known = |index: &usize| cells[*index] != Cell::Absent && !row[*index].is_empty();
                let rest = (leading..row.len()).filter(known).map(|index| format!("{} {}", heads[index], row[index]));
                let rest = rest.map(|pair| pair.replace(' ', "\u{a0}")).collect::<Vec<_>>().join("; ");
                wrapped("", &title, width) + &wrapped_pairs(&rest, width)
            })
            .collect()
    }
}

/// Wraps at spaces, of which no-break ones become usual ones afterwards.
fn wrapped_pairs(text: &str, width: usize) -> String {
    let mut out = String::from("   ");
    let mut column = 3;
    for pair in text.split(' ') {
        if column > 3 && column + 1 + columns(pair) > width {
            out.push_str("\n   ");
            column = 3;
        }
        out.push(' ');
        out.push_str(pair);
        column += 1 + columns(pair);
    }
    out.push('\n');
    out.replace('\u{a0}', " ")
}

fn figure(figure: &Figure, width: usize) -> String {
    let title = wrapped("", &figure.title, width);
    match &figure.plot {
        Plot::Lines { x, y, series } => {
            let lines = series.iter().map(|one| curve(one, &x.title(), &y.title(), width));
            title + &lines.collect::<String>()
        }
        Plot::Bars(bars) => title + &self::bars(bars),
    }
}

/// A small curve, with its ends and its marks.
fn curve(series: &Series, x: &str, y: &str, width: usize) -> String {
    let known: Vec<(f64, f64)> =
        series.points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    let (Some(first), Some(last)) = (known.first(), known.last()) else {
        return format!("{}: {ABSENT}\n", plain(&series.name));
    };
    let lows = known.iter().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let highs = known.iter().map(|(_, y)| *y).fold(f64::NEG_INFINITY, f64::max);
    let cells = known.len().min(BAR_COLUMNS);
    let drawn: String = (0..cells)
        .map(|cell| {
            let part = &known[cell * known.len() / cells..(cell + 1) * known.len() / cells];
            let mean = part.iter().map(|(_, y)| y).sum::<f64>() / part.len() as f64;
            let share = if highs > lows { (mean - lows) / (highs - lows) } else { 0.0 };
            EIGHTHS[((share * 7.0).round() as usize).min(7)]
        })
        .collect();
    let mut out = wrapped(
        &format!("  {drawn}  "),
        &format!(
            "{}: {y} {} to {}, {x} {} to {}",
            series.name,
            short(lows),
            short(highs),
            short(first.0),
            short(last.0)
        ),
        width,
    );
    out.extend(series.marks.iter().map(|mark| wrapped("    ^ ", &mark.words, width)));
    out
}

fn bars(bars: &Bars) -> String {
    let most = bars.series.iter().flat_map(|(_, values)| values.iter().flatten()).copied().fold(0.0, f64::max);
    let label = |category: &str, name: &str| {
        plain(&if bars.series.len() > 1 { format!("{category} {name}") } else { category.to_owned() })
    };
    let names = bars.series.iter().map(|(name, _)| name);
    let labels = names.flat_map(|name| bars.categories.iter().map(move |category| label(category, name)));
    let widest = labels.map(|label| columns(&label)).max().unwrap_or(0);
    let mut out = format!("  {}\n", plain(&bars.axis.title()));
    for (index, category) in bars.categories.iter().enumerate() {
        for (name, values) in &bars.series {
            let value = values.get(index).copied().flatten();
            let share = value.filter(|_| most > 0.0).map_or(0.0, |value| value / most);
            let drawn = "█".repeat((share.clamp(0.0, 1.0) * BAR_COLUMNS as f64).round() as usize);
            let gap = if drawn.is_empty() { "" } else { " " };
            let value = value.map_or(ABSENT.into(), short);
            out.push_str(&format!("  {:<widest$}  {drawn}{gap}{value}\n", label(category, name)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::sample;

    #[test]
    fn a_page() {
        let text = sample().to_text(80);
        for words in [
            "A <page>\n========\n\nFirst & last.\n",
            "\nwarning: hot\n",
            "\nNumbers\n-------\n\nAll of them.\nname  rate MB/s  news\n----  ---------  ----\na|b       12.50  good\n",
            "  ▁▅█  nacre: latency, ms 1 to 3, rate 1 to 3\n    ^ knee at 2\n",
            "  a  ████████████████████████████████████████ 2\n  b  not available\n",
            "sum  </script>21\n",
        ] {
            assert!(text.contains(words), "{words:?} is not in\n{text}");
        }
    }

    #[test]
    fn wide_tables_become_records_and_lines_wrap() {
        let mut table = Table::new("t", "", (0..12).map(|n| Column::number(format!("heading {n}"), "us")).collect());
        table.columns[0] = Column::text("name");
        table.push((0..12).map(|n| if n == 0 { Cell::text("row one") } else { Cell::Number(f64::from(n)) }).collect());
        let text = table.to_text(60);
        assert!(text.starts_with("row one\n    heading 1 us 1.000; heading 2 us 2.000;\n"), "{text}");
        assert!(text.lines().all(|line| columns(line) <= 60), "{text}");
        assert!(table.to_text(400).starts_with("name     heading 1 us"), "{}", table.to_text(400));
        assert_eq!(wrapped("* ", "one two three", 9), "* one two\n  three\n");
    }

    #[test]
    fn nothing_commands_the_terminal() {
        let mut page = Page::new("a\x1b[2J");
        page.opening = vec![Block::Prose("b\x07 \u{9b}c".into()), Block::Facts(vec![("d\r".into(), "e\x1b".into())])];
        let text = page.to_text(80);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}
