//! Bodies of `multipart/form-data` (RFC 7578), read piece by piece: fields in memory, the file as a stream.
//!
//! The library that the wire layer brings along keeps the file in memory, and another one brings second versions of
//! packages that are here, so this is our own.

use bytes::{Bytes, BytesMut};
use s3::{Body, Code, Error};

/// Bytes of the names and values of all fields before the file.
const FIELDS_MAX_BYTES: usize = 64 << 10;
/// Fields before the file.
const FIELDS_MAX: usize = 200;
/// Bytes of the headers of one part.
const HEADERS_MAX_BYTES: usize = 8 << 10;
/// Bytes of a boundary (RFC 2046).
const BOUNDARY_MAX_BYTES: usize = 70;
/// Bytes behind the file that are read, so that the connection can be used again.
const REST_MAX_BYTES: usize = 64 << 10;

/// The fields of a form before its file, with their names in lower case, each once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

/// Names that a part has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PartName {
    pub name: String,
    pub file_name: Option<String>,
    pub content_type: Option<String>,
}

/// A form whose fields have been read; the file follows.
pub(crate) struct Form<B> {
    pub fields: Fields,
    pub file: PartName,
    pub content: FormReader<B>,
}

/// Reads the parts of a body.
pub(crate) struct FormReader<B> {
    source: B,
    buffer: BytesMut,
    /// The end of a line, two hyphens and the boundary.
    delimiter: Vec<u8>,
    is_part_over: bool,
}

fn malformed(why: &str) -> Error {
    let message = format!("The body of your POST request is not well-formed multipart/form-data: {why}");
    s3rules::S3Error::new(s3rules::S3Code::MalformedPOSTRequest, message).into()
}

fn cut_short() -> Error {
    Code::IncompleteBody.because("the body ends before the form does")
}

/// The boundary of a form. Errors: `MalformedPOSTRequest`.
pub(crate) fn boundary(content_type: &str) -> Result<String, Error> {
    let parameters = content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut named = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"));
    let (_, value) = named.next().ok_or_else(|| malformed("there is no boundary"))?;
    let value = value.trim();
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    if value.is_empty() || value.len() > BOUNDARY_MAX_BYTES || !value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Err(malformed("the boundary has from 1 to 70 characters"));
    }
    Ok(value.to_owned())
}

impl Fields {
    /// The value of a field, whose name is in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// Gives a field another value.
    pub fn replace(&mut self, name: &str, value: String) {
        for (_, present) in self.0.iter_mut().filter(|(known, _)| known == name) {
            present.clone_from(&value);
        }
    }

    /// Errors: `InvalidArgument` for a field that stands twice, since it would not be clear which one was signed.
    fn add(&mut self, name: &str, value: Vec<u8>) -> Result<(), Error> {
        let name = name.to_ascii_lowercase();
        if self.get(&name).is_some() {
            return Err(Code::InvalidArgument.because(format!("the field '{name}' stands twice")));
        }
        let value = String::from_utf8(value);
        let value = value.map_err(|_| Code::InvalidArgument.because(format!("the field '{name}' is no UTF-8")))?;
        self.0.push((name, value));
        Ok(())
    }
}

impl<B: Body> Form<B> {
    /// Reads a form up to its file. Errors: `MalformedPOSTRequest`, `MaxPostPreDataLengthExceededError`,
    /// `InvalidArgument` without a file, `IncompleteBody`.
    pub async fn read(source: B, boundary: &str) -> Result<Form<B>, Error> {
        let mut reader = FormReader::new(source, boundary);
        let mut fields = Fields::default();
        let mut bytes = 0;
        while let Some(part) = reader.next_part().await? {
            if part.name.eq_ignore_ascii_case("file") {
                return Ok(Form { fields, file: part, content: reader });
            }
            let mut value = Vec::new();
            bytes += part.name.len();
            while let Some(piece) = reader.piece().await? {
                bytes += piece.len();
                if bytes > FIELDS_MAX_BYTES {
                    return Err(too_long());
                }
                value.extend_from_slice(&piece);
            }
            if fields.0.len() >= FIELDS_MAX {
                return Err(too_long());
            }
            fields.add(&part.name, value)?;
        }
        Err(Code::InvalidArgument.because("POST requires exactly one file upload per request."))
    }
}

fn too_long() -> Error {
    let message = "Your POST request fields preceding the upload file were too large.";
    s3rules::S3Error::new(s3rules::S3Code::MaxPostPreDataLengthExceededError, message).into()
}

