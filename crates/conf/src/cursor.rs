//! The characters of a line that backslashes may continue.

/// A place in a text.
pub(crate) struct Cursor<'a> {
    rest: &'a str,
    /// Number of the line that the place is in, from 1.
    pub line: usize,
}

/// The next character of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    Plain(char),
    /// A character after a backslash.
    Escaped(char),
    /// The line ends, and is not continued.
    End,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { rest: text, line: 1 }
    }

    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Goes on by one character, over the ends of lines that are continued.
    pub fn next(&mut self) -> Next {
        loop {
            match self.take() {
                None => return Next::End,
                Some('\n') => return Next::End,
                Some('\\') => {}
                Some(c) => return Next::Plain(c),
            }
            if self.rest.starts_with("\r\n") {
                self.take();
            }
            match self.take() {
                None => return Next::End,
                Some('\n') => {}
                Some(c) => return Next::Escaped(c),
            }
        }
    }

    /// Goes on behind the end of the line. Backslashes mean nothing.
    pub fn skip_line(&mut self) {
        while self.take().is_some_and(|c| c != '\n') {}
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.line += usize::from(c == '\n');
        Some(c)
    }
}
