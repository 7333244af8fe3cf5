//! Commands to this monitor in person: `ceph tell mon.X ...`, and those of its admin socket.
//!
//! Options that they set hold for this monitor alone, until it ends. They matter where this monitor decides: while it
//! leads.

use super::Monitor;
use crate::commands::{self, Reply};
use crate::identity::Party;
use crate::monitor::Now;
use crate::options;
use control::counters::{Counters, Measure, Section, counter};
use control::{Form, Refusal, Settings, Table, Told, counters, everywhere};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use types::{EntityName, Errno, OsdId};
use wire::nacre::mon::{OptionReport, pg_state};

/// The commands, beside those that every daemon has.
const COMMANDS: &[Form] = &[
    Form::new("add_bootstrap_peer_hint {addr:IPAddr}", "name another monitor to one that has not found any"),
    Form::new("add_bootstrap_peer_hintv {addrv:String}", "name another monitor to one that has not found any"),
    Form::new("compact", "have the store give back space"),
    Form::new("connection scores dump", "print how well monitors reach each other; elections do not ask for that"),
    Form::new("connection scores reset", "forget how well monitors reach each other"),
    Form::new("dump_historic_ops", "list the last requests; none is kept"),
    Form::new("dump_historic_slow_ops", "list the last requests that were slow; none is kept"),
    Form::new("get_command_descriptions", "describe all commands for programs"),
    Form::new("help", "list all commands"),
    Form::new("mon_status", "print how this monitor is"),
    Form::new("ops", "list requests that wait, or whose changes are on their way"),
    Form::new("quorum enter", "take part in decisions again"),
    Form::new("quorum exit", "take no part in decisions"),
    Form::new("quorum_status", "print who of the monitors decides"),
    Form::new("sessions", "list who is connected to this monitor"),
    Form::new("smart {devid:String,req=false}", "print health records of drives; there are none"),
    Form::new("sync_force {yes_i_really_mean_it:Bool,req=false}", "have this monitor take everything from the others"),
    Form::new("version", "print which software this monitor is"),
];

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| Table::new(COMMANDS.iter().chain(counters::COMMANDS).chain(everywhere::COMMANDS)))
}

/// The settings of the monitor `name` that nobody has set anything for.
pub fn new_settings(name: &str) -> Settings {
    let observed = options::honoured().filter(|option| !option.starts_with("mgr/"));
    Settings::new(&format!("mon.{name}"), observed.chain(control::logs::names()))
}

/// State of a monitor that concerns commands to it in person.
pub(super) struct OwnCommands {
    settings: Settings,
    counters: Counters,
}

impl OwnCommands {
    pub fn new(name: &str) -> OwnCommands {
        OwnCommands { settings: new_settings(name), counters: Counters::default() }
    }
}

impl Monitor {
    /// Sets the options that this monitor starts with. To be called before [`Monitor::start`].
    pub fn set_settings(&mut self, settings: Settings) {
        self.own_commands.settings = settings;
    }

    /// Answers a command to this monitor in person, one JSON object, as far as `who` has the right to it.
    pub fn told(&mut self, now: Now, from: EntityName, who: &Party, line: &str) -> Reply {
        if let Err(refusal) = commands::check_tell(who, "mon", line) {
            return refusal;
        }
        let told = match table().read(line) {
            Ok(told) => told,
            Err(refusal) => return Reply::error(Errno::EINVAL, refusal.to_string()),
        };
        if let Some(reply) = self.told_everywhere(&told) {
            return reply;
        }
        match told.prefix.as_str() {
            "mon_status" | "quorum_status" | "sessions" | "version" => self.told_in_person(now, (from, who), line),
            "get_command_descriptions" => told.value(&table().descriptions(Vec::new())).into(),
            "help" => told.value(&table().help()).into(),
            "ops" => self.ops(&told),
            "dump_historic_ops" => told.value(&json!({"size": 0, "duration": 0, "ops": []})).into(),
            "dump_historic_slow_ops" => {
                told.value(&json!({"num to keep": 0, "threshold to keep": 0, "Ops": []})).into()
            }
            "connection scores dump" => self.scores(&told),
            "connection scores reset" => told.text("").into(),
            "smart" => told.value(&json!({})).into(),
            "compact" => told.text("the store uses space again by itself: there is nothing to compact").into(),
            "quorum enter" => told.text("this monitor takes part in decisions").into(),
            "quorum exit" => Reply::error(
                Errno::EOPNOTSUPP,
                "a monitor that runs takes part in decisions: stop its process, once `ceph mon ok-to-stop` allows it",
            ),
            "sync_force" => sync_force(&told),
            "add_bootstrap_peer_hint" | "add_bootstrap_peer_hintv" => self.peer_hint(&told),
            _ => self.count(&told),
        }
    }

