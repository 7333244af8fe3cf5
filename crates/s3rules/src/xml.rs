//! XML documents of the API as trees, read strictly and with limits.

use crate::error::S3Error;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

/// Longest document, in bytes. A lifecycle configuration of 1,000 full rules takes less.
pub const XML_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of elements.
const DEPTH_MAX: usize = 16;
/// Most elements of a document.
const ELEMENTS_MAX: usize = 50_000;
/// Namespace of the API's documents.
pub const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// Element of a document. Names are without their prefix: `xsi:type` is `type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub children: Vec<Element>,
    pub text: String,
}

impl Element {
    /// Reads a document whose root has the name `root`.
    ///
    /// Errors: `MalformedXML` for what is no well-formed XML, has another root, a document type, an entity of its own,
    /// text between elements, or passes a limit.
    pub fn parse(document: &[u8], root: &str) -> Result<Element, S3Error> {
        let element = Parser::default().run(document)?;
        if element.name != root {
            return Err(S3Error::malformed_xml(format!("the document is {}, not {root}", element.name)));
        }
        Ok(element)
    }

    /// An element to write.
    pub fn new(name: &str) -> Element {
        Element { name: name.to_owned(), ..Element::default() }
    }

    /// A root to write, in the API's namespace.
    pub fn root(name: &str) -> Element {
        let attributes = vec![("xmlns".to_owned(), NAMESPACE.to_owned())];
        Element { name: name.to_owned(), attributes, ..Element::default() }
    }

    /// Adds a child.
    pub fn with(mut self, child: Element) -> Element {
        self.children.push(child);
        self
    }

    /// Adds a child that holds `text`.
    pub fn with_text(self, name: &str, text: impl Into<String>) -> Element {
        self.with(Element { name: name.to_owned(), text: text.into(), ..Element::default() })
    }

    /// Adds a child that holds `text`, if there is one.
    pub fn with_optional(self, name: &str, text: Option<impl Into<String>>) -> Element {
        match text {
            Some(text) => self.with_text(name, text),
            None => self,
        }
    }

    /// Refuses children whose names are not in `names`.
    pub fn only(&self, names: &[&str]) -> Result<(), S3Error> {
        match self.children.iter().find(|child| !names.contains(&child.name.as_str())) {
            None => Ok(()),
            Some(child) => Err(S3Error::malformed_xml(format!("{} does not belong into {}", child.name, self.name))),
        }
    }

    /// The child of a name, if there is one. Two are an error.
    pub fn child(&self, name: &str) -> Result<Option<&Element>, S3Error> {
        let mut found = self.children.iter().filter(|child| child.name == name);
        let first = found.next();
        if found.next().is_some() {
            return Err(S3Error::malformed_xml(format!("{} has {name} twice", self.name)));
        }
        Ok(first)
    }

    /// The child of a name. Its absence is an error.
    pub fn required(&self, name: &str) -> Result<&Element, S3Error> {
        self.child(name)?.ok_or_else(|| S3Error::malformed_xml(format!("{} has no {name}", self.name)))
    }

    /// All children of a name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// Text of the child of a name, if there is one.
    pub fn text_of(&self, name: &str) -> Result<Option<String>, S3Error> {
        self.child(name)?.map(Element::leaf).transpose()
    }

