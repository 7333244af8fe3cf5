//! Reading of a text from left to right. What does not match leaves the position where it was.

/// A position in a text.
#[derive(Clone, Copy)]
pub(super) struct Scan<'a> {
    rest: &'a str,
}

/// True for characters of words that need no quotes.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./-".contains(c)
}

impl<'a> Scan<'a> {
    pub fn new(text: &'a str) -> Scan<'a> {
        Scan { rest: text }
    }

    pub fn rest(&self) -> &'a str {
        self.rest
    }

    /// Reads `part`, or nothing.
    pub fn attempt<T>(&mut self, part: impl FnOnce(&mut Scan<'a>) -> Option<T>) -> Option<T> {
        let before = *self;
        let read = part(self);
        if read.is_none() {
            *self = before;
        }
        read
    }

    /// Reads exactly `word`.
    pub fn word(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    /// Reads characters as long as there are such; may be none.
    pub fn run(&mut self, is: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is(c)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at(end);
        self.rest = rest;
        run
    }

    /// Reads one character or more.
    pub fn some(&mut self, is: impl Fn(char) -> bool) -> Option<&'a str> {
        Some(self.run(is)).filter(|run| !run.is_empty())
    }

    /// Reads a text between quotes of one kind.
    fn quoted(&mut self) -> Option<&'a str> {
        self.attempt(|s| {
            let quote = ["\"", "'"].into_iter().find(|quote| s.word(quote).is_some())?;
            let text = s.run(|c| !quote.contains(c));
            s.word(quote)?;
            Some(text)
        })
    }

    /// Reads a word of plain characters, or a text between quotes that is not empty.
    pub fn string(&mut self) -> Option<String> {
        self.attempt(|s| s.quoted().filter(|text| !text.is_empty())).or_else(|| self.some(is_plain)).map(str::to_owned)
    }

    /// Like [`Scan::string`]; between quotes there may be nothing.
    pub fn string_or_empty(&mut self) -> Option<String> {
        self.quoted().or_else(|| self.some(is_plain)).map(str::to_owned)
    }

    /// Reads the text of a network.
    pub fn network(&mut self) -> Option<&'a str> {
        self.some(|c| c.is_ascii_hexdigit() || "/.:[]".contains(c))
    }
}

/// A text as [`Scan::string`] reads it.
pub(super) fn quote(text: &str) -> String {
    match text {
        _ if !text.is_empty() && text.chars().all(is_plain) => text.to_owned(),
        _ if text.contains('"') => format!("'{text}'"),
        _ => format!("\"{text}\""),
    }
}
