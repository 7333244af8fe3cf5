//! The part of YAML that plans are written in: maps and lists by indentation, `[...]` and `{...}` on one line, plain
//! and quoted scalars, comments. Anchors, tags, texts over several lines and several documents are refused with their
//! line, never guessed at.

use serde_json::{Map, Value};

/// Deepest nesting.
const DEPTH_MAX: usize = 32;

/// A fault in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct YamlError {
    pub line: usize,
    pub reason: &'static str,
}

/// A line that says something.
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// Reads a document. An empty one is an empty map.
pub(super) fn parse(text: &str) -> Result<Value, YamlError> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let bare = without_comment(line).trim_end();
        let trimmed = bare.trim_start_matches(' ');
        if trimmed.is_empty() || (number == 1 && bare == "---") {
            continue;
        }
        if trimmed.starts_with('\t') {
            return Err(YamlError { line: number, reason: "a tab indents nothing in YAML" });
        }
        if bare.starts_with("---") || bare.starts_with("...") || bare.starts_with('%') {
            return Err(YamlError { line: number, reason: "only one document is read, without directives" });
        }
        lines.push(Line { number, indent: bare.len() - trimmed.len(), text: trimmed });
    }
    let mut rest = lines.as_slice();
    let value = match rest.first() {
        None => Value::Object(Map::new()),
        Some(first) => block(&mut rest, first.indent, 0)?,
    };
    match rest.first() {
        None => Ok(value),
        Some(line) => Err(YamlError { line: line.number, reason: "its indentation fits to no line above" }),
    }
}

/// A line up to its comment: a `#` at the begin or behind white space, outside of quotes.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            // A quote begins a scalar; within one, as in don't, it is a letter.
            None if (c == '"' || c == '\'') && " [{,:".contains(before) => quote = Some(c),
            None if c == '#' && before.is_whitespace() => return &line[..at],
            None => {}
        }
        before = c;
    }
    line
}

