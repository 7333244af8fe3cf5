//! The form of a command: its words and its arguments. It is written once as text; the parser of arguments and the
//! descriptions that `ceph` fetches read it from there.
//!
//! `osd pool create {pool:Poolname} {pg_num:Int,range=0,req=false} {who:String,n=N}`: words, then arguments in braces
//! with name, type and attributes. Attributes are those of Ceph's descriptions: `req=false` optional, `n=N` any number,
//! `range=0` or `range=0|1` bounds, `strings=a|b` choices, `goodchars=[A-Za-z]` allowed characters.

use serde_json::{Value, json};

/// The type of an argument, as `ceph` knows types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Int,
    Float,
    Bool,
    Choices,
    /// `3` or `osd.3`.
    OsdName,
    Uuid,
    Pgid,
    /// Text of any kind; the field gives clients its type (`CephString`, `CephPoolname` ...).
    Text(&'static str),
}

/// One argument.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    /// True if it takes a list.
    pub many: bool,
    /// Lowest and highest number.
    pub range: Option<(f64, Option<f64>)>,
    pub choices: Vec<&'static str>,
    /// Type and attributes in their original spelling, for the descriptions.
    attributes: Vec<(&'static str, &'static str)>,
}

/// Words and arguments of one command.
#[derive(Clone, PartialEq, Debug)]
pub struct Signature {
    /// The words, one blank between them.
    pub prefix: String,
    pub parameters: Vec<Parameter>,
}

impl Signature {
    /// Reads a signature. Panics on one that is not well-formed: signatures are part of the program.
    pub fn parse(text: &'static str) -> Signature {
        let mut words = Vec::new();
        let mut parameters = Vec::new();
        for part in text.split_ascii_whitespace() {
            match part.strip_prefix('{') {
                Some(inner) => {
                    let inner = inner.strip_suffix('}').unwrap_or_else(|| panic!("'{part}' in '{text}' has no end"));
                    parameters.push(Parameter::parse(inner));
                }
                None => {
                    assert!(parameters.is_empty(), "a word after an argument in '{text}'");
                    words.push(part);
                }
            }
        }
        Signature { prefix: words.join(" "), parameters }
    }

    /// Returns the `sig` of a description: words as strings, arguments as objects.
    pub fn describe(&self) -> Value {
        let words = self.prefix.split(' ').map(|word| json!(word));
        let parameters = self.parameters.iter().map(|parameter| {
            let mut object = serde_json::Map::new();
            for (key, value) in &parameter.attributes {
                object.insert((*key).to_owned(), json!(value));
            }
            Value::Object(object)
        });
        Value::Array(words.chain(parameters).collect())
    }
}

impl Parameter {
    fn parse(text: &'static str) -> Parameter {
        let mut parts = text.split(',');
        let head = parts.next().unwrap_or_default();
        let (name, kind_name) = head.split_once(':').unwrap_or_else(|| panic!("'{text}' has no type"));
        let type_name: &'static str = TYPES
            .iter()
            .copied()
            .find(|full| full.strip_prefix("Ceph") == Some(kind_name))
            .unwrap_or_else(|| panic!("'{kind_name}' is no type"));
        let kind = match kind_name {
            "Int" => Kind::Int,
            "Float" => Kind::Float,
            "Bool" => Kind::Bool,
            "Choices" => Kind::Choices,
            "OsdName" => Kind::OsdName,
            "UUID" => Kind::Uuid,
            "Pgid" => Kind::Pgid,
            _ => Kind::Text(type_name),
        };
        let mut parameter = Parameter {
            name,
            kind,
            required: true,
            many: false,
            range: None,
            choices: Vec::new(),
            attributes: vec![("name", name), ("type", type_name)],
        };
        for attribute in parts {
            let (key, value) = attribute.split_once('=').unwrap_or_else(|| panic!("'{attribute}' has no value"));
            parameter.attributes.push((key, value));
            let number = |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("'{text}' is no bound"));
            match key {
                "req" => parameter.required = value == "true",
                "n" => parameter.many = true,
                "strings" => parameter.choices = value.split('|').collect(),
                "range" => {
                    let (low, high) = value.split_once('|').map_or((value, None), |(low, high)| (low, Some(high)));
                    parameter.range = Some((number(low), high.map(number)));
                }
                "goodchars" => {}
                _ => panic!("'{key}' is no attribute"),
            }
        }
        assert_eq!(kind == Kind::Choices, !parameter.choices.is_empty(), "'{name}': choices belong to Choices");
        parameter
    }
}

/// Type names in descriptions.
const TYPES: &[&str] = &[
    "CephInt",
    "CephFloat",
    "CephBool",
    "CephString",
    "CephChoices",
    "CephPoolname",
    "CephObjectname",
    "CephPgid",
    "CephName",
    "CephOsdName",
    "CephEntityAddr",
    "CephIPAddr",
    "CephUUID",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_describe_themselves() {
        let signature = Signature::parse("osd reweight {id:OsdName} {weight:Float,range=0.0|1.0,req=false}");
        assert_eq!(signature.prefix, "osd reweight");
        assert_eq!(signature.parameters[1].range, Some((0.0, Some(1.0))));
        assert_eq!(
            signature.describe().to_string(),
            concat!(
                r#"["osd","reweight",{"name":"id","type":"CephOsdName"},"#,
                r#"{"name":"weight","type":"CephFloat","range":"0.0|1.0","req":"false"}]"#
            )
        );
    }
}
