//! Carries out commands to this OSD, and options that it is given.

use super::Running;
use super::cluster_log::ClusterLog;
use crate::OsdConfig;
use crate::commands::op_dump::OpDump;
use crate::commands::tuned::Tuned;
use crate::commands::{self, Asked, Asker, Facts, Work, bench, own_copies};
use crate::heartbeat::{Board, Pace};
use crate::shards::{ShardFacts, ToWorker};
use control::counters::Counters;
use control::{Settings, Told, everywhere};
use pg::{BenchError, BenchOrder};
use reactor::Io;
use serde_json::json;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stdx::TimeZone;
use types::{Epoch, Errno, PgId};
use wire::messages::{self, CommandReply};
use wire::msgr::SessionId;
use wire::nacre::mon::OptionReport;

/// Interval of looks for the end of a checkpoint that a command waits for.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Most commands that wait for a checkpoint at a time; more are refused.
const WAITING_MAX: usize = 16;

/// A command that waits for the checkpoint of all stores.
struct Waiting {
    asker: Asker,
    told: Told,
    since: Duration,
    /// Time at which the facts of all shards are gathered again.
    look_at: Duration,
}

/// State of an OSD that concerns commands.
pub(super) struct Commands {
    config: OsdConfig,
    settings: Settings,
    tuned: Option<Tuned>,
    /// Filter of the log that options ask for.
    log_filter: String,
    /// Read when an option asks for the hour.
    zone: OnceCell<TimeZone>,
    /// Facts that the heartbeats tell.
    pub board: Option<Arc<Board>>,
    counters: Counters,
    /// Oldest map that the monitors have.
    pub oldest_map: Epoch,
    waiting: Vec<Waiting>,
    /// The options that have values of their own, as the monitors are told.
    pub option_report: Vec<OptionReport>,
    /// The monitors have not heard of them.
    pub tells_options: bool,
    pub options_told_at: Duration,
    /// When the monitors were told of the time that other OSDs take to answer; `None`: not in this session.
    pub pings_told_at: Option<Duration>,
    /// The monitors were told of some last.
    pub pings_are_known: bool,
    /// A bench that was ordered, with the asker who waits for its end.
    bench: Option<(Asker, Told, BenchOrder)>,
    pub cluster_log: ClusterLog,
}

impl Commands {
    pub fn new(config: OsdConfig, board: Option<Arc<Board>>) -> Commands {
        Commands {
            settings: config.settings.clone(),
            option_report: config.settings.report(),
            tells_options: true,
            options_told_at: Duration::ZERO,
            pings_told_at: None,
            pings_are_known: false,
            config,
            tuned: None,
            log_filter: String::new(),
            zone: OnceCell::new(),
            board,
            counters: Counters::default(),
            oldest_map: Epoch::default(),
            waiting: Vec::new(),
            bench: None,
            cluster_log: ClusterLog::default(),
        }
    }

    /// How often other OSDs are asked for signs of life, and how long they have to answer.
    pub fn pace(&self) -> Pace {
        self.tuned.map(|tuned| tuned.heartbeats).unwrap_or_default()
    }

    /// Time at which the next waiting command is to be looked at again.
    pub fn wake(&self) -> Option<Duration> {
        self.waiting.iter().map(|waiting| waiting.look_at).min()
    }
}

impl Running {
    /// Carries out a command, one JSON object.
    pub(super) fn command(&mut self, io: &impl Io, asker: Asker, line: &str) {
        let told = match commands::read(line) {
            Err(refusal) => return asker.answer(&mut self.public.messenger, refusal.into()),
            Ok(Asked::Group(pgid)) => return self.ask_shard_of(pgid, asker, line),
            Ok(Asked::Copy(told)) => {
                // A name that is none is refused by the first shard.
                let pgid = own_copies::named(&told, self.shard.map()).ok().map(|(pgid, _)| pgid);
                return self.ask_shard_of(pgid, asker, line);
            }
            Ok(Asked::Daemon(told)) => told,
        };
        let settings = &mut self.commands.settings;
        let reply = everywhere::answer(&told, settings).or_else(|| commands::set_by_another_word(&told, settings));
        if let Some(reply) = reply {
            self.tune(io);
            self.tell_options(io.now());
            return asker.answer(&mut self.public.messenger, reply);
        }
        if let Some(work) = Work::of(&told) {
            return self.work(io, work, asker, told);
        }
        self.gather_facts(io, asker, told);
    }

