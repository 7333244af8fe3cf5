//! Commands that every daemon answers alike: its options, its log, its heap.

use crate::options;
use crate::{Form, SetError, Settings, Told};
use serde_json::{Value, json};
use types::Errno;
use wire::messages::CommandReply;

/// The forms of these commands.
pub const COMMANDS: &[Form] = &[
    Form::new("config diff", "print the options that are set, by source"),
    Form::new("config diff get {var:String}", "print one option's values, by source"),
    Form::new("config get {var:String}", "print the value of an option"),
    Form::new("config help {var:String,req=false}", "explain options"),
    Form::new("config set {var:String} {val:String,n=N}", "set an option until this daemon ends"),
    Form::new("config show", "print all options of this daemon"),
    Form::new("config unset {var:String}", "take back what config set did"),
    Form::new("get_heap_property {property:String}", "print a property of the allocator; there is none"),
    Form::new("git_version", "print which release's behaviour this daemon has, by its commit"),
    Form::new(
        "heap {heapcmd:Choices,strings=dump|start_profiler|stop_profiler|release|get_release_rate|set_release_rate|stats} {value:String,req=false}",
        "command the allocator; only tcmalloc takes commands",
    ),
    Form::new("injectargs {injected_args:String,n=N}", "set options until this daemon ends"),
    Form::new("log dump", "write log lines that are held back; there are none"),
    Form::new("log flush", "write log lines that are held back; there are none"),
    Form::new("log reopen", "open the log anew; this daemon's log has no file of its own"),
    Form::new("set_heap_property {property:String} {value:Int}", "set a property of the allocator; there is none"),
];

/// Answers one of [`COMMANDS`]; `None` if it is another one. Commands may change `settings`.
pub fn answer(told: &Told, settings: &mut Settings) -> Option<CommandReply> {
    let var = || told.args.word("var");
    Some(match told.prefix.as_str() {
        "config diff" => told.value(&settings.diff(None)),
        "config diff get" => told.value(&settings.diff(Some(var()))),
        "config show" => told.value(&settings.show()),
        "config get" => match settings.find(var()) {
            Some(option) => told.value(&json!({var(): settings.get(option)})),
            None => told.refused(Errno::ENOENT, format!("error getting '{}': {}", var(), reason(Errno::ENOENT))),
        },
        "config help" => help(told),
        "config set" => {
            let text = told.args.texts("val").join(" ");
            match settings.set(var(), &text) {
                Ok(change) => told.value(&json!({"success": change})),
                Err(e) => {
                    let errno = errno_of(&e);
                    let status = format!("error setting '{}' to '{text}': {}", var(), reason(errno));
                    told.refused(errno, status)
                }
            }
        }
        "config unset" => match settings.unset(var()) {
            Ok(change) => told.value_and_status(&json!({}), change),
            Err(_) => told.refused(Errno::EINVAL, format!("error unsetting '{}': {}", var(), reason(Errno::EINVAL))),
        },
        "git_version" => told.value(&json!({"git_version": crate::version::COMMIT})),
        "injectargs" => inject(told, settings),
        "heap" => told.refused(Errno::EOPNOTSUPP, "could not issue heap profiler command -- not using tcmalloc!"),
        "get_heap_property" => told.value(&json!({"error": "invalid property", "success": false, "value": 0})),
        "set_heap_property" => told.value(&json!({"error": "invalid property", "success": false})),
        // Lines go to the log one by one, at once.
        "log dump" | "log flush" | "log reopen" => told.value(&json!({})),
        _ => return None,
    })
}

fn errno_of(error: &SetError) -> Errno {
    match error {
        SetError::Unknown => Errno::ENOENT,
        SetError::OnlyAtStart => Errno::EPERM,
        SetError::Value(_) => Errno::EINVAL,
    }
}

/// Returns number and text of an error, as Ceph prints them.
fn reason(errno: Errno) -> &'static str {
    match errno {
        Errno::ENOENT => "(2) No such file or directory",
        Errno::EPERM => "(1) Operation not permitted",
        _ => "(22) Invalid argument",
    }
}

