//! The text of a `ceph.conf`: sections, and lines of `name = value`.

use std::collections::BTreeMap;

/// Options by section and name. Names have underscores for blanks.
pub(super) type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// Reason why a text is none. Lines are counted from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(super) struct ConfTextError {
    pub line: usize,
    pub reason: &'static str,
}

/// Reads a text. Lines before the first section belong to `global`; a name that comes twice has its last value.
pub(super) fn parse(text: &str) -> Result<Sections, ConfTextError> {
    let mut sections = Sections::new();
    let mut section = "global".to_owned();
    let mut lines = text.lines().enumerate();
    while let Some((index, first)) = lines.next() {
        let wrong = |reason| ConfTextError { line: index + 1, reason };
        let mut line = first.to_owned();
        while line.ends_with('\\') {
            line.pop();
            match lines.next() {
                Some((_, more)) => line.push_str(more),
                None => break,
            }
        }
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let (name, tail) = rest.split_once(']').ok_or_else(|| wrong("a section has no ']'"))?;
            let tail = tail.trim();
            if !tail.is_empty() && !tail.starts_with(['#', ';']) {
                return Err(wrong("there is text behind a section's ']'"));
            }
            name.trim().clone_into(&mut section);
            continue;
        }
        let (name, value) = line.split_once('=').ok_or_else(|| wrong("neither '[section]' nor 'name = value'"))?;
        let name = name.split_whitespace().collect::<Vec<_>>().join("_");
        if name.is_empty() {
            return Err(wrong("there is no name before '='"));
        }
        let value = unquoted(value.trim()).ok_or_else(|| wrong("a quote is not closed"))?;
        sections.entry(section.clone()).or_default().insert(name, value);
    }
    Ok(sections)
}

/// Returns a value without its quotes or a comment behind it; `None` if a quote is not closed.
fn unquoted(value: &str) -> Option<String> {
    if let Some(quote) = value.chars().next().filter(|first| matches!(first, '"' | '\'')) {
        return value[1..].split_once(quote).map(|(inner, _)| inner.to_owned());
    }
    let mut out = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            '#' | ';' => break,
            c => out.push(c),
        }
    }
    Some(out.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_comments_quotes_and_long_lines() {
        let text = "a b = 1 # one\n; none\n[osd] # x\nc=\"2 # two\"\n[osd]\nd = x \\\n , y\nc = 3\n";
        let sections = parse(text).unwrap();
        assert_eq!(sections["global"]["a_b"], "1");
        assert_eq!(sections["osd"]["d"], "x  , y");
        assert_eq!(sections["osd"]["c"], "3");
    }

    #[test]
    fn errors_name_the_line() {
        let check = |text, line| assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        check("[global", 1);
        check("[global]\nx\n", 2);
        check("\n = 1\n", 2);
        check("a = 'b\n", 1);
        check("[a] b\n", 1);
    }
}