    /// Has the shard with a group answer a command.
    fn ask_shard_of(&mut self, pgid: Option<PgId>, asker: Asker, line: &str) {
        let home = pgid.and_then(|pgid| self.shard.homes().of(pgid));
        if let Some(shard) = home.filter(|shard| *shard > 0) {
            return self.others.ask_about_group(shard, asker, line.to_owned());
        }
        let reply = commands::answer_of_shard(line, &mut self.shard);
        asker.answer(&mut self.public.messenger, reply);
    }

    /// Gathers the facts of all shards, from which the command is answered.
    fn gather_facts(&mut self, io: &impl Io, asker: Asker, told: Told) {
        let facts = ShardFacts::of(&self.shard);
        match self.others.is_empty() {
            true => self.answer_command(io, asker, told, &facts),
            false => self.others.ask_facts(asker, told, facts),
        }
    }

    fn work(&mut self, io: &impl Io, work: Work, asker: Asker, told: Told) {
        let reply = match work {
            Work::Bench => return self.begin_bench(asker, told),
            Work::DropCaches => {
                self.shard.drop_block_cache();
                self.others.tell_all(|| ToWorker::DropCaches);
                told.text("")
            }
            Work::Checkpoint if self.commands.waiting.len() == WAITING_MAX => {
                told.refused(Errno::EBUSY, "as many others already wait for that")
            }
            Work::Checkpoint => {
                self.shard.write_checkpoint();
                self.others.tell_all(|| ToWorker::Checkpoint);
                let since = io.clock();
                let look_at = since + LOOK_EVERY;
                return self.commands.waiting.push(Waiting { asker, told, since, look_at });
            }
            Work::Report => {
                self.beacon_at = Duration::ZERO;
                // The monitors number reports by the time at which they come, in milliseconds.
                let number = io.wall_clock().to_unix().as_millis();
                told.text(if told.prefix == "flush_pg_stats" { number.to_string() } else { String::new() })
            }
            Work::AskForMaps => {
                self.asked_from = None;
                self.ask_for_maps(self.shard.newest_epoch().next());
                told.text("")
            }
            Work::WriteClusterLog => self.write_cluster_log(io, &told),
        };
        asker.answer(&mut self.public.messenger, reply);
    }

    fn begin_bench(&mut self, asker: Asker, told: Told) {
        let begun = bench::order(&told, &self.commands.settings).map_err(|why| told.refused(Errno::EINVAL, why));
        let stops = self.leaving.is_some();
        let begun = begun.and_then(|order| {
            let begun = if stops { Err(BenchError::Stops) } else { self.shard.begin_bench(order) };
            begun.map(|()| order).map_err(|why| bench_refused(&told, &why))
        });
        match begun {
            Ok(order) => self.commands.bench = Some((asker, told, order)),
            Err(refusal) => asker.answer(&mut self.public.messenger, refusal),
        }
    }

    /// Answers the asker who waits for the end of a bench.
    pub(super) fn bench_goes_on(&mut self) {
        let Some(result) = self.shard.take_bench_result() else { return };
        let Some((asker, told, order)) = self.commands.bench.take() else { return };
        let reply = match result {
            Ok(took) => told.value(&bench::result(order, took)),
            Err(why) => bench_refused(&told, &why),
        };
        asker.answer(&mut self.public.messenger, reply);
    }

    fn write_cluster_log(&mut self, io: &impl Io, told: &Told) -> CommandReply {
        if !self.monitor.is_open() {
            return told.refused(Errno::EAGAIN, "there is no session with a monitor");
        }
        self.tell_cluster(messages::LogPriority::ERROR, told.args.texts("message").join(" "), io.wall_clock());
        told.text("")
    }

    /// Looks whether checkpoints have ended that somebody waits for.
    pub(super) fn commands_go_on(&mut self, io: &impl Io) {
        let now = io.clock();
        let due = |waiting: &mut Waiting| waiting.look_at <= now;
        for Waiting { asker, told, since, .. } in self.commands.waiting.extract_if(.., due).collect::<Vec<_>>() {
            let asker = Asker::Waiting { asker: Box::new(asker), since };
            self.gather_facts(io, asker, told);
        }
    }