    /// Answers a command that every daemon answers alike; `None`: it is another one.
    pub(super) fn told_everywhere(&mut self, told: &Told) -> Option<Reply> {
        self.learn_options();
        let reply = everywhere::answer(told, &mut self.own_commands.settings)?;
        self.state.overrides = self.own_commands.settings.overrides();
        Some(reply.into())
    }

    /// Filter of the log that this monitor's options ask for ([`control::logs`]).
    pub fn log_filter(&mut self) -> String {
        self.learn_options();
        control::logs::filter(&self.own_commands.settings)
    }

    fn ops(&self, told: &Told) -> Reply {
        let ops = self.proposals.described();
        let count = ops.len();
        let op = |description: String| json!({"description": description, "type_data": {"events": []}});
        told.value(&json!({"ops": ops.into_iter().map(op).collect::<Vec<_>>(), "num_ops": count})).into()
    }

    /// Elections go by logs alone, so no peer has a score.
    fn scores(&self, told: &Told) -> Reply {
        let rank = self.state.monmap.rank(&self.volatile.name).map_or(-1, |rank| rank as i64);
        let epoch = self.volatile.quorum.report.epoch;
        let report = json!({"rank": rank, "epoch": epoch, "version": 0, "peer_scores": {}});
        let scores = json!({
            "rank": rank,
            "epoch": epoch,
            "version": 0,
            "half_life": 0,
            "persist_interval": 0,
            "reports": {"report": report},
        });
        told.value(&scores).into()
    }

    fn peer_hint(&self, told: &Told) -> Reply {
        match self.volatile.quorum.ranks(&self.state.monmap).is_empty() {
            true => Reply::error(Errno::EOPNOTSUPP, "this monitor looks for others where 'mon host' says"),
            false => told.text("mon already active; ignoring bootstrap hint").into(),
        }
    }

    /// Returns this monitor's options that have values of their own.
    pub fn option_report(&mut self) -> Vec<OptionReport> {
        self.learn_options();
        self.own_commands.settings.report()
    }

    /// Takes over what the monitor `name`, which may be this one, tells of its options.
    pub fn told_options(&mut self, name: &str, options: Vec<OptionReport>) {
        self.volatile.options_told(format!("mon.{name}"), options);
    }

    /// Takes over the options that are set for this monitor centrally.
    fn learn_options(&mut self) {
        let subject = self.state.config_subject("mon", &self.volatile.name, None);
        let effective = self.state.config.effective(&subject);
        let given: BTreeMap<&str, &str> = effective.into_iter().map(|(name, (value, _))| (name, value)).collect();
        self.own_commands.settings.set_from_monitors(given);
    }

    /// Answers a command by the handler that answers it to everybody.
    fn told_in_person(&mut self, now: Now, (from, who): (EntityName, &Party), line: &str) -> Reply {
        let sessions = if commands::asks_for_sessions(line) { self.session_infos() } else { Vec::new() };
        let request = commands::Request {
            command: line,
            input: Default::default(),
            from,
            who,
            tell: true,
            to_manager: false,
            sessions: &sessions,
            now: now.wall,
            random: (self.entropy)(),
        };
        match commands::handle(&self.state, &self.volatile, &request) {
            commands::Outcome::Reply(reply) => reply,
            other => panic!("a question changes nothing, but leads to {other:?}"),
        }
    }

    pub(super) fn count(&mut self, told: &Told) -> Reply {
        let sections = self.sections();
        match self.own_commands.counters.answer(told, || sections) {
            Some(value) => told.value(&value).into(),
            None => told.refused(Errno::EINVAL, Refusal::Unknown(told.prefix.clone()).to_string()).into(),
        }
    }

