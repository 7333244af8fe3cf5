//! The commands of one daemon.

use crate::Format;
use crate::arguments::Arguments;
use crate::signature::Signature;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::Errno;
use wire::Rope;
use wire::messages::CommandReply;

/// One command: its form (see [`Signature`]), and its purpose in a line.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub signature: &'static str,
    pub help: &'static str,
}

impl Form {
    pub const fn new(signature: &'static str, help: &'static str) -> Form {
        Form { signature, help }
    }
}

/// A command that came, with its arguments checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Told {
    /// The command's words.
    pub prefix: String,
    pub args: Arguments,
    pub format: Format,
}

impl Told {
    /// Returns the answer `value` in the format that was asked for.
    pub fn value(&self, value: &Value) -> CommandReply {
        self.value_and_status(value, String::new())
    }

    /// Returns the answer `value` with a sentence for people.
    pub fn value_and_status(&self, value: &Value, status: String) -> CommandReply {
        let text = match self.format.is_xml() {
            true => crate::xml::render(&self.prefix, value, self.format == Format::XmlPretty),
            false => self.format.render(value),
        };
        CommandReply { result: 0, status, output: Rope::from(text.into_bytes()) }
    }

    /// Returns the answer `text`, whatever the format.
    pub fn text(&self, text: impl Into<String>) -> CommandReply {
        CommandReply { result: 0, status: String::new(), output: Rope::from(text.into().into_bytes()) }
    }

    /// Returns the answer of a command that cannot be done.
    pub fn refused(&self, errno: Errno, status: impl Into<String>) -> CommandReply {
        CommandReply { result: errno.as_result(), status: status.into(), output: Rope::new() }
    }
}

/// The reason why a text is no command, in Ceph's words.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error("invalid json")]
    NoObject,
    #[error("unknown command prefix {0}")]
    Unknown(String),
    #[error("invalid command json")]
    Arguments,
}

impl From<Refusal> for CommandReply {
    fn from(refusal: Refusal) -> CommandReply {
        CommandReply { result: Errno::EINVAL.as_result(), status: refusal.to_string(), output: Rope::new() }
    }
}

/// All commands of a daemon, by their words.
pub struct Table {
    by_prefix: BTreeMap<String, (Signature, &'static str)>,
}

impl Table {
    /// Gathers commands. Panics if two have the same words.
    pub fn new<'a>(forms: impl IntoIterator<Item = &'a Form>) -> Table {
        let mut by_prefix = BTreeMap::new();
        for form in forms {
            let signature = Signature::parse(form.signature);
            let former = by_prefix.insert(signature.prefix.clone(), (signature, form.help));
            assert!(former.is_none(), "'{}' is there twice", form.signature);
        }
        Table { by_prefix }
    }

    /// Reads a command, a JSON object with the words under `prefix` and the arguments by name.
    pub fn read(&self, line: &str) -> Result<Told, Refusal> {
        let Ok(Value::Object(object)) = serde_json::from_str(line) else { return Err(Refusal::NoObject) };
        let prefix = object.get("prefix").and_then(Value::as_str).unwrap_or_default();
        let Some((signature, _)) = self.by_prefix.get(prefix) else { return Err(Refusal::Unknown(prefix.to_owned())) };
        let args = Arguments::parse(signature, &object).map_err(|_| Refusal::Arguments)?;
        let format = object.get("format").and_then(Value::as_str).unwrap_or_default();
        Ok(Told { prefix: prefix.to_owned(), args, format: Format::from_name(format) })
    }

    /// Returns the words of all commands, ordered.
    pub fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.by_prefix.keys().map(String::as_str)
    }

    /// Returns the answer to `get_command_descriptions`. `more`: descriptions of commands that are not in the table.
    pub fn descriptions(&self, more: Vec<Value>) -> Value {
        let own = self.by_prefix.values().map(|(signature, help)| json!({"sig": signature.describe(), "help": help}));
        let numbered = own.chain(more).enumerate().map(|(i, entry)| (format!("cmd{i:03}"), entry));
        Value::Object(numbered.collect())
    }

    /// Returns the answer to `help`.
    pub fn help(&self) -> Value {
        let entry = |(prefix, (_, help)): (&String, &(Signature, &'static str))| (prefix.clone(), json!(help));
        Value::Object(self.by_prefix.iter().map(entry).collect::<Map<_, _>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_or_refused_in_cephs_words() {
        let forms = [Form::new("config get {var:String}", "one"), Form::new("log {level:Choices,strings=a|b}", "two")];
        let table = Table::new(&forms);
        let told = table.read(r#"{"prefix": "config get", "var": "x", "format": "json"}"#).unwrap();
        assert_eq!((told.prefix.as_str(), told.args.word("var"), told.format), ("config get", "x", Format::Json));
        let refusal = |line: &str| table.read(line).unwrap_err().to_string();
        assert_eq!(refusal("{bad"), "invalid json");
        assert_eq!(refusal("0"), "invalid json");
        assert_eq!(refusal(r#"{"prefix": "nonsense"}"#), "unknown command prefix nonsense");
        assert_eq!(refusal("{}"), "unknown command prefix ");
        assert_eq!(refusal(r#"{"prefix": "config get"}"#), "invalid command json");
        assert_eq!(refusal(r#"{"prefix": "log", "level": "c"}"#), "invalid command json");
        assert_eq!(table.help(), json!({"config get": "one", "log": "two"}));
        let described = table.descriptions(vec![json!({"sig": ["pg"]})]);
        assert_eq!(described["cmd000"]["sig"][1], "get");
        assert_eq!(described["cmd002"]["sig"][0], "pg");
    }
}
