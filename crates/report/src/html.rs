//! Pages as HTML: one file that refers to nothing else.

use crate::escape::escape;
use crate::explorer::Explorer;
use crate::figure::{Figure, Plot};
use crate::number::significant;
use crate::page::{Block, Page};
use crate::svg;
use crate::table::{Cell, Table, Tone};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("explorer.js");
/// Size above which a page leaves out the values behind its figures.
const DETAILS_BYTES_MAX: usize = 1_200_000;
/// Length from which a cell's text has room to be wrapped, instead of a narrow column.
const WRAPPED_BYTES: usize = 40;
/// Rows of a figure's values; of longer ones a summary stands there.
const ROWS_MAX: usize = 200;
/// A browser that knows these rules loads nothing from elsewhere, whatever stands in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'";

/// A page that is being written.
struct Writer {
    out: String,
    /// Number of elements with an id.
    ids: usize,
    details: bool,
}

impl Page {
    /// The page as HTML. `footer` says by whom and when it was made.
    ///
    /// The values behind its figures are left out if it would be larger than 1.2 MB with them.
    pub fn to_html(&self, footer: &str) -> String {
        let whole = self.written(footer, true);
        if whole.len() <= DETAILS_BYTES_MAX { whole } else { self.written(footer, false) }
    }

    fn written(&self, footer: &str, details: bool) -> String {
        let title = escape(&self.title);
        let mut writer = Writer { out: String::new(), ids: 0, details };
        writer.add(&format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header><h1>{title}</h1></header>\n"
        ));
        if self.sections.len() > 2 {
            writer.add("<nav aria-label=\"Sections\"><ul>\n");
            for (index, section) in self.sections.iter().enumerate() {
                writer.add(&format!("<li><a href=\"#section-{index}\">{}</a></li>\n", escape(&section.title)));
            }
            writer.add("</ul></nav>\n");
        }
        writer.add("<main id=\"main\">\n");
        self.opening.iter().for_each(|block| writer.block(block));
        for (index, section) in self.sections.iter().enumerate() {
            writer.add(&format!("<h2 id=\"section-{index}\">{}</h2>\n", escape(&section.title)));
            section.blocks.iter().for_each(|block| writer.block(block));
        }
        writer.add(&format!("</main>\n<footer><p>{}</p></footer>\n", escape(footer)));
        if self.blocks().any(|block| matches!(block, Block::Explorer(_))) {
            writer.add(&format!("<script>\n{SCRIPT}</script>\n"));
        }
        writer.add("</body>\n</html>\n");
        writer.out
    }
}