fn help(told: &Told) -> CommandReply {
    let Some(name) = told.args.text("var") else {
        let all = options::all().filter(|option| !option.name.starts_with("mgr/"));
        return told.value(&json!({"options": all.map(|option| option.describe()).collect::<Value>()}));
    };
    match options::find(name) {
        Some(option) => told.value(&json!({"option": option.describe()})),
        None => told.refused(Errno::ENOENT, format!("Setting not found: '{name}'")),
    }
}

/// Sets options as on a command line: `--name value`, `--name=value`, and for switches `--name` and `--no-name`.
/// Options before a bad one are set.
fn inject(told: &Told, settings: &mut Settings) -> CommandReply {
    let all = told.args.texts("injected_args").join(" ");
    let mut words = all.split_ascii_whitespace().peekable();
    let mut changes = String::new();
    let mut left: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        let Some((name, text)) = argument(word, settings) else {
            left.push(word);
            continue;
        };
        let text = match text {
            Some(text) => text,
            None => words.next_if(|next| !next.starts_with("--")).unwrap_or_default().to_owned(),
        };
        match settings.set(name, &text) {
            Ok(change) => changes.push_str(&change),
            Err(e) => {
                let why = match &e {
                    SetError::Value(_) if text.is_empty() => format!("Option --{name} requires an argument.\n"),
                    SetError::Value(why) => why.clone(),
                    _ => format!("Configuration option '{name}' may not be modified at runtime"),
                };
                let status = format!("Parse error setting {name} to '{text}' using injectargs ({why}).\n{changes}");
                return told.refused(errno_of(&e), status);
            }
        }
    }
    if !left.is_empty() {
        return told.refused(Errno::EINVAL, format!(" failed to parse arguments: {}\n{changes}", left.join(",")));
    }
    told.value_and_status(&json!({}), changes)
}

