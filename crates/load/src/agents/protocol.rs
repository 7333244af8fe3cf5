//! Protocol of coordinator and agent, version 2.
//!
//! The coordinator connects and sends [`Hello`]; the agent answers [`Greeting`]. An agent with a token first answers
//! with its nonce, the coordinator sends its [`Proof`], the agent its own, and all that follows is encrypted, the
//! greeting that serves or refuses among it ([`super::sealing`]).
//!
//! For every iteration the coordinator then sends [`ToAgent::Begin`] and the steps of an iteration, each answered by
//! [`FromAgent::Reached`]. Beside that the agent tells its progress every half second, and answers pings at once. The
//! coordinator may end an iteration at any time.

use std::collections::BTreeMap;
use std::time::Duration;

use bench::histogram::{Digits, Histogram, HistogramData};
use bench::plan::Plan;
use bench::recorder::{Rounds, Tally, Total};
use bench::series::{Series, SeriesData};
use client::{Config, Login, MonHost, Who, parse_mon_host};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::crew::Share;
use crate::telemetry::Sample;

/// Value of `format` in a greeting.
pub const FORMAT: &str = "nacre-bench-agent";
/// Version of the protocol; both sides must speak the same.
pub const VERSION: u32 = 2;

/// The coordinator's first message. Other versions may add fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    pub format: String,
    pub version: u32,
    /// Name and version of the program.
    pub program: String,
    /// The coordinator's nonce in base64, if it has a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
}

/// Proof of a side that it knows the token, in base64.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Proof {
    pub proof: String,
}

/// The agent's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Greeting {
    pub format: String,
    pub version: u32,
    pub program: String,
    /// The reason why the agent will not serve; the connection ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The agent's nonce in base64: it asks for a proof, and greets again behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

/// The machine that an agent runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Id that differs between machines and between starts of a machine.
    pub id: String,
    pub host: String,
    pub processors: usize,
    /// The agent carries no load.
    pub watch_only: bool,
    /// Facts about the machine for the result, by name.
    pub facts: BTreeMap<String, String>,
}

/// A message from the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToAgent {
    /// Asks for the times of the agent's clocks; the agent's work goes on.
    Ping {
        number: u64,
    },
    /// Begins an iteration: the agent connects to the cluster.
    Begin(Box<Begin>),
    Prefill,
    /// Drops the prefill's data from caches.
    Prepare,
    /// Starts the load at this time of the agent's own clock.
    Load {
        at_ns: u64,
    },
    /// Ends operations in flight, and begins no more.
    Stop,
    /// Asks for the results of the rounds from the first to the one before the second.
    Gather {
        rounds: (u32, u32),
    },
    /// Removes the objects.
    Clean,
    /// Ends the iteration.
    End,
}

/// One iteration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Begin {
    pub plan: Plan,
    pub workload: u32,
    pub iteration: u32,
    /// Distinguishes the objects of this run from those of others.
    pub token: String,
    pub cluster: Site,
    /// The agent's share of the instances: its number, and the count of agents that share them. Absent for no share.
    pub part: Option<(usize, usize)>,
    /// Time since the start of the run, from which the record over time counts.
    pub elapsed_ns: u64,
}

/// A cluster and its addresses. It holds no keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Site {
    pub name: String,
    pub fsid: String,
    /// Path of the cluster's configuration on the coordinator's machine.
    pub configuration: String,
    /// The option `mon host` as in a `ceph.conf`.
    pub mon_host: String,
    pub user: String,
    pub connect_timeout_s: f64,
    pub op_timeout_s: Option<f64>,
    pub mon_op_timeout_s: Option<f64>,
    /// The part of the cluster's `osd dump` with the OSDs' addresses.
    pub osds: Value,
}

/// Steps that an agent has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Connected,
    Prefilled,
    Prepared,
    Loaded,
    Cleaned,
}

/// A message from the agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromAgent {
    /// Answer to a ping: times since the agent's start and since 1970.
    Pong {
        number: u64,
        monotonic_ns: u64,
        wall_ns: u64,
    },
    Reached(Step),
    /// A step failed, with the reason. No later step will be reached.
    Failed {
        reason: String,
    },
    /// Progress; also a sign of life.
    Live {
        prepared_bytes: u64,
        totals: Vec<Total>,
    },
    /// Round `round` has ended; its operations by group.
    Round {
        round: u32,
        operations: Vec<u64>,
    },
    /// Answers to `Gather`: groups one after the other, telemetry, the record over time, and `Gathered` at the end.
    Group(Box<GroupData>),
    Samples(Box<Samples>),
    /// Further lines of the record over time.
    Record {
        text: String,
    },
    Gathered,
    /// Everything of the iteration has ended.
    Ended,
}

