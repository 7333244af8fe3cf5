//! Pages that people and programs read: prose, tables and figures, described once and printed in many forms.
//!
//! A command builds a [`Page`] and does not know how it will be shown. The forms are:
//!
//! | form | method | for |
//! |---|---|---|
//! | text | [`Page::to_text`] | terminals |
//! | Markdown | [`Page::to_markdown`] | documents, comments |
//! | HTML | [`Page::to_html`] | browsers: one file that refers to nothing else, with plots, dark and light, printable |
//! | JSON | [`Page::to_json`] | programs |
//! | CSV | [`Table::to_csv`] | spreadsheets |
//!
//! Start at [`page`]. [`table`] and [`figure`] are the two large blocks of a page; [`axis`] and [`number`] write
//! numbers. A value that is not known is [`Cell::Absent`], never zero.
//!
//! Absent: files, clocks, and knowledge of clusters. The same page gives the same bytes.

pub mod axis;
pub mod explorer;
pub mod figure;
pub mod number;
pub mod page;
pub mod table;

mod escape;
mod html;
mod markdown;
mod svg;
mod text;

pub use explorer::{Control, Explorer};
pub use figure::{Axis, Bars, Figure, Mark, Plot, Scale, Series};
pub use page::{Block, Page, Section};
pub use table::{Cell, Column, Table, Tone};