    /// All counters, with their values at present.
    fn sections(&self) -> Vec<Section> {
        let gauge = |name, help, value: u64| counter(name, help, 5, Measure::Gauge(value));
        let count = |number: usize| number as u64;
        let (map, space, totals) = (self.state.osdmap(), self.volatile.space(), self.volatile.totals(None));
        let of = |wanted: &dyn Fn(OsdId) -> bool| count(map.osds().filter(|(osd, _)| wanted(*osd)).count());
        let groups = |bits: u64| count(self.volatile.pgs.values().filter(|pg| pg.report.state & bits == bits).count());
        let cluster = vec![
            gauge("num_mon", "monitors", count(self.state.monmap.mons.len())),
            gauge(
                "num_mon_quorum",
                "monitors that decide",
                count(self.volatile.quorum.ranks(&self.state.monmap).len()),
            ),
            gauge("num_osd", "OSDs", of(&|_| true)),
            gauge("num_osd_up", "OSDs that are up", of(&|osd| map.is_up(osd))),
            gauge("num_osd_in", "OSDs that hold data", of(&|osd| map.is_in(osd))),
            gauge("osd_epoch", "epoch of the OSD map", map.epoch.0.into()),
            gauge("osd_bytes", "bytes of all drives", space.total_bytes).bytes(),
            gauge("osd_bytes_used", "bytes in use", space.total_bytes.saturating_sub(space.free_bytes)).bytes(),
            gauge("osd_bytes_avail", "bytes that are free", space.free_bytes).bytes(),
            gauge("num_pool", "pools", count(map.pools.len())),
            gauge("num_pg", "placement groups", totals.pgs),
            gauge("num_pg_active_clean", "groups with all copies in place", groups(pg_state::ACTIVE | pg_state::CLEAN)),
            gauge("num_pg_active", "groups that serve", groups(pg_state::ACTIVE)),
            gauge("num_pg_peering", "groups that agree on their state", groups(pg_state::PEERING)),
            gauge("num_object", "objects", totals.objects),
            gauge("num_object_degraded", "copies that are lacking", totals.degraded_copies),
            gauge("num_object_misplaced", "copies that are to be elsewhere", totals.misplaced_copies),
            gauge("num_object_unfound", "objects without a copy", totals.unfound),
            gauge("num_bytes", "bytes of objects", totals.bytes).bytes(),
        ];
        let mon = vec![gauge("num_sessions", "parties that are connected", count(self.sessions.len()))];
        vec![Section { name: "cluster", counters: cluster }, Section { name: "mon", counters: mon }]
    }
}