    /// Answers a command once the facts of all shards are there.
    pub(super) fn answer_command(&mut self, io: &impl Io, asker: Asker, told: Told, of_shards: &ShardFacts) {
        let asker = match asker {
            Asker::Waiting { asker, since } if of_shards.checkpoint_runs => {
                let look_at = io.clock() + LOOK_EVERY;
                return self.commands.waiting.push(Waiting { asker: *asker, told, since, look_at });
            }
            Asker::Waiting { asker, since } => {
                let took = io.clock().saturating_sub(since).as_secs_f64();
                let reply = match told.prefix.as_str() {
                    "compact" => told.value(&json!({"elapsed_time": took})),
                    _ => told.text(""),
                };
                return asker.answer(&mut self.public.messenger, reply);
            }
            asker => asker,
        };
        let clients = &self.clients;
        let client_addr = |session: SessionId| {
            clients.get(&session).map(|client| client.peer.addrs.front().to_string()).unwrap_or_default()
        };
        let whoami = self.shard.whoami();
        let map = self.shard.map();
        let Commands { config, settings, tuned, counters, oldest_map, board, .. } = &mut self.commands;
        let tuned = tuned.unwrap_or_else(|| Tuned::by(config, settings));
        let shards = self.others.shards();
        let client_bytes = self.shard.client_bytes() + self.others.client_bytes();
        let facts = Facts {
            whoami,
            uuid: self.uuid,
            map,
            state: match (self.leaving.is_some(), map.is_up(whoami) && self.was_up) {
                (true, _) => "stopping",
                (false, true) => "active",
                (false, false) => "booting",
            },
            oldest_map: *oldest_map,
            machine: &config.machine,
            shards,
            of_shards,
            sessions: self.clients.len(),
            client_bytes: (client_bytes as u64, (config.memory().client_bytes * shards) as u64),
            reactor: io.stats(),
            ops: OpDump {
                whoami,
                facts: of_shards,
                now: io.clock(),
                wall: io.wall_clock(),
                client_addr: &client_addr,
                history: tuned.history,
                complain_after: tuned.shards.complain_after,
            },
            pings: board.as_ref().map(|board| board.ping_times()).unwrap_or_default(),
            slow_ping: slow_ping(settings),
            scrubs_at_a_time: tuned.shards.scrubs.at_a_time,
        };
        let reply = commands::answer(&told, &facts, counters);
        asker.answer(&mut self.public.messenger, reply);
    }

    /// The monitors give this OSD these options, and no others.
    pub(super) fn options_came(&mut self, io: &impl Io, options: &BTreeMap<String, String>) {
        let options = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        self.commands.settings.set_from_monitors(options);
        self.tune(io);
        self.tell_options(io.now());
    }

    /// Tells the monitors of the options with the next beacon, if the options have changed since the last report.
    fn tell_options(&mut self, now: Duration) {
        let report = self.commands.settings.report();
        if report != self.commands.option_report {
            self.commands.option_report = report;
            self.commands.tells_options = true;
            self.beacon_at = self.beacon_at.min(now + super::reporting::REPORT_AFTER);
        }
    }

    /// Puts changed options into effect, and those that depend on the hour.
    pub(super) fn tune(&mut self, io: &impl Io) {
        let Commands { config, settings, tuned, log_filter, zone, .. } = &mut self.commands;
        let filter = control::logs::filter(settings);
        if filter != *log_filter {
            config.set_log_filter.iter().for_each(|set| set(&filter));
            *log_filter = filter;
        }
        if self.leaving.is_some() {
            // The stop has ended work that must not begin again.
            return;
        }
        let now = Tuned::by(config, settings).at(|| zone.get_or_init(TimeZone::of_process), io.wall_clock().to_unix());
        if tuned.replace(now) != Some(now) {
            now.apply(&mut self.shard);
            self.others.tell_all(|| ToWorker::Tune(now));
        }
    }
}

fn bench_refused(told: &Told, why: &BenchError) -> CommandReply {
    let errno = match why {
        BenchError::Busy => Errno::EBUSY,
        BenchError::Room { .. } | BenchError::Store(store::SubmitError::NoSpace { .. }) => Errno::ENOSPC,
        BenchError::Stops | BenchError::Store(_) => Errno::EIO,
    };
    told.refused(errno, why.to_string())
}

/// The time of an answer from which on `dump_osd_network` lists it unless it is told another one.
fn slow_ping(settings: &Settings) -> Duration {
    let number = |name| settings.number(name).unwrap_or_default();
    let ms = match number("mon_warn_on_slow_ping_time") {
        set if set > 0.0 => set,
        _ => number("osd_heartbeat_grace") * number("mon_warn_on_slow_ping_ratio") * 1000.0,
    };
    Duration::from_secs_f64(ms.clamp(0.0, 1e9) / 1000.0)
}
