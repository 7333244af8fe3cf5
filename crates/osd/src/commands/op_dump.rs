//! Renders the operations that shards keep as JSON: in Ceph's formats (`dump_historic_ops` and its relatives) for
//! people who know them, and complete for `nacre why`.

use super::tuned::History;
use crate::shards::ShardFacts;
use pg::hops::{MemberSample, OpSample, OpState, Stamp, WaitReasons};
use serde_json::{Value, json};
use std::time::Duration;
use types::{OsdId, Utime};
use wire::msgr::SessionId;

/// Version of the layout of [`OpDump::hops`].
const HOPS_VERSION: u64 = 1;

/// An OSD's operations at one moment.
pub(crate) struct OpDump<'a> {
    pub whoami: OsdId,
    pub facts: &'a ShardFacts,
    /// The OSD's clock and the wall clock at one moment.
    pub now: Duration,
    pub wall: Utime,
    /// Gives the address of a session's client; empty if the client is gone.
    pub client_addr: &'a dyn Fn(SessionId) -> String,
    pub history: History,
    /// Operations that are not answered after this time have waited for long.
    pub complain_after: Duration,
}

impl OpDump<'_> {
    /// All kept operations with all that is known of them.
    pub fn hops(&self) -> Value {
        json!({
            "version": HOPS_VERSION,
            "osd": self.whoami.0,
            "now": self.wall.to_string(),
            "one_op_kept_in": self.facts.one_op_kept_in,
            "recent": self.facts.recent_ops.iter().map(|op| self.whole(op)).collect::<Vec<_>>(),
            "slowest": self.facts.slowest_ops.iter().map(|op| self.whole(op)).collect::<Vec<_>>(),
        })
    }

    fn whole(&self, op: &OpSample) -> Value {
        let hops = op.hops().into_iter().map(|(hop, us)| (hop.name().to_owned(), Value::from(us)));
        let hops: serde_json::Map<String, Value> = hops.collect();
        let stamp = |stamp: Stamp| stamp.happened().then_some(stamp.0);
        let member = |member: &MemberSample| {
            json!({
                "osd": member.osd.0,
                "acked_us": member.acked.0,
                "receive_us": member.hops.receive_us,
                "queue_us": member.hops.queue_us,
                "write_us": member.hops.write_us,
                "flush_us": member.hops.flush_us,
            })
        };
        json!({
            "reqid": op.reqid.to_string(),
            "client": op.reqid.name.to_string(),
            "tid": op.reqid.tid,
            "pg": op.pg.to_string(),
            "pool": op.pg.pool.0,
            "object": name(op),
            "what": op.what,
            "write": op.is_write,
            "bytes": op.bytes,
            "result": op.result,
            "sampled": op.sampled,
            "began": self.wall_at(op.began).to_string(),
            "age_us": u64::try_from(self.now.saturating_sub(op.began).as_micros()).unwrap_or(u64::MAX),
            "total_us": op.total_us(),
            "waited_for": waits(op.waits),
            "hops": hops,
            "executed_us": stamp(op.executed),
            "durable_us": stamp(op.durable),
            "members": op.members.iter().map(member).collect::<Vec<_>>(),
            "last_member": op.last_member.map(|osd| osd.0),
        })
    }

    /// Tells whether an operation is wanted. `filters`: addresses of clients; none: all are.
    fn is_wanted(&self, op: &OpSample, filters: &[&str]) -> bool {
        filters.is_empty() || filters.contains(&(self.client_addr)(op.session).as_str())
    }

    fn done(&self, op: &OpSample) -> Value {
        self.ceph(op, "commit sent; apply or cleanup")
    }

    /// `dump_historic_ops`: the most recent operations.
    pub fn historic(&self, filters: &[&str]) -> Value {
        let History { size, duration, .. } = self.history;
        let young = |op: &&OpSample| u128::from(op.age_us(self.now)) <= duration.as_micros();
        let ops = self.facts.recent_ops.iter().rev().filter(young).take(size);
        let mut ops: Vec<Value> = ops.filter(|op| self.is_wanted(op, filters)).map(|op| self.done(op)).collect();
        ops.reverse();
        json!({ "size": size, "duration": duration.as_secs(), "ops": ops })
    }

    /// `dump_historic_ops_by_duration`: the slowest operations.
    pub fn historic_by_duration(&self, filters: &[&str]) -> Value {
        let History { size, duration, .. } = self.history;
        let mut ops: Vec<&OpSample> = self.facts.slowest_ops.iter().collect();
        ops.sort_by_key(|op| std::cmp::Reverse(op.total_us()));
        ops.truncate(size);
        let ops = ops.into_iter().filter(|op| self.is_wanted(op, filters)).map(|op| self.done(op));
        json!({ "size": size, "duration": duration.as_secs(), "ops": ops.collect::<Vec<_>>() })
    }

    /// `dump_historic_slow_ops`: operations that took long.
    pub fn historic_slow(&self, filters: &[&str]) -> Value {
        let History { slow_size, slow_after, .. } = self.history;
        let slow = |op: &&OpSample| u128::from(op.total_us()) >= slow_after.as_micros();
        let ops = self.facts.slowest_ops.iter().filter(slow).take(slow_size);
        let ops = ops.filter(|op| self.is_wanted(op, filters)).map(|op| self.done(op));
        let threshold = slow_after.as_secs_f64();
        json!({ "num to keep": slow_size, "threshold to keep": threshold, "Ops": ops.collect::<Vec<_>>() })
    }

    /// `dump_ops_in_flight`.
    pub fn in_flight(&self, filters: &[&str]) -> Value {
        let ops = self.under_way(0, filters);
        let num_ops = ops.len();
        json!({ "ops": ops, "num_ops": num_ops })
    }

    /// `dump_blocked_ops`: operations in flight that have waited for long.
    pub fn blocked(&self, filters: &[&str]) -> Value {
        let ops = self.under_way(self.complain_after.as_micros(), filters);
        let num_blocked_ops = ops.len();
        let complaint_time = self.complain_after.as_secs_f64();
        json!({ "ops": ops, "complaint_time": complaint_time, "num_blocked_ops": num_blocked_ops })
    }

    fn under_way(&self, age_us_min: u128, filters: &[&str]) -> Vec<Value> {
        let old = self.facts.ops_in_flight.iter().filter(|(op, _)| u128::from(op.age_us(self.now)) >= age_us_min);
        let old = old.filter(|(op, _)| self.is_wanted(op, filters));
        let flag_point = |state| match state {
            OpState::WaitsForGroup => "waiting for peered",
            OpState::Queued => "started",
            OpState::WaitsForMembers => "waiting for sub ops",
        };
        old.map(|(op, state)| self.ceph(op, flag_point(*state))).collect()
    }

    /// One operation in Ceph's format. Its times are wall-clock times; its durations are in seconds.
    fn ceph(&self, op: &OpSample, flag_point: &str) -> Value {
        let seconds = |us: u64| us as f64 / 1e6;
        let events = events(op);
        // The duration of an event is the time until the next event. That of the last event is the whole time.
        let next = events.iter().skip(1).map(|(stamp, _)| Some(*stamp)).chain([None]);
        let event = |((stamp, event), next): (&(u32, String), Option<u32>)| {
            let time = self.wall_at(op.began + Duration::from_micros((*stamp).into())).to_string();
            let took = next.map_or(*stamp, |next| next.saturating_sub(*stamp));
            json!({ "event": event, "time": time, "duration": seconds(took.into()) })
        };
        let events: Vec<Value> = events.iter().zip(next).map(event).collect();
        let (object, kind) = (name(op), if op.is_write { "write" } else { "read" });
        json!({
            "description": format!("osd_op({} {} {object} [{}] {kind})", op.reqid, op.pg, op.what),
            "initiated_at": self.wall_at(op.began).to_string(),
            "age": self.now.saturating_sub(op.began).as_secs_f64(),
            "duration": seconds(op.age_us(self.now)),
            "type_data": {
                "flag_point": flag_point,
                "client_info": {
                    "client": op.reqid.name.to_string(),
                    "client_addr": (self.client_addr)(op.session),
                    "tid": op.reqid.tid,
                },
                "events": events,
            },
        })
    }

    fn wall_at(&self, at: Duration) -> Utime {
        Utime::from_unix(self.wall.to_unix().saturating_sub(self.now.saturating_sub(at)))
    }
}

