//! Carries out commands to this OSD, and options that it is given.

use super::Running;
use crate::OsdConfig;
use crate::commands::op_dump::OpDump;
use crate::commands::tuned::Tuned;
use crate::commands::{self, Asked, Asker, Facts, Work, groups};
use crate::shards::{ShardFacts, ToWorker};
use control::counters::Counters;
use control::{Settings, Told, everywhere};
use reactor::Io;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityName, EntityType, Epoch};
use wire::basic::AuthName;
use wire::messages::{self, CommandReply, LogEntry};
use wire::msgr::SessionId;
use wire::{Message, Target};

/// Interval at which it is looked whether a checkpoint that somebody waits for has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Most commands that wait for a checkpoint at a time; more are refused.
const WAITING_MAX: usize = 16;

/// A command that waits for the checkpoint of all stores.
struct Waiting {
    asker: Asker,
    told: Told,
    since: Duration,
    /// It is looked again at this time. `None`: facts are on their way.
    look_at: Option<Duration>,
}

/// State of an OSD that concerns commands.
pub(super) struct Commands {
    config: OsdConfig,
    settings: Settings,
    tuned: Option<Tuned>,
    counters: Counters,
    /// Oldest map that the monitors have.
    pub oldest_map: Epoch,
    waiting: Vec<Waiting>,
    /// Number of the last line for the cluster log.
    log_seq: u64,
}

impl Commands {
    pub fn new(config: OsdConfig) -> Commands {
        let settings = config.settings.clone();
        let (counters, oldest_map) = (Counters::default(), Epoch::default());
        Commands { config, settings, tuned: None, counters, oldest_map, waiting: Vec::new(), log_seq: 0 }
    }

    /// When a command wants to be looked at again.
    pub fn wake(&self) -> Option<Duration> {
        self.waiting.iter().filter_map(|waiting| waiting.look_at).min()
    }
}

impl Running {
    /// Carries out a command, one JSON object.
    pub(super) fn command(&mut self, io: &impl Io, asker: Asker, line: &str) {
        let told = match commands::read(line) {
            Err(refusal) => return asker.answer(&mut self.public.messenger, refusal.into()),
            Ok(Asked::Group(pgid)) => {
                let home = pgid.and_then(|pgid| self.shard.homes().of(pgid));
                if let Some(shard) = home.filter(|shard| *shard > 0) {
                    return self.others.ask_about_group(shard, asker, line.to_owned());
                }
                let reply = groups::answer(line, &mut self.shard);
                return asker.answer(&mut self.public.messenger, reply);
            }
            Ok(Asked::Daemon(told)) => told,
        };
        if let Some(reply) = everywhere::answer(&told, &mut self.commands.settings) {
            self.tune();
            return asker.answer(&mut self.public.messenger, reply);
        }
        if let Some(work) = Work::of(&told) {
            return self.work(io, work, asker, told);
        }
        self.gather_facts(io, asker, told);
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
            Work::DropCaches => {
                self.shard.drop_block_cache();
                self.others.tell_all(|| ToWorker::DropCaches);
                told.text("")
            }
            Work::Checkpoint if self.commands.waiting.len() == WAITING_MAX => {
                told.refused(types::Errno::EBUSY, "as many others already wait for that")
            }
            Work::Checkpoint => {
                self.shard.write_checkpoint();
                self.others.tell_all(|| ToWorker::Checkpoint);
                let since = io.clock();
                let look_at = Some(since + LOOK_EVERY);
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

    fn write_cluster_log(&mut self, io: &impl Io, told: &Told) -> CommandReply {
        if !self.monitor.is_open() {
            return told.refused(types::Errno::EAGAIN, "there is no session with a monitor");
        }
        self.commands.log_seq += 1;
        let entry = LogEntry {
            name: AuthName::new(EntityType::OSD, self.shard.whoami().0.to_string()),
            rank: EntityName::osd(self.shard.whoami()),
            addrs: self.public.messenger.addrs().clone(),
            stamp: io.wall_clock(),
            seq: self.commands.log_seq,
            priority: messages::LogPriority::ERROR,
            message: told.args.texts("message").join(" "),
            channel: "cluster".to_owned(),
        };
        let log = messages::Log { have: 0, fsid: self.shard.map().fsid, entries: vec![entry] };
        self.monitor.send(&mut self.public.messenger, log.seal(0, Target::default()));
        told.text("")
    }

    /// Looks whether checkpoints have ended that somebody waits for.
    pub(super) fn commands_go_on(&mut self, io: &impl Io) {
        let now = io.clock();
        let due = |waiting: &mut Waiting| waiting.look_at.is_some_and(|at| at <= now);
        for Waiting { asker, told, since, .. } in self.commands.waiting.extract_if(.., due).collect::<Vec<_>>() {
            let asker = Asker::Waiting { asker: Box::new(asker), since };
            self.gather_facts(io, asker, told);
        }
    }

    /// Answers a command once the facts of all shards are there.
    pub(super) fn answer_command(&mut self, io: &impl Io, asker: Asker, told: Told, of_shards: &ShardFacts) {
        let asker = match asker {
            Asker::Waiting { asker, since } if of_shards.checkpoint_runs => {
                let look_at = Some(io.clock() + LOOK_EVERY);
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
        let client_addr =
            |session: SessionId| clients.get(&session).map(|peer| peer.addrs.front().to_string()).unwrap_or_default();
        let whoami = self.shard.whoami();
        let map = self.shard.map();
        let Commands { config, settings, tuned, counters, oldest_map, .. } = &mut self.commands;
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
            ops: OpDump {
                whoami,
                facts: of_shards,
                now: io.clock(),
                wall: io.wall_clock(),
                client_addr: &client_addr,
                history: tuned.history,
                complain_after: tuned.shards.complain_after,
            },
        };
        let reply = commands::answer(&told, &facts, counters);
        asker.answer(&mut self.public.messenger, reply);
    }

    /// The monitors give this OSD these options, and no others.
    pub(super) fn options_came(&mut self, options: &BTreeMap<String, String>) {
        let options = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        self.commands.settings.set_from_monitors(options);
        self.tune();
    }

    /// Has options take effect that have changed.
    fn tune(&mut self) {
        let Commands { config, settings, tuned, .. } = &mut self.commands;
        let now = Tuned::by(config, settings);
        if tuned.replace(now) != Some(now) {
            now.apply(&mut self.shard);
            self.others.tell_all(|| ToWorker::Tune(now));
        }
    }
}
