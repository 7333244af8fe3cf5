//! The arguments of a command, checked against its signature.

use crate::signature::{Kind, Parameter, Signature};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use types::{Fsid, OsdId, PgId};

/// Reason why arguments do not fit their command. Each names the argument.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ArgumentError {
    #[error("missing argument '{0}'")]
    Missing(&'static str),
    #[error("argument '{name}' must be {wanted}, not {got}")]
    Type { name: &'static str, wanted: &'static str, got: String },
    #[error("argument '{name}': {value} is not between {low} and {high}")]
    Range { name: &'static str, value: f64, low: f64, high: f64 },
    #[error("argument '{name}': {value} is below {low}")]
    TooLow { name: &'static str, value: f64, low: f64 },
    #[error("argument '{name}': '{got}' is not one of {choices}")]
    Choice { name: &'static str, got: String, choices: String },
}

/// One checked value.
#[derive(Clone, PartialEq, Debug)]
enum Argument {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    Osd(OsdId),
    Uuid(Fsid),
    Pg(PgId),
}

/// Checked arguments by name. A getter panics if the signature gives the argument another type: that is a mistake in
/// the handler, and the tests call every handler.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Arguments {
    values: BTreeMap<&'static str, Vec<Argument>>,
}

impl Arguments {
    /// Checks `command` against `signature`. Members that the signature does not name are ignored.
    pub fn parse(signature: &Signature, command: &Map<String, Value>) -> Result<Arguments, ArgumentError> {
        let mut values = BTreeMap::new();
        for parameter in &signature.parameters {
            let given: Vec<&Value> = match command.get(parameter.name) {
                None | Some(Value::Null) => Vec::new(),
                Some(Value::Array(items)) if parameter.many => items.iter().collect(),
                Some(value) => vec![value],
            };
            if given.is_empty() && parameter.required {
                return Err(ArgumentError::Missing(parameter.name));
            }
            let checked: Result<Vec<_>, _> = given.into_iter().map(|value| check(parameter, value)).collect();
            let checked = checked?;
            if !checked.is_empty() {
                values.insert(parameter.name, checked);
            }
        }
        Ok(Arguments { values })
    }

    fn first(&self, name: &str) -> Option<&Argument> {
        self.values.get(name)?.first()
    }

    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Returns a text argument, if given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.first(name).map(|value| match value {
            Argument::Text(text) => text.as_str(),
            other => panic!("argument '{name}' is {other:?}, not text"),
        })
    }

    /// Returns a required text argument.
    pub fn word(&self, name: &str) -> &str {
        self.text(name).unwrap_or_else(|| panic!("argument '{name}' is not in the signature or optional"))
    }

    pub fn texts(&self, name: &str) -> Vec<&str> {
        let values = self.values.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut texts = Vec::new();
        for value in values {
            match value {
                Argument::Text(text) => texts.push(text.as_str()),
                other => panic!("argument '{name}' is {other:?}, not text"),
            }
        }
        texts
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        self.first(name).map(|value| match value {
            Argument::Int(n) => *n,
            other => panic!("argument '{name}' is {other:?}, not an integer"),
        })
    }

    pub fn float(&self, name: &str) -> Option<f64> {
        self.floats(name).first().copied()
    }

    pub fn floats(&self, name: &str) -> Vec<f64> {
        let values = self.values.get(name).map(Vec::as_slice).unwrap_or_default();
        let number = |value: &Argument| match value {
            Argument::Float(n) => *n,
            other => panic!("argument '{name}' is {other:?}, not a number"),
        };
        values.iter().map(number).collect()
    }

    /// Returns a required number.
    pub fn number(&self, name: &str) -> f64 {
        self.float(name).unwrap_or_else(|| panic!("argument '{name}' is not in the signature or optional"))
    }

    /// Returns true if a flag is given and true.
    pub fn flag(&self, name: &str) -> bool {
        match self.first(name) {
            None => false,
            Some(Argument::Bool(given)) => *given,
            Some(other) => panic!("argument '{name}' is {other:?}, not a flag"),
        }
    }

    pub fn osd(&self, name: &str) -> Option<OsdId> {
        self.osds(name).first().copied()
    }

    pub fn osds(&self, name: &str) -> Vec<OsdId> {
        let values = self.values.get(name).map(Vec::as_slice).unwrap_or_default();
        let osd = |value: &Argument| match value {
            Argument::Osd(osd) => *osd,
            other => panic!("argument '{name}' is {other:?}, not an OSD"),
        };
        values.iter().map(osd).collect()
    }

    pub fn uuid(&self, name: &str) -> Option<Fsid> {
        self.first(name).map(|value| match value {
            Argument::Uuid(uuid) => *uuid,
            other => panic!("argument '{name}' is {other:?}, not a UUID"),
        })
    }

    pub fn pg(&self, name: &str) -> Option<PgId> {
        self.pgs(name).first().copied()
    }

    pub fn pgs(&self, name: &str) -> Vec<PgId> {
        let values = self.values.get(name).map(Vec::as_slice).unwrap_or_default();
        let pg = |value: &Argument| match value {
            Argument::Pg(pg) => *pg,
            other => panic!("argument '{name}' is {other:?}, not a placement group"),
        };
        values.iter().map(pg).collect()
    }
}

/// Reads `osd.3` or `3`.
pub fn parse_osd(text: &str) -> Option<OsdId> {
    let number = text.strip_prefix("osd.").unwrap_or(text);
    let id: i32 = number.parse().ok().filter(|_| number.bytes().all(|b| b.is_ascii_digit()))?;
    (id != OsdId::NONE.0).then_some(OsdId(id))
}

fn check(parameter: &Parameter, value: &Value) -> Result<Argument, ArgumentError> {
    let name = parameter.name;
    let wrong = |wanted| {
        let got = match value {
            Value::String(text) => format!("'{text}'"),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            other => other.to_string(),
        };
        ArgumentError::Type { name, wanted, got }
    };
    let in_range = |n: f64| match parameter.range {
        Some((low, high)) if n < low || high.is_some_and(|high| n > high) || n.is_nan() => Err(match high {
            Some(high) => ArgumentError::Range { name, value: n, low, high },
            None => ArgumentError::TooLow { name, value: n, low },
        }),
        _ => Ok(()),
    };
    // Texts may come as numbers: `ceph` and scripts are not strict about quotes.
    let text = || match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(n) => Some(n.to_string()),
        _ => None,
    };
    match parameter.kind {
        Kind::Int => {
            let n = match value {
                Value::Number(n) => n.as_i64(),
                Value::String(text) => text.trim().parse().ok(),
                _ => None,
            };
            let n = n.ok_or_else(|| wrong("an integer"))?;
            in_range(n as f64)?;
            Ok(Argument::Int(n))
        }
        Kind::Float => {
            let n = match value {
                Value::Number(n) => n.as_f64(),
                Value::String(text) => text.trim().parse().ok().filter(|n: &f64| n.is_finite()),
                _ => None,
            };
            let n = n.ok_or_else(|| wrong("a number"))?;
            in_range(n)?;
            Ok(Argument::Float(n))
        }
        Kind::Bool => match value {
            Value::Bool(given) => Ok(Argument::Bool(*given)),
            Value::String(text) => match text.as_str() {
                "true" | "yes" | "1" | "on" => Ok(Argument::Bool(true)),
                "false" | "no" | "0" | "off" => Ok(Argument::Bool(false)),
                // Older clients send a flag as its own spelling, `--yes-i-really-mean-it`.
                text if text.strip_prefix("--").is_some_and(|flag| flag.replace('-', "_") == name) => {
                    Ok(Argument::Bool(true))
                }
                _ => Err(wrong("true or false")),
            },
            _ => Err(wrong("true or false")),
        },
        Kind::Choices => {
            let text = text().ok_or_else(|| wrong("a word"))?;
            if !parameter.choices.contains(&text.as_str()) {
                return Err(ArgumentError::Choice { name, got: text, choices: parameter.choices.join("|") });
            }
            Ok(Argument::Text(text))
        }
        Kind::OsdName => {
            let osd = text().as_deref().and_then(parse_osd);
            osd.map(Argument::Osd).ok_or_else(|| wrong("an OSD such as 3 or osd.3"))
        }
        Kind::Uuid => {
            let uuid = text().and_then(|text| text.parse().ok());
            uuid.map(Argument::Uuid).ok_or_else(|| wrong("a UUID"))
        }
        Kind::Pgid => {
            let pg = text().and_then(|text| text.parse().ok());
            pg.map(Argument::Pg).ok_or_else(|| wrong("a placement group such as 1.2f"))
        }
        Kind::Text(_) => text().map(Argument::Text).ok_or_else(|| wrong("text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn parse(signature: &'static str, command: Value) -> Result<Arguments, String> {
        let Value::Object(command) = command else { panic!("not an object") };
        Arguments::parse(&Signature::parse(signature), &command).map_err(|e| e.to_string())
    }

    #[test]
    fn values_are_checked_and_errors_name_the_argument() {
        let sig = "x {n:Int,range=0|9,req=false} {w:Float,req=false} {id:OsdName,req=false} {ids:String,n=N,req=false} \
                   {c:Choices,strings=a|b,req=false} {yes_i:Bool,req=false} {pg:Pgid,req=false}";
        let ok = parse(sig, json!({"n": "7", "w": 1, "id": "osd.4", "ids": ["1", 2], "c": "b", "yes_i": "--yes-i"}));
        let ok = ok.unwrap();
        assert_eq!((ok.int("n"), ok.float("w"), ok.osd("id")), (Some(7), Some(1.0), Some(OsdId(4))));
        assert_eq!((ok.texts("ids"), ok.text("c"), ok.flag("yes_i")), (vec!["1", "2"], Some("b"), true));
        let check = |command, text: &str| assert_eq!(parse(sig, command).unwrap_err(), text);
        check(json!({"n": "abc"}), "argument 'n' must be an integer, not 'abc'");
        check(json!({"n": 2.5}), "argument 'n' must be an integer, not 2.5");
        check(json!({"n": 10}), "argument 'n': 10 is not between 0 and 9");
        check(json!({"w": "nan"}), "argument 'w' must be a number, not 'nan'");
        check(json!({"c": "z"}), "argument 'c': 'z' is not one of a|b");
        check(json!({"id": "osd.-1"}), "argument 'id' must be an OSD such as 3 or osd.3, not 'osd.-1'");
        check(json!({"pg": {}}), "argument 'pg' must be a placement group such as 1.2f, not an object");
        assert_eq!(parse("x {pool:Poolname}", json!({})).unwrap_err(), "missing argument 'pool'");
        assert_eq!(
            parse("x {pool:Poolname}", json!({"pool": ["a"]})).unwrap_err(),
            "argument 'pool' must be text, not a list"
        );
    }

    proptest! {
        #[test]
        fn no_value_panics(text in ".{0,20}", n in any::<f64>(), i in any::<i64>()) {
            let sig =
                Signature::parse("x {v:Int} {w:Float} {o:OsdName} {u:UUID} {p:Pgid} {b:Bool} {c:Choices,strings=a}");
            let odd = [json!([text, i]), json!({"a": n}), json!(true), json!(null)];
            for value in [json!(text), json!(n), json!(i)].into_iter().chain(odd) {
                for parameter in &sig.parameters {
                    let _ = check(parameter, &value);
                }
            }
        }
    }
}