    /// Number in the child of a name, if there is one.
    pub fn number_of(&self, name: &str) -> Result<Option<i64>, S3Error> {
        let Some(text) = self.text_of(name)? else { return Ok(None) };
        match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(S3Error::malformed_xml(format!("{name} is no number: {text:?}"))),
        }
    }

    /// Truth value in the child of a name, if there is one.
    pub fn flag_of(&self, name: &str) -> Result<Option<bool>, S3Error> {
        match self.text_of(name)?.as_deref().map(str::trim) {
            None => Ok(None),
            Some("true" | "TRUE" | "True" | "1") => Ok(Some(true)),
            Some("false" | "FALSE" | "False" | "0") => Ok(Some(false)),
            Some(text) => Err(S3Error::malformed_xml(format!("{name} is neither true nor false: {text:?}"))),
        }
    }

    /// Text of an element without children.
    pub fn leaf(&self) -> Result<String, S3Error> {
        if self.children.is_empty() {
            Ok(self.text.clone())
        } else {
            Err(S3Error::malformed_xml(format!("{} holds elements where text belongs", self.name)))
        }
    }

    /// Value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The document with this root.
    pub fn write(&self) -> String {
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        self.write_into(&mut out);
        out
    }

    fn write_into(&self, out: &mut String) {
        out.push('<');
        out.push_str(&self.name);
        for (key, value) in &self.attributes {
            out.push(' ');
            out.push_str(key);
            out.push_str("=\"");
            escape(value, out);
            out.push('"');
        }
        out.push('>');
        escape(&self.text, out);
        for child in &self.children {
            child.write_into(out);
        }
        out.push_str("</");
        out.push_str(&self.name);
        out.push('>');
    }
}

/// Writes text so that a reader gets it back, line ends and tabs included.
fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\r' => out.push_str("&#13;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            other => out.push(other),
        }
    }
}

/// State while a document is read.
#[derive(Default)]
struct Parser {
    open: Vec<Element>,
    root: Option<Element>,
    elements: usize,
}

impl Parser {
    fn run(mut self, document: &[u8]) -> Result<Element, S3Error> {
        if document.len() > XML_BYTES_MAX {
            return Err(S3Error::malformed_xml(format!("the document has more than {XML_BYTES_MAX} bytes")));
        }
        let text = std::str::from_utf8(document)
            .map_err(|_| S3Error::malformed_xml("the document is not written in UTF-8"))?;
        let mut reader = Reader::from_str(text);
        loop {
            let event = reader.read_event().map_err(|error| S3Error::malformed_xml(format!("no XML: {error}")))?;
            match event {
                Event::Start(start) => self.start(&start)?,
                Event::Empty(start) => {
                    self.start(&start)?;
                    self.end()?;
                }
                Event::End(_) => self.end()?,
                Event::Text(text) => self.text(&text)?,
                Event::CData(data) => self.text(&data)?,
                Event::GeneralRef(reference) => self.reference(&reference)?,
                Event::DocType(_) => return Err(S3Error::malformed_xml("document types are not taken")),
                Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
                Event::Eof => break,
            }
        }
        match self.root {
            Some(root) if self.open.is_empty() => Ok(root),
            _ => Err(S3Error::malformed_xml("the document ends too early")),
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), S3Error> {
        self.elements += 1;
        if self.elements > ELEMENTS_MAX || self.open.len() >= DEPTH_MAX {
            return Err(S3Error::malformed_xml("the document has too many elements"));
        }
        if self.root.is_some() && self.open.is_empty() {
            return Err(S3Error::malformed_xml("the document has two roots"));
        }
        let mut attributes = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| S3Error::malformed_xml(format!("no attribute: {error}")))?;
            attributes.push((utf8(attribute.key.local_name().as_ref())?, utf8(&attribute.value)?));
        }
        let name = utf8(start.local_name().as_ref())?;
        self.open.push(Element { name, attributes, ..Element::default() });
        Ok(())
    }

    fn end(&mut self) -> Result<(), S3Error> {
        let Some(mut element) = self.open.pop() else {
            return Err(S3Error::malformed_xml("an element ends that has not begun"));
        };
        if !element.children.is_empty() {
            if !element.text.trim().is_empty() {
                return Err(S3Error::malformed_xml(format!("{} has text between its elements", element.name)));
            }
            element.text.clear();
        }
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
        Ok(())
    }

    fn text(&mut self, bytes: &[u8]) -> Result<(), S3Error> {
        let text = std::str::from_utf8(bytes).map_err(|_| S3Error::malformed_xml("text is not written in UTF-8"))?;
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n']).is_empty() => {}
            None => return Err(S3Error::malformed_xml("text stands outside of the document")),
        }
        Ok(())
    }

    fn reference(&mut self, reference: &BytesRef<'_>) -> Result<(), S3Error> {
        let number = reference.resolve_char_ref().map_err(|_| S3Error::malformed_xml("no such character"))?;
        let character = match (number, &**reference) {
            (Some(character), _) => character,
            (None, b"amp") => '&',
            (None, b"lt") => '<',
            (None, b"gt") => '>',
            (None, b"quot") => '"',
            (None, b"apos") => '\'',
            (None, _) => return Err(S3Error::malformed_xml("entities are not taken")),
        };
        match self.open.last_mut() {
            Some(element) => element.text.push(character),
            None => return Err(S3Error::malformed_xml("text stands outside of the document")),
        }
        Ok(())
    }
}

