//! Reads a text line by line.

use crate::cursor::{Cursor, Next};

/// A line that says something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// The lines behind it belong to the section of this name.
    Section(String),
    /// `name = value`. The name has underscores for the blanks between its words.
    Value { name: String, value: String },
}

/// A line that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {wrong}")]
pub struct LineError {
    /// Number of the line, from 1; of a continued one the number of its first.
    pub line: usize,
    pub wrong: Wrong,
}

/// Reason why a line cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Wrong {
    #[error("neither '[section]' nor 'name = value'")]
    Form,
    #[error("a section has no ']'")]
    NoBracket,
    #[error("a section has no name")]
    NoSectionName,
    #[error("there is text behind a section's ']'")]
    AfterSection,
    #[error("there is no name before '='")]
    NoName,
    #[error("a quote is not closed")]
    Unclosed,
    #[error("between quotes a backslash must stand before '#' and ';'")]
    CommentInQuotes,
    #[error("there is text behind a closed quote")]
    AfterQuote,
}

/// The lines of a text that say something, with their numbers, up to the first that is wrong.
pub struct Lines<'a> {
    cursor: Cursor<'a>,
    is_over: bool,
}

/// Reads a text line by line. Numbers are from 1; a line that is continued has the number of its first.
pub fn lines(text: &str) -> Lines<'_> {
    Lines { cursor: Cursor::new(text), is_over: false }
}

impl Iterator for Lines<'_> {
    type Item = Result<(usize, Line), LineError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over && !self.cursor.is_at_end() {
            let line = self.cursor.line;
            match read_line(&mut self.cursor) {
                Ok(None) => {}
                Ok(Some(read)) => return Some(Ok((line, read))),
                Err(wrong) => {
                    self.is_over = true;
                    return Some(Err(LineError { line, wrong }));
                }
            }
        }
        None
    }
}

/// Reads one line. `None`: it is blank, or a comment.
fn read_line(cursor: &mut Cursor<'_>) -> Result<Option<Line>, Wrong> {
    match first_of(cursor) {
        Next::End => Ok(None),
        Next::Plain('#' | ';') => {
            cursor.skip_line();
            Ok(None)
        }
        Next::Plain('[') => read_section(cursor).map(|name| Some(Line::Section(name))),
        first => {
            let name = read_name(cursor, first)?;
            Ok(Some(Line::Value { name, value: read_value(cursor)? }))
        }
    }
}

/// Goes on to the first character that is no blank.
fn first_of(cursor: &mut Cursor<'_>) -> Next {
    loop {
        match cursor.next() {
            Next::Plain(c) if c.is_whitespace() => {}
            next => return next,
        }
    }
}

/// Reads a section's name up to its bracket, and what is left of the line.
fn read_section(cursor: &mut Cursor<'_>) -> Result<String, Wrong> {
    let mut name = String::new();
    loop {
        match cursor.next() {
            Next::End | Next::Plain('#' | ';') => return Err(Wrong::NoBracket),
            Next::Plain(']') => break,
            Next::Plain(c) => name.push(c),
            Next::Escaped(c) => name.extend(['\\', c]),
        }
    }
    end_line(cursor, Wrong::AfterSection)?;
    match name.trim() {
        "" => Err(Wrong::NoSectionName),
        name => Ok(name.to_owned()),
    }
}

/// Reads a value's name, whose first character is given, up to its `=`.
fn read_name(cursor: &mut Cursor<'_>, first: Next) -> Result<String, Wrong> {
    let mut name = String::new();
    let mut next = first;
    loop {
        match next {
            Next::End | Next::Plain('#' | ';' | '[' | ']') => return Err(Wrong::Form),
            Next::Plain('=') => break,
            Next::Plain(c) => name.push(c),
            Next::Escaped(c) => name.extend(['\\', c]),
        }
        next = cursor.next();
    }
    match name.split_whitespace().collect::<Vec<_>>().join("_") {
        name if name.is_empty() => Err(Wrong::NoName),
        name => Ok(name),
    }
}

/// Reads a value, between quotes or not, and what is left of the line.
fn read_value(cursor: &mut Cursor<'_>) -> Result<String, Wrong> {
    let mut value = String::new();
    let mut next = first_of(cursor);
    let quote = match next {
        Next::Plain(c @ ('"' | '\'')) => Some(c),
        _ => None,
    };
    if quote.is_some() {
        next = cursor.next();
    }
    loop {
        match next {
            Next::End if quote.is_some() => return Err(Wrong::Unclosed),
            Next::Plain('#' | ';') if quote.is_some() => return Err(Wrong::CommentInQuotes),
            Next::End => break,
            Next::Plain('#' | ';') => {
                cursor.skip_line();
                break;
            }
            Next::Plain(c) if Some(c) == quote => {
                end_line(cursor, Wrong::AfterQuote)?;
                break;
            }
            Next::Plain(c) | Next::Escaped(c) => value.push(c),
        }
        next = cursor.next();
    }
    Ok(value.trim().to_owned())
}

/// Goes on to the next line.
///
/// Errors: `wrong` if there is more than blanks and a comment.
fn end_line(cursor: &mut Cursor<'_>, wrong: Wrong) -> Result<(), Wrong> {
    match first_of(cursor) {
        Next::End => Ok(()),
        Next::Plain('#' | ';') => {
            cursor.skip_line();
            Ok(())
        }
        _ => Err(wrong),
    }
}