/// Samples at the begin and the end of the counted rounds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Samples {
    pub before: Option<Sample>,
    pub after: Option<Sample>,
}

/// An agent's results for one group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupData {
    pub index: usize,
    pub latencies: HistogramData,
    pub bytes: u64,
    pub errors: u64,
    pub series: SeriesData,
    pub mismatches: u64,
    pub mismatch_examples: Vec<String>,
    pub error_examples: Vec<String>,
}

impl Hello {
    pub fn new(program: &str, nonce: Option<String>) -> Hello {
        Hello { format: FORMAT.into(), version: VERSION, program: program.into(), nonce }
    }
}

impl Greeting {
    fn empty(program: &str) -> Greeting {
        let (format, version, program) = (FORMAT.into(), VERSION, program.into());
        Greeting { format, version, program, refused: None, nonce: None, machine: None }
    }

    pub fn refusal(program: &str, reason: String) -> Greeting {
        Greeting { refused: Some(reason), ..Greeting::empty(program) }
    }

    /// The greeting of an agent that asks for a proof.
    pub fn challenge(program: &str, nonce: String) -> Greeting {
        Greeting { nonce: Some(nonce), ..Greeting::empty(program) }
    }

    pub fn welcome(program: &str, machine: Machine) -> Greeting {
        Greeting { machine: Some(machine), ..Greeting::empty(program) }
    }
}

impl GroupData {
    pub fn new(index: usize, share: &Share) -> GroupData {
        GroupData {
            index,
            latencies: share.tally.latencies.to_data(),
            bytes: share.tally.bytes,
            errors: share.tally.errors,
            series: share.series.to_data(),
            mismatches: share.mismatches,
            mismatch_examples: share.mismatch_examples.clone(),
            error_examples: share.error_examples.clone(),
        }
    }

    /// Decodes the share of a workload with these rounds.
    ///
    /// Errors: the reason, in words, why the data describes no share.
    pub fn share(self, rounds: Rounds) -> Result<Share, String> {
        let mut share = Share::empty(rounds);
        let latencies = Histogram::from_data(Digits::Three, &self.latencies).map_err(|e| e.to_string())?;
        share.tally = Tally { latencies, bytes: self.bytes, errors: self.errors };
        share.series = Series::from_data(&share.series, &self.series).map_err(|e| e.to_string())?;
        share.mismatches = self.mismatches;
        share.mismatch_examples = self.mismatch_examples;
        share.error_examples = self.error_examples;
        Ok(share)
    }
}

impl Site {
    pub fn new(name: &str, fsid: String, configuration: &str, config: &Config, osds: Value) -> Site {
        let host = |host: &MonHost| match host {
            MonHost::Addr(addr) => addr.to_string(),
            MonHost::Name(name, port) => format!("{name}:{port}"),
        };
        Site {
            name: name.to_owned(),
            fsid,
            configuration: configuration.to_owned(),
            mon_host: config.mon_hosts.iter().map(host).collect::<Vec<_>>().join(","),
            user: config.who.to_string(),
            connect_timeout_s: config.connect_timeout.as_secs_f64(),
            op_timeout_s: config.op_timeout.map(|time| time.as_secs_f64()),
            mon_op_timeout_s: config.mon_op_timeout.map(|time| time.as_secs_f64()),
            osds,
        }
    }

    /// The configuration of a client on the agent's machine, which proves who it is so.
    ///
    /// Errors: the reason, in words, why this data is invalid.
    pub fn config(&self, login: Login) -> Result<Config, String> {
        let mut config = Config::new(parse_mon_host(&self.mon_host).map_err(|e| format!("mon host: {e}"))?);
        config.login = login;
        config.who = Who::parse(&self.user).ok_or_else(|| format!("user {:?} is no name", self.user))?;
        let time = |seconds: f64| Duration::try_from_secs_f64(seconds).map_err(|e| format!("{seconds} s: {e}"));
        config.connect_timeout = time(self.connect_timeout_s)?;
        config.op_timeout = self.op_timeout_s.map(time).transpose()?;
        config.mon_op_timeout = self.mon_op_timeout_s.map(time).transpose()?;
        Ok(config)
    }
}
