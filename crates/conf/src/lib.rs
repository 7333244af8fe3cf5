//! The syntax of `ceph.conf` and of keyrings.
//!
//! ```text
//! # comment                          ; comment
//! [global]
//! mon host = [v2:10.0.0.1:3300]      blanks between a name's words are underscores
//! log file = "/srv/a log" # comment  a value may stand between quotes of one kind
//! osd data = /srv/osd \
//!            one                     a backslash at the end continues a name or a value
//! note = a\;b                        elsewhere it takes the next character as it is, also between quotes
//! ```
//!
//! * [`lines()`]: the lines in their order. Start here.
//! * [`sections()`]: values by section and name. Of several lines with one name the last counts.
//! * [`quoted()`]: a value as it stands in a text.
//!
//! A value has no blanks at its ends. Between quotes `#` and `;` need a backslash before them. A comment ends with its
//! line, whatever that ends with.
//!
//! Ceph reads all of this alike. Some texts are read here that Ceph refuses: lines before the first section (they
//! belong to `global`), blanks around a section's brackets and within them, quoted values that are continued,
//! characters beyond ASCII, and a last line that does not end.
//!
//! Absent from here: what names and sections mean, variables in values, and files.

mod cursor;
mod lines;
#[cfg(test)]
mod tests;

pub use lines::{Line, LineError, Lines, Wrong, lines};
use std::collections::BTreeMap;

/// The section of lines that stand before the first one.
pub const FIRST_SECTION: &str = "global";

/// Values by section and name.
pub type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// Puts a value between quotes so that it reads back, here and by Ceph. Control characters, which no line can hold,
/// become blanks; those at the ends are lost, with the other blanks there.
pub fn quoted(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        if matches!(c, '"' | '\\' | '#' | ';') {
            out.push('\\');
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out.push('"');
    out
}

/// Reads a text. A section without lines is there, too.
///
/// Errors: the first line that is wrong.
pub fn sections(text: &str) -> Result<Sections, LineError> {
    let mut sections = Sections::new();
    let mut section = FIRST_SECTION.to_owned();
    for line in lines(text) {
        match line?.1 {
            Line::Section(name) => {
                sections.entry(name.clone()).or_default();
                section = name;
            }
            Line::Value { name, value } => {
                sections.entry(section.clone()).or_default().insert(name, value);
            }
        }
    }
    Ok(sections)
}
