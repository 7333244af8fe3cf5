//! Tags of buckets and objects.

use crate::error::{S3Code, S3Error};
use crate::uri::percent_decode;
use crate::xml::Element;
use serde::{Deserialize, Serialize};

/// Most tags of an object.
pub const OBJECT_TAGS_MAX: usize = 10;
/// Most tags of a bucket.
pub const BUCKET_TAGS_MAX: usize = 50;
/// Longest key, in characters.
const KEY_CHARS_MAX: usize = 128;
/// Longest value, in characters.
const VALUE_CHARS_MAX: usize = 256;

/// Tags in the order in which they were set. Keys are unique.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagSet {
    pub tags: Vec<Tag>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    pub key: String,
    pub value: String,
}

impl Tag {
    /// Refuses a tag that S3 does not take. Errors: `InvalidTag`.
    pub fn validate(&self) -> Result<(), S3Error> {
        let allowed = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == ' ' || "+-=._:/@".contains(c));
        let sentence = if self.key.is_empty() || self.key.chars().count() > KEY_CHARS_MAX {
            "The TagKey you have provided is empty or too long"
        } else if self.value.chars().count() > VALUE_CHARS_MAX {
            "The TagValue you have provided is too long"
        } else if !allowed(&self.key) || !allowed(&self.value) {
            "Tags hold letters, digits, spaces and + - = . _ : / @ only"
        } else if self.key.starts_with("aws:") {
            "Tags whose keys begin with aws: are the system's"
        } else {
            return Ok(());
        };
        Err(S3Error::new(S3Code::InvalidTag, sentence))
    }

    /// Reads `Tag`. Errors: `MalformedXML`.
    pub(crate) fn from_element(element: &Element) -> Result<Tag, S3Error> {
        element.only(&["Key", "Value"])?;
        Ok(Tag { key: element.required("Key")?.leaf()?, value: element.required("Value")?.leaf()? })
    }

    pub(crate) fn to_element(&self) -> Element {
        Element::new("Tag").with_text("Key", &self.key).with_text("Value", &self.value)
    }
}

impl TagSet {
    /// Reads `Tagging`. `tags_max`: [`OBJECT_TAGS_MAX`] or [`BUCKET_TAGS_MAX`].
    ///
    /// Errors: `MalformedXML`, `InvalidTag`.
    pub fn from_xml(document: &[u8], tags_max: usize) -> Result<TagSet, S3Error> {
        let root = Element::parse(document, "Tagging")?;
        root.only(&["TagSet"])?;
        let set = root.required("TagSet")?;
        set.only(&["Tag"])?;
        let tags: Result<Vec<Tag>, S3Error> = set.all("Tag").map(Tag::from_element).collect();
        let tags = TagSet { tags: tags? };
        tags.validate(tags_max)?;
        Ok(tags)
    }

    /// Reads the header `x-amz-tagging`: `key=value&…`, percent-encoded.
    ///
    /// Errors: `InvalidArgument` for what is not encoded so, `InvalidTag`.
    pub fn from_header(header: &str) -> Result<TagSet, S3Error> {
        let mut tags = Vec::new();
        for pair in header.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (percent_decode(key), percent_decode(value)) {
                (Some(key), Some(value)) => tags.push(Tag { key, value }),
                _ => return Err(S3Error::invalid_argument("x-amz-tagging is not percent-encoded UTF-8")),
            }
        }
        let tags = TagSet { tags };
        tags.validate(OBJECT_TAGS_MAX)?;
        Ok(tags)
    }

    /// `Tagging` of an answer.
    pub fn to_xml(&self) -> String {
        let set = self.tags.iter().fold(Element::new("TagSet"), |set, tag| set.with(tag.to_element()));
        Element::root("Tagging").with(set).write()
    }

    /// Refuses tags that S3 does not take. Errors: `InvalidTag`.
    pub fn validate(&self, tags_max: usize) -> Result<(), S3Error> {
        if self.tags.len() > tags_max {
            return Err(S3Error::new(S3Code::InvalidTag, format!("there are more than {tags_max} tags")));
        }
        for (index, tag) in self.tags.iter().enumerate() {
            tag.validate()?;
            if self.tags[..index].iter().any(|earlier| earlier.key == tag.key) {
                return Err(S3Error::new(S3Code::InvalidTag, "Cannot provide multiple Tags with the same key"));
            }
        }
        Ok(())
    }

    /// Value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.tags.iter().find(|tag| tag.key == key).map(|tag| tag.value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(count: usize, key_chars: usize, value_chars: usize) -> TagSet {
        let tag = |at| Tag { key: format!("{at:0key_chars$}"), value: "é".repeat(value_chars) };
        TagSet { tags: (0..count).map(tag).collect() }
    }

    #[test]
    fn limits_are_those_of_s3() {
        for (tags, tags_max, taken) in [
            (set(0, 1, 1), OBJECT_TAGS_MAX, true),
            (set(10, 1, 1), OBJECT_TAGS_MAX, true),
            (set(11, 1, 1), OBJECT_TAGS_MAX, false),
            (set(50, 2, 0), BUCKET_TAGS_MAX, true),
            (set(51, 2, 0), BUCKET_TAGS_MAX, false),
            (set(10, 128, 256), OBJECT_TAGS_MAX, true),
            (set(10, 129, 256), OBJECT_TAGS_MAX, false),
            (set(10, 128, 257), OBJECT_TAGS_MAX, false),
        ] {
            let answer = TagSet::from_xml(tags.to_xml().as_bytes(), tags_max);
            match taken {
                true => assert_eq!(answer, Ok(tags)),
                false => assert_eq!(answer.unwrap_err().code.name(), "InvalidTag"),
            }
        }
    }

    #[test]
    fn tags_of_headers() {
        let pairs = |header: &str| {
            let tags = TagSet::from_header(header).map_err(|error| error.code.name())?;
            Ok(tags.tags.into_iter().map(|tag| format!("{}>{}", tag.key, tag.value)).collect::<Vec<_>>().join(" "))
        };
        for (header, tags) in [
            ("", Ok("")),
            ("a=b", Ok("a>b")),
            ("a=b&c=d%2Be", Ok("a>b c>d+e")),
            ("a", Ok("a>")),
            ("a=b=c", Ok("a>b=c")),
            ("%C3%A9=x", Ok("é>x")),
            ("=b", Err("InvalidTag")),
            ("a=b&a=c", Err("InvalidTag")),
            ("a=%3C", Err("InvalidTag")),
            ("aws:x=b", Err("InvalidTag")),
            ("a=%", Err("InvalidArgument")),
            ("a=%zz", Err("InvalidArgument")),
            ("a=%FF", Err("InvalidArgument")),
        ] {
            assert_eq!(pairs(header), tags.map(str::to_owned), "{header}");
        }
        assert_eq!(TagSet::from_header("a+b=c+d").unwrap().get("a b"), Some("c d"));
    }

    #[test]
    fn documents_that_are_none() {
        for document in [
            "",
            "<Tagging/>",
            "<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>",
            "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value><More/></Tag></TagSet></Tagging>",
            "<Tagging><Tags/></Tagging>",
        ] {
            let answer = TagSet::from_xml(document.as_bytes(), OBJECT_TAGS_MAX);
            assert_eq!(answer.unwrap_err().code.name(), "MalformedXML", "{document}");
        }
    }

    proptest! {
        #[test]
        fn nothing_ends_the_readers(text in "\\PC{0,40}|[a%&=+0-9]{0,20}", bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = TagSet::from_header(&text);
            let _ = TagSet::from_xml(&bytes, OBJECT_TAGS_MAX);
        }
    }
}
