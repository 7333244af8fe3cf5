//! Answers of Ceph 16.2.15 to texts, operations and commands, and ours.

use super::*;
use crate::keyring::parse_entity;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

fn lines(text: &str) -> impl Iterator<Item = Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// The recordings' clients were on the same machine.
fn here() -> Option<IpAddr> {
    Some("127.0.0.1".parse().unwrap())
}

/// Fails with a list of all that differs.
fn none_differ(wrong: &[String], of: usize) {
    assert!(wrong.is_empty(), "{} of {of} differ from Ceph's:\n{}", wrong.len(), wrong.join("\n"));
}

/// The error for a text, or the text that it is printed as.
fn said(service: &str, caps: &str) -> (Option<String>, Option<String>) {
    let result = match service {
        "mon" => caps.parse::<MonCaps>().map(|caps| caps.to_string()),
        _ => caps.parse::<OsdCaps>().map(|caps| caps.to_string()),
    };
    (result.as_ref().err().map(CapsError::to_string), result.ok())
}

#[test]
fn texts_are_understood_or_refused_as_by_ceph() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in lines(include_str!("../../tests/golden/caps_parsed.jsonl")) {
        let (service, caps) = (text(&line["service"]), text(&line["caps"]));
        let (ours, printed) = said(service, caps);
        let cephs = line["says"].as_str().map(str::to_owned);
        if ours != cephs {
            wrong.push(format!("{service}: {caps:?}: {ours:?}, and Ceph {cephs:?}"));
        }
        if let Some(printed) = printed {
            let again = said(service, &printed);
            if again != (None, Some(printed.clone())) {
                wrong.push(format!("{service}: {caps:?} is printed as {printed:?}, which is {again:?}"));
            }
        }
        count += 1;
    }
    none_differ(&wrong, count);
    assert_eq!(count, 660);
}

fn flag(value: &Value) -> bool {
    value.as_bool().unwrap()
}

fn check_operations(recorded: &str) -> usize {
    let lines: Vec<Value> = lines(recorded).collect();
    let pools: BTreeMap<String, Applications> = serde_json::from_value(lines[0]["pools"].clone()).unwrap();
    let operations: Vec<&Value> = lines.iter().map(|line| &line["operation"]).filter(|o| !o.is_null()).collect();
    let places: Vec<&Value> = lines.iter().map(|line| &line["place"]).filter(|p| !p.is_null()).collect();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in lines.iter().filter(|line| line["caps"].is_string()) {
        let caps: OsdCaps = text(&line["caps"]).parse().unwrap();
        let mut answers = text(&line["answers"]).chars();
        for place in &places {
            for operation in &operations {
                let calls = operation[3].as_array().unwrap().iter();
                let calls: Vec<ClassCall<'_>> = calls
                    .map(|call| ClassCall {
                        class: text(&call[0]),
                        method: text(&call[1]),
                        reads: flag(&call[2]),
                        writes: flag(&call[3]),
                        listed: flag(&call[4]),
                    })
                    .collect();
                let request = OsdRequest {
                    pool: text(&place[0]),
                    applications: &pools[text(&place[0])],
                    namespace: text(&place[1]),
                    object: text(&place[2]),
                    reads: flag(&operation[1]),
                    writes: flag(&operation[2]),
                    classes: &calls,
                };
                let (ours, cephs) = (caps.allows(here(), &request), answers.next().unwrap() == 'y');
                if ours != cephs {
                    wrong.push(format!("{}: {} at {place}: {ours}, and Ceph {cephs}", line["caps"], operation[0]));
                }
                count += 1;
            }
        }
    }
    none_differ(&wrong, count);
    count
}

#[test]
fn operations_are_allowed_as_by_ceph() {
    assert_eq!(check_operations(include_str!("../../tests/golden/osd_operations.jsonl")), 96 * 15 * 13);
    assert_eq!(check_operations(include_str!("../../tests/golden/osd_operations_unlisted.jsonl")), 14 * 5 * 2);
}

/// Arguments as a monitor sees them.
fn arguments(args: &Value) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (name, value) in args.as_object().unwrap() {
        match value {
            Value::Array(items) if name == "caps" => {
                let items: Vec<String> = items.iter().map(|item| text(item).to_owned()).collect();
                out.extend(caps_arguments(&items));
            }
            Value::Array(items) => {
                let items: Vec<&str> = items.iter().map(text).collect();
                out.insert(name.clone(), format!("[{}]", items.join(",")));
            }
            Value::String(text) => {
                out.insert(name.clone(), text.clone());
            }
            other => {
                out.insert(name.clone(), other.to_string());
            }
        }
    }
    out
}

#[test]
fn commands_are_allowed_as_by_ceph() {
    let lines: Vec<Value> = lines(include_str!("../../tests/golden/mon_commands.jsonl")).collect();
    let commands: Vec<&Value> = lines.iter().filter(|line| line["command"].is_string()).collect();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in lines.iter().filter(|line| line["caps"].is_string()) {
        let caps: MonCaps = text(&line["caps"]).parse().unwrap();
        let who = parse_entity(text(&line["entity"])).unwrap();
        for (command, answer) in commands.iter().zip(text(&line["answers"]).chars()) {
            if answer == ' ' {
                continue;
            }
            let arguments = arguments(&command["args"]);
            let request = MonRequest {
                service: text(&command["module"]),
                command: text(&command["command"]),
                arguments: &arguments,
                needs: Access::of_letters(text(&command["needs"])),
            };
            let (ours, cephs) = (caps.allows(&who, here(), &request), answer == 'y');
            if ours != cephs {
                wrong.push(format!("{} {}: {command}: {ours}, and Ceph {cephs}", line["entity"], line["caps"]));
            }
            count += 1;
        }
    }
    none_differ(&wrong, count);
    assert!(count > 6000, "{count}");
}

#[test]
fn what_is_not_understood_grants_nothing() {
    let granted = Granted::Text("allow *, and more".to_owned());
    assert_eq!(MonCaps::of(&granted), MonCaps::default());
    assert_eq!(OsdCaps::of(&granted), OsdCaps::default());
    assert!(OsdCaps::of(&Granted::Everything).allow_everything());
    assert!(!"allow * network 10.0.0.0/8".parse::<OsdCaps>().unwrap().allow_everything());
    assert!(!"allow * pool=x".parse::<OsdCaps>().unwrap().allow_everything());
    assert!("allow r, allow *".parse::<OsdCaps>().unwrap().allow_everything());
}

#[test]
fn capabilities_of_services_without_a_grammar_here_are_let_through() {
    assert_eq!(check("mds", "allow rw path=/x"), Ok(()));
    assert!(check("osd", "allow rw path=/x").is_err());
    assert!(check("mon", "").is_err());
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_understood_is_printed(
        text in "(allow |profile |r|wx| |\\*|,|;|=|\"|'|pool|namespace|class|x y|tag|network|with|service|command|é){0,12}",
    ) {
        for service in ["mon", "osd"] {
            if let (None, Some(printed)) = said(service, &text) {
                prop_assert_eq!(said(service, &printed), (None, Some(printed)));
            }
        }
    }
}
