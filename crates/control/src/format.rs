//! One tree of values, printed as JSON the way Ceph's formatters print it.
//!
//! Its output differs from `serde_json`'s own where tools can see it: pretty output is indented by four blanks, a
//! number without a fraction has no `.0`, and fractions carry 17 significant digits.

use serde_json::Value;
use std::fmt::Write;

/// The output format that a command's `format` argument asks for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Format {
    /// Text for people; commands without a text of their own print [`Format::JsonPretty`].
    #[default]
    Plain,
    Json,
    JsonPretty,
    Xml,
    XmlPretty,
}

impl Format {
    /// Returns the format that the argument's text names. A name that is not known stands for [`Format::Plain`], as on
    /// a Ceph.
    pub fn from_name(name: &str) -> Format {
        match name {
            "json" => Format::Json,
            "json-pretty" => Format::JsonPretty,
            "xml" => Format::Xml,
            "xml-pretty" => Format::XmlPretty,
            _ => Format::Plain,
        }
    }

    /// Returns true for the XML formats; their names of parts are those of a command (`xml.rs`).
    pub fn is_xml(self) -> bool {
        matches!(self, Format::Xml | Format::XmlPretty)
    }

    /// Returns `value` as JSON: on one line without an end, or indented and with an end of line.
    pub fn render(self, value: &Value) -> String {
        let mut out = String::new();
        let pretty = !matches!(self, Format::Json | Format::Xml);
        write_value(&mut out, value, pretty.then_some(0));
        if pretty {
            out.push('\n');
        }
        out
    }
}

/// Writes a value. `indent` is the depth, or `None` for everything on one line.
fn write_value(out: &mut String, value: &Value, indent: Option<usize>) {
    match value {
        Value::Number(n) => match n.as_f64() {
            Some(f) if n.is_f64() => out.push_str(&significant_17(f)),
            _ => write!(out, "{n}").expect("writing to a string"),
        },
        Value::Array(items) => write_items(out, '[', ']', items.iter().map(|item| (None, item)), indent),
        Value::Object(fields) => {
            write_items(out, '{', '}', fields.iter().map(|(key, item)| (Some(key.as_str()), item)), indent);
        }
        Value::String(text) => write_string(out, text),
        Value::Null | Value::Bool(_) => write!(out, "{value}").expect("writing to a string"),
    }
}

fn write_items<'a>(
    out: &mut String,
    open: char,
    close: char,
    items: impl Iterator<Item = (Option<&'a str>, &'a Value)>,
    indent: Option<usize>,
) {
    out.push(open);
    let mut empty = true;
    for (key, item) in items {
        if !empty {
            out.push(',');
        }
        empty = false;
        let inner = indent.map(|depth| depth + 1);
        new_line(out, inner);
        if let Some(key) = key {
            write_string(out, key);
            out.push_str(if indent.is_some() { ": " } else { ":" });
        }
        write_value(out, item, inner);
    }
    if !empty {
        new_line(out, indent);
    }
    out.push(close);
}

fn new_line(out: &mut String, indent: Option<usize>) {
    if let Some(depth) = indent {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str("    "));
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push_str(&serde_json::to_string(text).expect("a string is JSON"));
}

/// Returns C's `%.17g`: enough digits to tell any two numbers apart, and no trailing zeros.
fn significant_17(f: f64) -> String {
    if f == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{f:.16e}");
    let (digits, exponent) = scientific.split_once('e').expect("scientific notation has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    let trim = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if (-4..17).contains(&exponent) {
        let fixed = format!("{f:.*}", (16 - exponent) as usize);
        if fixed.contains('.') { trim(&fixed) } else { fixed }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(digits), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn prints_like_cephs_formatter() {
        let value = json!({"b": [1, 0.5, f64::from(0.95_f32)], "a": {}, "e": [], "t": true, "s": "x\n\"y\""});
        assert_eq!(
            Format::Json.render(&value),
            r#"{"b":[1,0.5,0.94999998807907104],"a":{},"e":[],"t":true,"s":"x\n\"y\""}"#
        );
        let pretty = "{\n    \"b\": [\n        1,\n        0.5,\n        0.94999998807907104\n    ],\n    \
                      \"a\": {},\n    \
                      \"e\": [],\n    \"t\": true,\n    \"s\": \"x\\n\\\"y\\\"\"\n}\n";
        assert_eq!(Format::Plain.render(&value), pretty);
    }

    #[test]
    fn fractions_have_17_significant_digits() {
        for (f, text) in [
            (1.0, "1"),
            (0.0, "0"),
            (-0.0, "0"),
            (0.14817047119140625, "0.14817047119140625"),
            (14.870643615722656, "14.870643615722656"),
            (0.05, "0.050000000000000003"),
            (1e20, "1e+20"),
            (1.5e-7, "1.4999999999999999e-07"),
            (-2.5, "-2.5"),
            (123456789.0, "123456789"),
        ] {
            assert_eq!(significant_17(f), text);
        }
    }
}