/// The map or list whose lines are indented by `indent`.
fn block(rest: &mut &[Line<'_>], indent: usize, depth: usize) -> Result<Value, YamlError> {
    let first = rest[0].number;
    if depth > DEPTH_MAX {
        return Err(YamlError { line: first, reason: "it is nested too deeply" });
    }
    if is_item(rest[0].text) {
        return list(rest, indent, depth);
    }
    let mut map = Map::new();
    while let Some(line) = rest.first().filter(|line| line.indent == indent) {
        let fault = |reason| YamlError { line: line.number, reason };
        if is_item(line.text) {
            return Err(fault("an item of a list stands among names"));
        }
        let (key, value) = split_key(line.text).ok_or(fault("there is no name with a colon"))?;
        let key = match scalar(key, line.number)? {
            Value::String(key) => key,
            other => other.to_string(),
        };
        *rest = &rest[1..];
        let value = match value {
            "" => nested(rest, indent, depth)?,
            text => flow(text, line.number)?,
        };
        if map.insert(key, value).is_some() {
            return Err(fault("the name is there twice"));
        }
    }
    deeper_is_wrong(rest, indent)?;
    Ok(Value::Object(map))
}

fn list(rest: &mut &[Line<'_>], indent: usize, depth: usize) -> Result<Value, YamlError> {
    let mut items = Vec::new();
    while let Some(line) = rest.first().filter(|line| line.indent == indent && is_item(line.text)) {
        let text = line.text[1..].trim_start();
        let number = line.number;
        *rest = &rest[1..];
        let is_map = !text.starts_with(['[', '{', '"', '\'']) && split_key(text).is_some();
        if is_map {
            return Err(YamlError { line: number, reason: "maps as items of lists are written as {...} here" });
        }
        items.push(if text.is_empty() { nested(rest, indent, depth)? } else { flow(text, number)? });
    }
    deeper_is_wrong(rest, indent)?;
    Ok(Value::Array(items))
}

fn deeper_is_wrong(rest: &[Line<'_>], indent: usize) -> Result<(), YamlError> {
    match rest.first() {
        Some(line) if line.indent > indent => {
            Err(YamlError { line: line.number, reason: "it is indented under a line that has a value already" })
        }
        _ => Ok(()),
    }
}

/// The value of a name without one on its line: deeper lines, items on the same column, or nothing.
fn nested(rest: &mut &[Line<'_>], indent: usize, depth: usize) -> Result<Value, YamlError> {
    match rest.first() {
        Some(line) if line.indent > indent || (line.indent == indent && is_item(line.text)) => {
            let indent = line.indent;
            block(rest, indent, depth + 1)
        }
        _ => Ok(Value::Null),
    }
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// Splits at the first colon that ends a name: outside of quotes, with a space or nothing behind it.
fn split_key(text: &str) -> Option<(&str, &str)> {
    let from = match text.chars().next()? {
        quote @ ('"' | '\'') => text[1..].find(quote)? + 2,
        _ => 0,
    };
    let at = text[from..]
        .char_indices()
        .map(|(at, _)| at + from)
        .find(|at| text[*at..].starts_with(':') && text[at + 1..].chars().next().is_none_or(|next| next == ' '))?;
    Some((text[..at].trim_end(), text[at + 1..].trim()))
}

/// A value on one line.
fn flow(text: &str, line: usize) -> Result<Value, YamlError> {
    let fault = |reason| YamlError { line, reason };
    let inside = |close: char| text[1..].strip_suffix(close).ok_or(fault("a bracket is not closed on its line"));
    match text.chars().next() {
        Some('[') => {
            let parts = parts(inside(']')?, line)?;
            Ok(Value::Array(parts.into_iter().map(|part| flow(part, line)).collect::<Result<_, _>>()?))
        }
        Some('{') => {
            let mut map = Map::new();
            for part in parts(inside('}')?, line)? {
                let (key, value) = split_key(part).ok_or(fault("there is no name with a colon"))?;
                let Value::String(key) = scalar(key, line)? else { return Err(fault("a name is no word")) };
                let value = if value.is_empty() { Value::Null } else { flow(value, line)? };
                if map.insert(key, value).is_some() {
                    return Err(fault("the name is there twice"));
                }
            }
            Ok(Value::Object(map))
        }
        _ => scalar(text, line),
    }
}

/// Splits at commas outside of quotes and brackets.
fn parts(text: &str, line: usize) -> Result<Vec<&str>, YamlError> {
    let (mut quote, mut open, mut deepest, mut start) = (None, 0usize, 0, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => {
                open += 1;
                deepest = open.max(deepest);
            }
            (None, ']' | '}') => {
                open = open.checked_sub(1).ok_or(YamlError { line, reason: "a bracket is closed twice" })?;
            }
            (None, ',') if open == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            (None, _) => {}
        }
    }
    if deepest > DEPTH_MAX {
        return Err(YamlError { line, reason: "it is nested too deeply" });
    }
    if open > 0 || quote.is_some() {
        return Err(YamlError { line, reason: "a quote or bracket is not closed on its line" });
    }
    let last = text[start..].trim();
    // A comma may follow the last value.
    if !last.is_empty() {
        parts.push(last);
    }
    if parts.iter().any(|part| part.is_empty()) {
        return Err(YamlError { line, reason: "there is nothing between two commas" });
    }
    Ok(parts)
}

fn scalar(text: &str, line: usize) -> Result<Value, YamlError> {
    let fault = |reason| YamlError { line, reason };
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            let inside = rest.strip_suffix(quote).ok_or(fault("a quote is not closed on its line"))?;
            if inside.contains(quote) || (quote == '"' && inside.contains('\\')) {
                return Err(fault("quotes and backslashes within quotes are not read here"));
            }
            return Ok(Value::String(inside.to_owned()));
        }
    }
    if text.starts_with(['&', '*', '!', '|', '>', '@', '`', '?']) {
        return Err(fault("anchors, tags and texts over several lines are not read here"));
    }
    Ok(match text {
        "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "on" => Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "off" => Value::Bool(false),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) if number.is_finite() && text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                number.into()
            }
            _ => Value::String(text.to_owned()),
        },
    })
}
