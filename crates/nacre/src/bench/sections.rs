//! Tables in documents: what lies between two marks is replaced, the rest stays as it is.

use anyhow::{Context, Result, bail};
use std::path::Path;

use crate::cli::bench::Document;

/// Prints `text`, or puts it where `document` says.
pub fn put(document: &Document, text: &str) -> Result<()> {
    match (&document.into, &document.section) {
        (Some(path), Some(section)) => write(path, section, text),
        _ => {
            print!("{text}");
            Ok(())
        }
    }
}

/// Tells if [`put`] will find its place; asked before anything that takes long.
pub fn check(document: &Document) -> Result<()> {
    let (Some(path), Some(section)) = (&document.into, &document.section) else { return Ok(()) };
    let before = read(path)?;
    replaced(&before, section, "").with_context(|| format!("{} cannot be filled in", path.display())).map(drop)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, section: &str, text: &str) -> Result<()> {
    let after = replaced(&read(path)?, section, text)?;
    // Beside it first: a document that is half written would be lost.
    let beside = path.with_extension("new");
    let written = std::fs::write(&beside, after).and_then(|()| std::fs::rename(&beside, path));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// `document` with `text` between the marks of `section`.
fn replaced(document: &str, section: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {section}: begin -->"), format!("<!-- {section}: end -->"));
    let once = |mark: &str| match document.matches(mark).count() {
        1 => Ok(document.find(mark).expect("just counted")),
        0 => bail!("there is no line '{mark}'"),
        many => bail!("the line '{mark}' is there {many} times"),
    };
    let (from, to) = (once(&begin)? + begin.len(), once(&end)?);
    if to < from {
        bail!("'{end}' stands before '{begin}'");
    }
    Ok(format!("{}\n\n{}\n\n{}", &document[..from], text.trim(), &document[to..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let document = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n";
        let once = replaced(document, "x", "new\n").unwrap();
        assert_eq!(once, "a\n<!-- x: begin -->\n\nnew\n\n<!-- x: end -->\nb\n");
        assert_eq!(replaced(&once, "x", "new").unwrap(), once);
        for (wrong, words) in [
            ("", "no line '<!-- x: begin"),
            ("<!-- x: begin -->", "no line '<!-- x: end"),
            ("<!-- x: end --><!-- x: begin -->", "before"),
            ("<!-- x: begin --><!-- x: begin --><!-- x: end -->", "2 times"),
        ] {
            let said = replaced(wrong, "x", "t").unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        }
    }
}