fn utf8(bytes: &[u8]) -> Result<String, S3Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(S3Error::malformed_xml("a name is not written in UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn documents_become_trees() {
        let document =
            b"\xef\xbb\xbf<?xml version='1.0'?><!-- c --><a xmlns='x'>\n <x:b k:type='t'>1 &amp; &#x32;</x:b>\
            <b/><c><![CDATA[<&]]></c></a>\n";
        let a = Element::parse(document, "a").unwrap();
        let [b, empty, c] = &a.children[..] else { panic!("{a:?}") };
        assert_eq!((b.text.as_str(), b.attribute("type")), ("1 & 2", Some("t")));
        assert_eq!((empty.text.as_str(), c.text.as_str()), ("", "<&"));
        assert!(a.child("b").is_err(), "it is there twice");
        assert!(a.child("d").unwrap().is_none());
        assert!(a.only(&["b", "c"]).is_ok());
        assert!(a.only(&["b"]).is_err());
    }

    #[test]
    fn documents_that_are_none_are_refused() {
        let deep = format!("{}{}", "<a>".repeat(17), "</a>".repeat(17));
        let bomb = "<!DOCTYPE a [<!ENTITY x 'yyyy'><!ENTITY z '&x;&x;'>]><a>&z;</a>";
        for document in [
            "",
            "a",
            "<a>",
            "<a></b>",
            "<a/><a/>",
            "<b/>",
            "<a>&x;</a>",
            "<a>x<b/></a>",
            "<a/>x",
            "<a",
            "<a b></a>",
            "<a>&#0;</a>",
            "<a>&#xD800;</a>",
            &deep,
            bomb,
            "<!DOCTYPE a><a/>",
            "<a><![CDATA[</a>",
            "</a>",
            "<a>&amp</a>",
        ] {
            let answer = Element::parse(document.as_bytes(), "a");
            assert_eq!(answer.unwrap_err().code.name(), "MalformedXML", "{document}");
        }
        assert!(Element::parse(b"<a>\xff</a>", "a").is_err());
        assert!(Element::parse(&vec![b' '; XML_BYTES_MAX + 1], "a").is_err());
        let wide = format!("<a>{}</a>", "<b/>".repeat(ELEMENTS_MAX));
        assert!(Element::parse(wide.as_bytes(), "a").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_end_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Element::parse(&bytes, "a");
        }

        #[test]
        fn no_markup_ends_the_reader(text in "[<>/a&#x;!\\[\\]\\-?=\"' 0-9]{0,60}") {
            let _ = Element::parse(text.as_bytes(), "a");
        }

        #[test]
        fn what_is_written_is_read_again(text in "[ -~\\n\\r\\tä漢]{0,40}") {
            let written = Element::root("a").with_text("b", text.clone()).write();
            prop_assert_eq!(Element::parse(written.as_bytes(), "a").unwrap().text_of("b").unwrap().unwrap(), text);
        }
    }
}
