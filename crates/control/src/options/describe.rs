//! Options as values of JSON.

use super::{OptionFacts, OptionKind, use_of, value};
use serde_json::{Value, json};

/// Returns a value as the type of JSON that Ceph gives it.
pub fn typed(kind: OptionKind, text: &str) -> Value {
    let number = match kind {
        OptionKind::Bool => Some(json!(text == "true")),
        OptionKind::Int => text.parse::<i64>().ok().map(|n| json!(n)),
        OptionKind::Uint => text.parse::<u64>().ok().map(|n| json!(n)),
        OptionKind::Float => text.parse::<f64>().ok().map(|n| json!(n)),
        _ => None,
    };
    number.unwrap_or_else(|| json!(text))
}

impl OptionFacts {
    /// Returns all that is known of it, under Ceph's names.
    pub fn describe(&self) -> Value {
        let typed_or_empty = |text: Option<&str>| text.map_or_else(|| json!(""), |text| typed(self.kind, text));
        let own = self.default_for(false);
        // The short text where it is Ceph's: it has more digits.
        let default = if own == value::written(self.kind, self.default) { self.default } else { own.as_str() };
        let mut value = json!({
            "name": self.name,
            "type": self.kind.word(),
            "level": self.level,
            "desc": use_of(self.name).effect(),
            "long_desc": "",
            "default": typed(self.kind, default),
            "daemon_default": typed_or_empty(self.daemon_default),
            "tags": self.tags,
            "services": self.services,
            "see_also": self.see_also,
        });
        if self.kind == OptionKind::Text {
            value["enum_values"] = json!(self.choices);
        }
        value["min"] = typed_or_empty(self.min);
        value["max"] = typed_or_empty(self.max);
        value["can_update_at_runtime"] = json!(self.at_runtime);
        value["flags"] = json!(self.flags);
        value
    }
}