fn position(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = haystack[from..].iter().position(|byte| *byte == needle[0]) {
        if haystack[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

impl<B: Body> FormReader<B> {
    fn new(source: B, boundary: &str) -> FormReader<B> {
        // The first delimiter may stand at the beginning, without the end of a line before it.
        let buffer = BytesMut::from(&b"\r\n"[..]);
        FormReader { source, buffer, delimiter: format!("\r\n--{boundary}").into_bytes(), is_part_over: false }
    }

    /// Reads some more of the body. False at its end.
    async fn more(&mut self) -> Result<bool, Error> {
        match self.source.next().await? {
            Some(piece) => self.buffer.extend_from_slice(&piece),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// The next bytes of the part; `None` behind its last ones, once the delimiter behind it has come.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if self.is_part_over {
                return Ok(None);
            }
            let found = position(&self.buffer, &self.delimiter);
            self.is_part_over = found.is_some();
            // Bytes that may begin the delimiter stay.
            let end = found.unwrap_or_else(|| (self.buffer.len() + 1).saturating_sub(self.delimiter.len()));
            if end > 0 {
                return Ok(Some(self.buffer.split_to(end).freeze()));
            }
            if found.is_none() && !self.more().await? {
                return Err(cut_short());
            }
        }
    }

    /// Goes on to the next part; `None` at the end of the form.
    async fn next_part(&mut self) -> Result<Option<PartName>, Error> {
        // Bytes before the first delimiter are nothing, and so is what is left of a part.
        while self.piece().await?.is_some() {}
        let skipped = self.delimiter.len();
        let line = self.up_to(b"\r\n", skipped).await;
        let line = match line {
            // The last line of a body may have no end.
            Err(_) if self.buffer[skipped..].starts_with(b"--") => return Ok(None),
            line => line?,
        };
        let rest = &line[skipped..];
        if rest.starts_with(b"--") {
            return Ok(None);
        }
        if !rest.iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            return Err(malformed("a delimiter is followed by something else"));
        }
        let mut part = PartName::default();
        while !self.is_at_blank_line().await? {
            let line = self.up_to(b"\r\n", 0).await?;
            let text = std::str::from_utf8(&line).map_err(|_| malformed("a header is no UTF-8"))?;
            let (name, value) = text.split_once(':').ok_or_else(|| malformed("a header has no colon"))?;
            match name.trim().to_ascii_lowercase().as_str() {
                "content-disposition" => (part.name, part.file_name) = disposition(value)?,
                "content-type" => part.content_type = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        if part.name.is_empty() {
            return Err(malformed("a part has no name"));
        }
        // The end of the blank line may be the beginning of the delimiter behind an empty part.
        while self.delimiter.starts_with(&self.buffer) && self.buffer.len() < self.delimiter.len() {
            if !self.more().await? {
                return Err(cut_short());
            }
        }
        if !self.buffer.starts_with(&self.delimiter) {
            let _ = self.buffer.split_to(2);
        }
        self.is_part_over = false;
        Ok(Some(part))
    }

    async fn is_at_blank_line(&mut self) -> Result<bool, Error> {
        while self.buffer.len() < 2 {
            if !self.more().await? {
                return Err(cut_short());
            }
        }
        Ok(self.buffer.starts_with(b"\r\n"))
    }

    /// The bytes before an end, which is taken, too. `from`: bytes in which the end is not looked for.
    async fn up_to(&mut self, end: &[u8], from: usize) -> Result<Bytes, Error> {
        loop {
            if self.buffer.len() > from
                && let Some(at) = position(&self.buffer[from..], end)
            {
                let found = self.buffer.split_to(from + at).freeze();
                let _ = self.buffer.split_to(end.len());
                return Ok(found);
            }
            if self.buffer.len() > HEADERS_MAX_BYTES + from {
                return Err(malformed("the headers of a part are too long"));
            }
            if !self.more().await? {
                return Err(cut_short());
            }
        }
    }

    /// Reads the rest of the form behind the file, as far as it is short.
    pub async fn finish(&mut self) {
        let mut left = REST_MAX_BYTES;
        while let Ok(Some(piece)) = self.source.next().await {
            left = left.saturating_sub(piece.len());
            if left == 0 {
                return;
            }
        }
    }
}

/// Name and file name of a header `Content-Disposition`.
fn disposition(value: &str) -> Result<(String, Option<String>), Error> {
    let (kind, mut rest) = value.split_once(';').unwrap_or((value, ""));
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return Err(malformed("a part is no form-data"));
    }
    let (mut name, mut file_name) = (String::new(), None);
    while let Some((parameter, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let (text, behind) = match after.strip_prefix('"') {
            Some(quoted) => quoted_text(quoted).ok_or_else(|| malformed("a quoted text has no end"))?,
            None => {
                let (text, behind) = after.split_once(';').unwrap_or((after, ""));
                (text.trim().to_owned(), behind)
            }
        };
        rest = behind.trim_start().trim_start_matches(';');
        match parameter.trim().to_ascii_lowercase().as_str() {
            "name" => name = text,
            // Some browsers tell the whole path of the file.
            "filename" => file_name = Some(text.rsplit(['/', '\\']).next().unwrap_or_default().to_owned()),
            _ => {}
        }
    }
    Ok((name, file_name))
}

/// A quoted text behind its first quote, and what follows. Browsers write quotes in names as `%22`, others as `\"`.
fn quoted_text(text: &str) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, letter)) = chars.next() {
        match letter {
            '"' => return Some((found.replace("%22", "\""), &text[at + 1..])),
            '\\' if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                found.push('"');
                chars.next();
            }
            letter => found.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body that comes in pieces of so many bytes.
    struct Pieces(Bytes, usize);

    impl Body for Pieces {
        async fn next(&mut self) -> Result<Option<Bytes>, Error> {
            let len = self.0.len().min(self.1);
            Ok(Some(self.0.split_to(len)).filter(|piece| !piece.is_empty()))
        }
    }

    type Read = (Vec<(String, String)>, PartName, Vec<u8>);

    async fn read_in(body: &[u8], piece: usize) -> Result<Read, Error> {
        let mut form = Form::read(Pieces(Bytes::copy_from_slice(body), piece), "XY").await?;
        let mut content = Vec::new();
        while let Some(bytes) = form.content.piece().await? {
            assert!(!bytes.is_empty());
            content.extend_from_slice(&bytes);
        }
        assert_eq!(form.content.piece().await, Ok(None));
        form.content.finish().await;
        Ok((form.fields.0, form.file, content))
    }

    /// Reads a body in pieces of all sizes, all of which give the same.
    async fn read(body: &[u8]) -> Result<Read, Error> {
        let whole = read_in(body, usize::MAX).await;
        for piece in 1..body.len().min(40) {
            assert_eq!(read_in(body, piece).await, whole, "pieces of {piece}");
        }
        whole
    }

    fn part(disposition: &str, content: &str) -> String {
        format!("--XY\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{content}\r\n")
    }

    #[tokio::test]
    async fn fields_and_files_are_read() {
        let field = part("name=\"Key\"", "a/${filename}") + &part("name=empty", "") + &part("name=\"x\"", "--X\r\n-");
        for content in ["", "\r\n", "bar", "\r\n--X", "\r\n--Xy\r\n\r\n-", "\r\r\n\n", &"x\r".repeat(999)] {
            let file = part("name=\"file\"; filename=\"C:\\dir\\f \\\"o\\\".txt\"", content);
            for (before, end) in [("", "--XY--"), ("", "--XY--\r\n"), ("preamble\r\n", "--XY--\r\nepilogue")] {
                let (fields, name, read) =
                    read(format!("{before}{field}{file}{end}").as_bytes()).await.expect("a form");
                let expected = [("key", "a/${filename}"), ("empty", ""), ("x", "--X\r\n-")];
                assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
                assert_eq!(name.file_name.as_deref(), Some("f \"o\".txt"));
                assert_eq!(String::from_utf8_lossy(&read), content);
            }
        }
        // Fields behind the file are none.
        let late = part("name=file", "1") + &part("name=late", "2") + "--XY--";
        assert_eq!(read(late.as_bytes()).await.expect("a form").0, []);
    }

    #[tokio::test]
    async fn what_is_no_form() {
        let name_of = |error: Error| match error {
            Error::Rule(rule) => rule.code.name().to_owned(),
            error => format!("{:?}", error.code().expect("a code")),
        };
        let file = part("name=file", "content");
        for (body, code) in [
            (String::new(), "IncompleteBody"),
            ("nothing".to_owned(), "IncompleteBody"),
            ("--XY--".to_owned(), "InvalidArgument"),
            (part("name=a", "1") + "--XY--\r\n", "InvalidArgument"),
            (part("name=a", "1") + &part("name=\"A\"", "2") + &file, "InvalidArgument"),
            (file.trim_end().to_owned(), "IncompleteBody"),
            (format!("{file}--X"), "IncompleteBody"),
            ("--XYZ\r\n".to_owned() + &file, "MalformedPOSTRequest"),
            (file.replace("form-data", "attachment"), "MalformedPOSTRequest"),
            (file.replace("name=file", "name="), "MalformedPOSTRequest"),
            (file.replace("name=file", "name=\"file"), "MalformedPOSTRequest"),
            (file.replace(':', ""), "MalformedPOSTRequest"),
            (format!("--XY\r\nA: {}", "x".repeat(9000)), "MalformedPOSTRequest"),
            (part("name=a", &"x".repeat(FIELDS_MAX_BYTES)) + &file, "MaxPostPreDataLengthExceededError"),
            (
                (0..=FIELDS_MAX + 1).map(|n| part(&format!("name=n{n}"), "")).collect(),
                "MaxPostPreDataLengthExceededError",
            ),
        ] {
            let short: String = body.chars().take(200).collect();
            assert_eq!(name_of(read(body.as_bytes()).await.expect_err(&short)), code, "{short}");
        }
        let not_text = [part("name=a", "").trim_end().as_bytes(), b"\r\n\r\n\xff\r\n", file.as_bytes()].concat();
        assert_eq!(name_of(read(&not_text).await.expect_err("no UTF-8")), "InvalidArgument");
    }

    #[test]
    fn boundaries() {
        for (kind, expected) in [
            ("multipart/form-data; boundary=a1", Some("a1")),
            ("multipart/form-data;charset=utf-8; Boundary=\"a b\"", Some("a b")),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary=", None),
            ("multipart/form-data; boundary=é", None),
        ] {
            assert_eq!(boundary(kind).ok().as_deref(), expected, "{kind}");
        }
        assert!(boundary(&format!("multipart/form-data; boundary={}", "a".repeat(71))).is_err());
    }
}