impl Writer {
    fn add(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn id(&mut self) -> String {
        self.ids += 1;
        format!("x{}", self.ids)
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Prose(text) => self.add(&format!("<p>{}</p>\n", escape(text))),
            Block::List(items) => {
                let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
                self.add(&format!("<ul>\n{items}</ul>\n"));
            }
            Block::Facts(facts) => {
                let pair =
                    |(name, value): &(String, String)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value));
                self.add(&format!("<dl>\n{}</dl>\n", facts.iter().map(pair).collect::<String>()));
            }
            Block::Note(text) => self.add(&format!("<p class=\"note\">{}</p>\n", escape(text))),
            Block::Warning { label, text } => {
                let (label, text) = (escape(label), escape(text));
                self.add(&format!("<p class=\"warning\"><strong>{label}:</strong> {text}</p>\n"));
            }
            Block::Table(table) => self.table(table),
            Block::Figure(figure) => self.figure(figure),
            Block::Explorer(explorer) => self.explorer(explorer),
        }
    }

    /// A table in a region that the keyboard can scroll.
    fn table(&mut self, table: &Table) {
        let id = self.id();
        let label = if table.caption.is_empty() { &table.name } else { &table.caption };
        self.add(&format!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Table {}: {}\" id=\"{id}\">\n<table>\n",
            id.trim_start_matches('x'),
            escape(label)
        ));
        if !table.caption.is_empty() {
            self.add(&format!("<caption>{}</caption>\n", escape(&table.caption)));
        }
        self.add("<thead><tr>");
        for column in &table.columns {
            let class = if column.numeric { " class=\"n\"" } else { "" };
            self.add(&format!("<th scope=\"col\"{class}>{}</th>", escape(&column.title())));
        }
        self.add("</tr></thead>\n<tbody>\n");
        for row in table.rows() {
            self.add("<tr>");
            for (index, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
                let text = escape(&cell.shown());
                if index == 0 {
                    self.add(&format!("<th scope=\"row\">{text}</th>"));
                    continue;
                }
                let tone = match cell {
                    Cell::Verdict { tone: Tone::Good, .. } => " good",
                    Cell::Verdict { tone: Tone::Bad, .. } => " bad",
                    Cell::Verdict { tone: Tone::Neutral, .. } => " even",
                    Cell::Absent => " absent",
                    _ => "",
                };
                let long = if text.len() > WRAPPED_BYTES { " w" } else { "" };
                let class = format!("{}{tone}{long}", if column.numeric { "n" } else { "" });
                match class.trim() {
                    "" => self.add(&format!("<td>{text}</td>")),
                    class => self.add(&format!("<td class=\"{class}\">{text}</td>")),
                }
            }
            self.add("</tr>\n");
        }
        self.add("</tbody>\n</table>\n</div>\n");
    }

    fn figure(&mut self, figure: &Figure) {
        let id = self.id();
        let words = (figure.title.as_str(), figure.caption.as_str());
        let (plot, keys): (String, Vec<(String, &str)>) = match &figure.plot {
            Plot::Lines { x, y, series } => (
                svg::lines(&id, words, x, y, series),
                series.iter().enumerate().map(|(index, one)| (svg::key(index), one.name.as_str())).collect(),
            ),
            Plot::Bars(bars) => (
                svg::bars(&id, words, bars),
                bars.series.iter().enumerate().map(|(index, one)| (svg::bar_key(index), one.0.as_str())).collect(),
            ),
        };
        self.add(&format!("<figure id=\"{}-{id}\">\n<h3>{}</h3>\n", escape(&figure.name), escape(&figure.title)));
        if keys.len() > 1 {
            let keys: String = keys.iter().map(|(key, name)| format!("<li>{key}{}</li>", escape(name))).collect();
            self.add(&format!("<ul class=\"legend\">{keys}</ul>\n"));
        }
        self.add(&plot);
        self.add(&format!("\n<figcaption>{}</figcaption>\n", escape(&figure.caption)));
        if let Plot::Lines { series, .. } = &figure.plot {
            let marks: String = series
                .iter()
                .flat_map(|one| one.marks.iter().map(move |mark| (one, mark)))
                .map(|(one, mark)| format!("<li>{}: {}</li>\n", escape(&one.name), escape(&mark.words)))
                .collect();
            if !marks.is_empty() {
                self.add(&format!("<ol class=\"marks\">\n{marks}</ol>\n"));
            }
        }
        if self.details {
            self.add("<details><summary>Values of this figure</summary>\n");
            self.table(&values(figure));
            self.add("</details>\n");
        }
        self.add("</figure>\n");
    }

    fn explorer(&mut self, explorer: &Explorer) {
        let id = self.id();
        self.add(&format!(
            "<div class=\"explorer\">\n<p>{}</p>\n<div class=\"controls\">\n",
            escape(&explorer.caption)
        ));
        for (index, control) in explorer.controls().iter().enumerate() {
            let (label, choice) = (escape(&control.label), escape(&control.choices[control.chosen]));
            self.add(&format!(
                "<div><label for=\"{id}-{index}\">{label}: <output for=\"{id}-{index}\">{choice}</output></label>\
                 <input type=\"range\" id=\"{id}-{index}\" min=\"0\" max=\"{}\" step=\"1\" value=\"{}\" \
                 aria-valuetext=\"{choice}\"></div>\n",
                control.choices.len() - 1,
                control.chosen
            ));
        }
        self.add(&format!(
            "</div>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Values {}\" \
             aria-live=\"polite\">\n<table><thead><tr><th scope=\"col\">quantity</th><th scope=\"col\">value</th></tr>\
             </thead>\n<tbody>\n",
            id.trim_start_matches('x')
        ));
        for (name, value) in explorer.chosen() {
            self.add(&format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escape(name), escape(value)));
        }
        let data = explorer.to_script_json();
        self.add(&format!("</tbody></table>\n</div>\n<script type=\"application/json\">{data}</script>\n</div>\n"));
    }
}