/// Reads one word: the option that it names, and the value unless that is the next word. `None`: it names none.
fn argument(word: &str, settings: &Settings) -> Option<(&'static str, Option<String>)> {
    let body = word.strip_prefix("--")?;
    let (name, text) = body.split_once('=').map_or((body, None), |(name, text)| (name, Some(text.to_owned())));
    let name = name.replace('-', "_");
    let is_switch = |option: &options::OptionFacts| option.kind == options::OptionKind::Bool;
    if let Some(option) = settings.find(&name) {
        let implied = is_switch(option).then(|| "true".to_owned());
        return Some((option.name, text.or(implied)));
    }
    let option = settings.find(name.strip_prefix("no_")?).filter(|option| is_switch(option) && text.is_none())?;
    Some((option.name, Some("false".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;

    fn ask(settings: &mut Settings, line: Value) -> (i32, String, String) {
        let table = Table::new(COMMANDS);
        let told = table.read(&line.to_string()).unwrap();
        let reply = answer(&told, settings).unwrap();
        (reply.result, reply.status, String::from_utf8(reply.output.to_vec()).unwrap())
    }

    fn inject(settings: &mut Settings, args: &str) -> (i32, String) {
        let (result, status, _) = ask(settings, json!({"prefix": "injectargs", "injected_args": [args]}));
        (result, status)
    }

    #[test]
    fn every_command_is_answered() {
        let table = Table::new(COMMANDS);
        for form in COMMANDS {
            let mut line = json!({"prefix": crate::signature::Signature::parse(form.signature).prefix});
            for (name, value) in [("var", json!("osd_data")), ("val", json!(["1"])), ("property", json!("x"))] {
                line[name] = value;
            }
            (line["heapcmd"], line["injected_args"], line["value"]) = (json!("stats"), json!([""]), json!(1));
            if line["prefix"] == "heap" {
                line["value"] = json!("1");
            }
            let told = table.read(&line.to_string()).unwrap_or_else(|e| panic!("{line}: {e}"));
            assert!(answer(&told, &mut Settings::new("osd.0", [])).is_some(), "{line}");
        }
    }

    /// Texts are those that a Ceph 16.2.15 gave.
    #[test]
    fn refusals_have_cephs_words() {
        let mut it = Settings::new("osd.0", ["osd_max_backfills", "osd_recovery_max_active", "osd_enable_op_tracker"]);
        let unknown = ask(&mut it, json!({"prefix": "config get", "var": "nonsense"}));
        assert_eq!((unknown.0, &*unknown.1), (-2, "error getting 'nonsense': (2) No such file or directory"));
        let unknown = ask(&mut it, json!({"prefix": "config set", "var": "nonsense", "val": ["3"]}));
        assert_eq!((unknown.0, &*unknown.1), (-2, "error setting 'nonsense' to '3': (2) No such file or directory"));
        let bad = ask(&mut it, json!({"prefix": "config set", "var": "osd_max_backfills", "val": ["abc"]}));
        assert_eq!((bad.0, &*bad.1), (-22, "error setting 'osd_max_backfills' to 'abc': (22) Invalid argument"));
        let fixed = ask(&mut it, json!({"prefix": "config set", "var": "osd_data", "val": ["/x"]}));
        assert_eq!((fixed.0, &*fixed.1), (-1, "error setting 'osd_data' to '/x': (1) Operation not permitted"));
        let unset = ask(&mut it, json!({"prefix": "config unset", "var": "nonsense"}));
        assert_eq!((unset.0, &*unset.1), (-22, "error unsetting 'nonsense': (22) Invalid argument"));
        let help = ask(&mut it, json!({"prefix": "config help", "var": "nonsense"}));
        assert_eq!((help.0, &*help.1), (-2, "Setting not found: 'nonsense'"));
        let heap = ask(&mut it, json!({"prefix": "heap", "heapcmd": "stats"}));
        assert_eq!((heap.0, &*heap.1), (-95, "could not issue heap profiler command -- not using tcmalloc!"));
    }

    /// Texts are those that a Ceph 16.2.15 gave.
    #[test]
    fn arguments_are_injected_as_on_a_command_line() {
        let mut it = Settings::new("osd.0", ["osd_max_backfills", "osd_recovery_max_active", "osd_enable_op_tracker"]);
        let said = inject(&mut it, "--osd_max_backfills 2 --osd_recovery_max_active 4");
        assert_eq!(said, (0, "osd_max_backfills = '2' osd_recovery_max_active = '4' ".to_owned()));
        assert_eq!(inject(&mut it, "--osd-max-backfills=2"), (0, String::new()), "no change");
        assert_eq!(inject(&mut it, "--no-osd_enable_op_tracker"), (0, "osd_enable_op_tracker = 'false' ".to_owned()));
        assert_eq!(inject(&mut it, "--osd_enable_op_tracker"), (0, "osd_enable_op_tracker = 'true' ".to_owned()));
        assert_eq!(inject(&mut it, "--nonsense 2"), (-22, " failed to parse arguments: --nonsense,2\n".to_owned()));
        let bad = "Parse error setting osd_max_backfills to 'abc' using injectargs (strict_si_cast: unit prefix not \
                   recognized).\n";
        assert_eq!(inject(&mut it, "--osd_max_backfills abc"), (-22, bad.to_owned()));
        let without = "Parse error setting osd_max_backfills to '' using injectargs (Option --osd_max_backfills \
                       requires an argument.\n).\n";
        assert_eq!(inject(&mut it, "--osd_max_backfills"), (-22, without.to_owned()));
        let fixed = "Parse error setting osd_data to '/x' using injectargs (Configuration option 'osd_data' may not \
                     be modified at runtime).\nosd_max_backfills = '4' ";
        assert_eq!(inject(&mut it, "--osd-max-backfills 4 --osd_data /x"), (-1, fixed.to_owned()));
        let shown = ask(&mut it, json!({"prefix": "config get", "var": "osd_max_backfills", "format": "json"}));
        assert_eq!(shown.2, r#"{"osd_max_backfills":"4"}"#);
    }
}
