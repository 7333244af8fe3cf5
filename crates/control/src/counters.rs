//! Running counts of a daemon, in the form in which `ceph tell NAME perf` shows them.

use crate::{Form, Told};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A counter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// A figure that rises and falls.
    Gauge(u64),
    Count(u64),
    /// Occurrences, and how long they took together.
    Times(u64, Duration),
}

/// One counter.
pub struct Counter {
    name: &'static str,
    help: &'static str,
    /// Ceph's short name, for tools that print columns; mostly empty.
    nick: &'static str,
    /// Ceph's priority: tools that collect counters leave out those below 5.
    priority: u8,
    bytes: bool,
    measure: Measure,
}

/// Counters of one part of the OSD.
pub struct Section {
    pub name: &'static str,
    pub counters: Vec<Counter>,
}

/// Makes a counter. `priority`: Ceph's; tools that collect counters leave out those below 5.
pub fn counter(name: &'static str, help: &'static str, priority: u8, measure: Measure) -> Counter {
    Counter { name, help, nick: "", priority, bytes: false, measure }
}

impl Counter {
    /// The value is in bytes.
    pub fn bytes(self) -> Counter {
        Counter { bytes: true, ..self }
    }

    /// Sets the short name.
    pub fn nick(self, nick: &'static str) -> Counter {
        Counter { nick, ..self }
    }
}

/// Counters as they were when `perf reset` last let them begin anew.
#[derive(Default)]
pub struct Counters(BTreeMap<(&'static str, &'static str), Measure>);

/// The forms of commands about counters, which every daemon answers by [`Counters::answer`].
pub const COMMANDS: &[Form] = &[
    Form::new("perf dump {logger:String,req=false} {counter:String,req=false}", "print running counts"),
    Form::new(
        "perf histogram dump {logger:String,req=false} {counter:String,req=false}",
        "print histograms; there are none",
    ),
    Form::new("perf histogram schema", "describe histograms; there are none"),
    Form::new("perf reset {var:String}", "let running counts begin at zero: one section's, or all"),
    Form::new("perf schema", "describe running counts"),
    Form::new("perfcounters_dump", "print running counts"),
    Form::new("perfcounters_schema", "describe running counts"),
];

impl Counters {
    /// Answers one of [`COMMANDS`]; `None` if it is another one. `sections` gives all counters, with their values at
    /// present.
    pub fn answer(&mut self, told: &Told, sections: impl FnOnce() -> Vec<Section>) -> Option<Value> {
        Some(match told.prefix.as_str() {
            "perf dump" | "perfcounters_dump" => {
                self.dump(&sections(), told.args.text("logger"), told.args.text("counter"))
            }
            "perf schema" | "perfcounters_schema" => schema(&sections()),
            "perf histogram dump" | "perf histogram schema" => no_histograms(&sections()),
            "perf reset" => self.reset(&sections(), told.args.word("var")),
            _ => return None,
        })
    }

    /// The answer to `perf dump`: all sections, or one, or one counter of one.
    pub fn dump(&self, sections: &[Section], logger: Option<&str>, only: Option<&str>) -> Value {
        let mut dump = Map::new();
        for section in sections.iter().filter(|section| logger.is_none_or(|name| name == section.name)) {
            let wanted = section.counters.iter().filter(|counter| only.is_none_or(|name| name == counter.name));
            let value = |counter: &Counter| (counter.name.to_owned(), self.since_reset(section, counter));
            let values: Map<String, Value> = wanted.map(value).collect();
            if !values.is_empty() {
                dump.insert(section.name.to_owned(), Value::Object(values));
            }
        }
        Value::Object(dump)
    }

    fn since_reset(&self, section: &Section, counter: &Counter) -> Value {
        match (counter.measure, self.0.get(&(section.name, counter.name))) {
            (Measure::Gauge(now), _) | (Measure::Count(now), None) => json!(now),
            (Measure::Count(now), Some(Measure::Count(then))) => json!(now.saturating_sub(*then)),
            (Measure::Times(count, sum), Some(Measure::Times(count_then, sum_then))) => {
                average(count.saturating_sub(*count_then), sum.saturating_sub(*sum_then))
            }
            (Measure::Times(count, sum), _) => average(count, sum),
            (Measure::Count(_), Some(other)) => panic!("{} was {other:?}", counter.name),
        }
    }

    /// Lets the counts of one section begin at zero, or those of all. Returns the answer to `perf reset`.
    pub fn reset(&mut self, sections: &[Section], var: &str) -> Value {
        let chosen: Vec<_> = sections.iter().filter(|section| var == "all" || section.name == var).collect();
        if chosen.is_empty() {
            return json!({"error": format!("Not find: {var}")});
        }
        for section in chosen {
            for counter in &section.counters {
                self.0.insert((section.name, counter.name), counter.measure);
            }
        }
        json!({"success": format!("perf reset {var}")})
    }
}

/// Durations in seconds, in the form of Ceph's averages.
fn average(count: u64, sum: Duration) -> Value {
    let sum = sum.as_secs_f64();
    json!({"avgcount": count, "sum": sum, "avgtime": if count > 0 { sum / count as f64 } else { 0.0 }})
}

/// The answer to `perf schema`.
pub fn schema(sections: &[Section]) -> Value {
    let entry = |counter: &Counter| {
        // Ceph's bits: 1 for times, 2 for numbers, 4 for averages, 8 for counts.
        let (bits, metric, value) = match counter.measure {
            Measure::Gauge(_) => (2, "gauge", "integer"),
            Measure::Count(_) => (10, "counter", "integer"),
            Measure::Times(..) => (5, "gauge", "real-integer-pair"),
        };
        let entry = json!({
            "type": bits,
            "metric_type": metric,
            "value_type": value,
            "description": counter.help,
            "nick": counter.nick,
            "priority": counter.priority,
            "units": if counter.bytes { "bytes" } else { "none" },
        });
        (counter.name.to_owned(), entry)
    };
    let section = |section: &Section| {
        let entries: Map<String, Value> = section.counters.iter().map(entry).collect();
        (section.name.to_owned(), Value::Object(entries))
    };
    Value::Object(sections.iter().map(section).collect())
}

/// Returns the answer to `perf histogram dump` and `schema` of a daemon that keeps none: sections without content, as
/// a Ceph prints them.
pub fn no_histograms(sections: &[Section]) -> Value {
    Value::Object(sections.iter().map(|section| (section.name.to_owned(), json!({}))).collect())
}