fn name(op: &OpSample) -> String {
    op.object.escape_ascii().to_string()
}

fn waits(waits: WaitReasons) -> Vec<&'static str> {
    let reasons =
        [(WaitReasons::MEMORY, "memory"), (WaitReasons::MAP, "map"), (WaitReasons::INACTIVE, "placement group")];
    reasons.into_iter().filter(|(reason, _)| waits.has(*reason)).map(|(_, name)| name).collect()
}

/// Events in an operation's life, with Ceph's names, in order. Times are in microseconds.
fn events(op: &OpSample) -> Vec<(u32, String)> {
    let mut events = vec![(0, "initiated".to_owned()), (0, "header_read".to_owned())];
    let mut add = |stamp: Stamp, event: String| {
        if stamp.happened() {
            events.push((stamp.0, event));
        }
    };
    for event in ["all_read", "dispatched", "queued_for_pg"] {
        add(op.whole, event.to_owned());
    }
    for event in ["reached_pg", "started"] {
        add(op.started, event.to_owned());
    }
    if op.is_write {
        add(op.executed, "waiting for subops".to_owned());
        add(op.handed_over, "write_begun".to_owned());
        add(op.written, "written".to_owned());
        add(op.durable, "op_commit".to_owned());
        for member in &op.members {
            add(member.acked, format!("sub_op_commit_rec from {}", member.osd));
        }
        add(op.replicated, "commit_sent".to_owned());
    }
    add(op.answered, "done".to_owned());
    events.sort_by_key(|(stamp, _)| *stamp);
    events
}