/// The values behind a figure, or their extremes if there are many.
fn values(figure: &Figure) -> Table {
    use crate::table::Column;
    let rows = figure.rows();
    let name = format!("values of {}", figure.title);
    let [series, of, value] = figure.heads();
    if rows.len() <= ROWS_MAX {
        let columns = vec![Column::text(series), Column::number(of, ""), Column::number(value, "")];
        let mut table = Table::new(name, "", columns);
        rows.into_iter().for_each(|row| table.push(row.map(Cell::Text).into()));
        return table;
    }
    let heads = ["values", "lowest", "mean", "highest"].map(|head| Column::number(head, ""));
    let columns = [vec![Column::text(series)], heads.into()].concat();
    let mut table = Table::new(name, format!("{value}; there are too many values to list."), columns);
    if let Plot::Lines { series, .. } = &figure.plot {
        for one in series {
            let known: Vec<f64> = one.points.iter().map(|point| point.1).filter(|y| y.is_finite()).collect();
            let mean = known.iter().sum::<f64>() / known.len() as f64;
            let bounds = [known.iter().copied().fold(f64::INFINITY, f64::min), mean];
            let highest = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let number = |value: f64| if value.is_finite() { Cell::text(significant(value)) } else { Cell::Absent };
            let count = Cell::Count(u64::try_from(known.len()).unwrap_or(u64::MAX));
            table.push(vec![Cell::text(&one.name), count, number(bounds[0]), number(bounds[1]), number(highest)]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Axis, Scale, Series};
    use crate::page::tests::sample;

    /// Checks that elements are closed in the order in which they were opened, and that ids are there once.
    fn is_well_formed(html: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut ids = std::collections::BTreeSet::new();
        let body = html.split_once("</style>").unwrap().1;
        let body = match body.split_once("<script>\n") {
            Some((before, _)) => format!("</style>{before}"),
            None => format!("</style>{}", body.rsplit_once("</body>").unwrap().0),
        };
        open.push("style");
        for tag in body.split('<').skip(1) {
            let tag = tag.split('>').next().unwrap();
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
            if tag.starts_with('/') {
                let opened = open.pop();
                assert!(opened == Some(name) || opened.is_none() && name == "head", "</{name}> ends {opened:?}");
            } else if !tag.ends_with('/') && !["input", "meta"].contains(&name) {
                open.push(name);
            }
            if let Some(id) = tag.split(" id=\"").nth(1) {
                assert!(ids.insert(id.split('"').next().unwrap().to_owned()), "{id} is there twice");
            }
        }
        assert_eq!(open, ["body"], "what is open at the end");
    }

    #[test]
    fn a_page_is_well_formed_and_refers_to_nothing() {
        let html = sample().to_html("made <by> a test");
        is_well_formed(&html);
        for outside in ["http:", "https:", "src=", "url(", "@import", "<link"] {
            assert!(!html.contains(outside), "{outside}");
        }
        for words in ["A &lt;page&gt;", "First &amp; last.", "made &lt;by&gt; a test", "class=\"good\">good<"] {
            assert!(html.contains(words), "{words} is not in {html}");
        }
        // One script is the explorer's data, one is the page's.
        assert_eq!((html.matches("<script").count(), html.matches("</script").count()), (2, 2));
    }

    #[test]
    fn nothing_of_the_content_becomes_markup() {
        let evil = "</script><script>alert(1)</script>\" onload='x' &amp;\u{0}";
        let mut page = sample();
        page.title = evil.into();
        page.opening = vec![
            Block::Prose(evil.into()),
            Block::List(vec![evil.into()]),
            Block::Facts(vec![(evil.into(), evil.into())]),
            Block::Note(evil.into()),
            Block::warning(evil, evil),
        ];
        page.section(
            evil,
            vec![Block::Figure(Figure {
                name: evil.into(),
                title: evil.into(),
                caption: evil.into(),
                plot: Plot::Lines {
                    x: Axis::new(evil, evil, Scale::Linear),
                    y: Axis::new("y", "", Scale::Log),
                    series: vec![Series::new(evil, vec![(1.0, 1.0)])],
                },
            })],
        );
        let html = page.to_html(evil);
        is_well_formed(&html);
        assert!(!html.contains("<script>alert") && !html.contains("\" onload=") && !html.contains('\u{0}'));
    }

    #[test]
    fn large_pages_stay_small() {
        let mut page = Page::new("large");
        for figure in 0..60 {
            let points = |n: u32| (0..4000).map(|x| (f64::from(x), f64::from(x * n % 977))).collect();
            let series = (0..3).map(|n| Series::new(format!("series {n}"), points(n + 7))).collect();
            page.section(
                format!("section {figure}"),
                vec![Block::Figure(Figure {
                    name: "f".into(),
                    title: "t".into(),
                    caption: "c".into(),
                    plot: Plot::Lines {
                        x: Axis::new("x", "s", Scale::Linear),
                        y: Axis::new("y", "us", Scale::Linear),
                        series,
                    },
                })],
            );
        }
        let html = page.to_html("");
        is_well_formed(&html);
        assert!(html.len() < 1_500_000, "{}", html.len());
    }
}