/// A monitor that is to have everything anew joins with an empty folder, so that its vote of before is not forgotten.
fn sync_force(told: &Told) -> Reply {
    match told.args.flag("yes_i_really_mean_it") {
        false => Reply::error(
            Errno::EPERM,
            "are you SURE? this will mean the monitor store will be erased the next time the monitor is restarted.  \
             pass '--yes-i-really-mean-it' if you really do.",
        ),
        true => Reply::error(
            Errno::EOPNOTSUPP,
            "stop this monitor, empty its folder, and have it join again: `nacre mon --id NAME --mkfs --join`",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MonState;
    use serde_json::Value;
    use types::{EntityType, Utime};
    use wire::basic::AuthName;

    fn ask(monitor: &mut Monitor, line: Value) -> (i32, String, Value) {
        ask_as(monitor, &Party::claimed(&Default::default()), line)
    }

    fn ask_as(monitor: &mut Monitor, who: &Party, line: Value) -> (i32, String, Value) {
        let now = Now { since_start: Default::default(), wall: Utime::ZERO };
        let from = EntityName { kind: EntityType::CLIENT, num: 1 };
        let Reply { code, status, output } = monitor.told(now, from, who, &line.to_string());
        (code, status, serde_json::from_slice(&output).unwrap_or_default())
    }

    fn monitor() -> Monitor {
        Monitor::new("a", MonState::default(), Box::new(|| [0; 32]))
    }

    #[test]
    fn options_that_are_told_hold_for_this_monitor_before_those_that_all_have() {
        let mut it = monitor();
        it.state.config.set("mon", "mon_max_pg_per_osd", Some("100"));
        let number = |it: &Monitor| it.state.mon_number::<u64>("mon_max_pg_per_osd");
        let set = ask(&mut it, json!({"prefix": "config set", "var": "mon_max_pg_per_osd", "val": ["50"]}));
        assert_eq!(set.2, json!({"success": "mon_max_pg_per_osd = '50' "}));
        assert_eq!(number(&it), Some(50));
        let diff = ask(&mut it, json!({"prefix": "config diff"})).2["diff"]["mon_max_pg_per_osd"].clone();
        assert_eq!(diff, json!({"default": 250, "mon": 100, "override": 50, "final": 50}));
        let bad = ask(&mut it, json!({"prefix": "injectargs", "injected_args": ["--mon_max_pg_per_osd=many"]}));
        assert_eq!((bad.0, number(&it)), (-22, Some(50)));
        let state = MonState { config: it.state.config.clone(), ..MonState::default() };
        it.install(Now { since_start: Default::default(), wall: Utime::ZERO }, state, &mut Vec::new());
        assert_eq!(number(&it), Some(50), "a state that comes from the leader ends nothing");
        ask(&mut it, json!({"prefix": "config unset", "var": "mon_max_pg_per_osd"}));
        assert_eq!(number(&it), Some(100));
    }

    #[test]
    fn a_monitor_is_told_by_who_has_all_rights_with_monitors_or_the_one_to_that_command() {
        let mut it = monitor();
        let name = AuthName::new(EntityType::CLIENT, "x");
        let set = json!({"prefix": "config set", "var": "mon_max_pg_per_osd", "val": ["50"]});
        let show = json!({"prefix": "config show"});
        let cases = [
            ("allow *", [0, 0]),
            ("allow rwx", [0, 0]),
            ("allow rw", [-13, -13]),
            ("allow profile osd", [-13, -13]),
            ("allow command \"config show\"", [-13, 0]),
            ("allow command \"config set\" with var=mon_max_pg_per_osd", [0, -13]),
            ("allow command \"config set\" with var=mon_max_pool_pg_num", [-13, -13]),
            ("", [-13, -13]),
        ];
        for (caps, expected) in cases {
            let who = Party::vouched_for(&name, caps.to_owned(), None);
            for (line, code) in [&set, &show].into_iter().zip(expected) {
                let (got, status, _) = ask_as(&mut it, &who, line.clone());
                assert_eq!(got, code, "{caps}: {line}: {status}");
                assert!(code == 0 || status == "insufficient caps", "{status}");
            }
            let was_set = it.state.mon_number::<u64>("mon_max_pg_per_osd") == Some(50);
            assert_eq!(was_set, expected[0] == 0, "{caps}");
            ask(&mut it, json!({"prefix": "config unset", "var": "mon_max_pg_per_osd"}));
        }
        assert_eq!(ask_as(&mut it, &Party::unknown(&name), show.clone()).0, -13);
        assert_eq!(ask_as(&mut it, &Party::local_administrator(), show).0, 0);
    }

    #[test]
    fn levels_of_the_log_follow_options() {
        let mut it = monitor();
        assert_eq!(it.log_filter(), "");
        it.state.config.set("mon", "debug_mon", Some("10/10"));
        assert_eq!(it.log_filter(), "mon=debug");
        let set = ask(&mut it, json!({"prefix": "config set", "var": "debug_mon", "val": ["20"]}));
        assert_eq!(set.2, json!({"success": "debug_mon = '20/20' "}));
        assert_eq!(it.log_filter(), "mon=trace");
    }

    #[test]
    fn what_a_monitor_cannot_do_it_says() {
        let mut it = monitor();
        assert_eq!(ask(&mut it, json!({"prefix": "ops"})).2, json!({"ops": [], "num_ops": 0}));
        assert_eq!(ask(&mut it, json!({"prefix": "smart"})).2, json!({}));
        let past = ask(&mut it, json!({"prefix": "dump_historic_ops"})).2;
        assert_eq!(past, json!({"size": 0, "duration": 0, "ops": []}));
        let slow = ask(&mut it, json!({"prefix": "dump_historic_slow_ops"})).2;
        assert_eq!(slow, json!({"num to keep": 0, "threshold to keep": 0, "Ops": []}));
        let scores = ask(&mut it, json!({"prefix": "connection scores dump"})).2;
        assert_eq!((&scores["rank"], &scores["reports"]["report"]["peer_scores"]), (&json!(-1), &json!({})));
        assert_eq!(ask(&mut it, json!({"prefix": "connection scores reset"})).0, 0);
        let version = ask(&mut it, json!({"prefix": "git_version"})).2;
        assert_eq!(version, json!({"git_version": control::version::COMMIT}));
        let (code, sentence, _) = ask(&mut it, json!({"prefix": "sync_force"}));
        assert_eq!((code, &sentence[..14]), (-1, "are you SURE? "));
        for line in [json!({"prefix": "quorum exit"}), json!({"prefix": "sync_force", "yes_i_really_mean_it": true})] {
            let (code, sentence, _) = ask(&mut it, line);
            assert!(code == -95 && sentence.contains("stop"), "{code} {sentence}");
        }
    }

    #[test]
    fn commands_to_everybody_are_not_for_one_monitor() {
        let mut it = monitor();
        let unknown = ask(&mut it, json!({"prefix": "osd dump"}));
        assert_eq!((unknown.0, &*unknown.1), (-22, "unknown command prefix osd dump"));
        let counts = ask(&mut it, json!({"prefix": "perf dump"})).2;
        assert_eq!((&counts["mon"]["num_sessions"], &counts["cluster"]["num_osd"]), (&json!(0), &json!(0)));
        assert!(ask(&mut it, json!({"prefix": "help"})).2.as_object().unwrap().contains_key("sessions"));
    }
}
