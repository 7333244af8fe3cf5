//! Breakdown of operations' time into hops, from the histories that OSDs keep: over all operations, and for single
//! ones.
//!
//! [`kept_by_nacre`] and [`kept_by_ceph`] read the OSDs' answers, [`Breakdown`] sums them up, [`timeline`] shows one
//! operation.

mod breakdown;
mod text;

pub use breakdown::{Breakdown, HopRow, LastMember};
pub use text::{breakdown_table, timeline};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The part of another member in an update, in microseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Member {
    pub osd: i32,
    /// Time from the operation's first byte at the primary until the member's acknowledgement came there.
    pub acked_us: u64,
    /// Durations by the member's own clock: its message from the first byte to the last; until its writes went to the
    /// device; the writes; the flush.
    pub receive_us: u64,
    pub queue_us: u64,
    pub write_us: u64,
    pub flush_us: u64,
}

impl Member {
    /// Sum of the durations by the member's own clock.
    pub fn own_us(&self) -> u64 {
        self.receive_us + self.queue_us + self.write_us + self.flush_us
    }
}

/// One operation as its primary OSD kept it. Durations are in microseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OpHops {
    /// The primary.
    pub osd: i32,
    /// Client and transaction, such as `client.4123.0:17`.
    pub reqid: String,
    /// Id of the pool, where it is known.
    pub pool: Option<u64>,
    pub pg: String,
    pub object: String,
    pub what: String,
    pub write: bool,
    pub result: i64,
    /// The OSD chose the operation beforehand as a sample; otherwise it kept it for being slow.
    pub sampled: bool,
    /// The OSD's wall clock, as text.
    pub began: String,
    pub age_us: u64,
    pub total_us: u64,
    /// Events that the operation waited for before it was begun.
    pub waited_for: Vec<String>,
    /// Consecutive durations that add up to the whole.
    pub hops: Vec<(String, u64)>,
    /// Time when the update went to the other members.
    pub executed_us: Option<u64>,
    pub members: Vec<Member>,
    /// The member that was the last to have the update, which may be the primary; `None` for reads, and if it is not
    /// known.
    pub last_member: Option<i32>,
}

/// The reason why an OSD's answer cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("what osd.{osd} tells of its operations has no {missing}")]
pub struct HopsError {
    pub osd: i32,
    pub missing: &'static str,
}

/// Names of hops, in their order.
const NACRE_HOPS: [&str; 9] = ["receive", "wait", "lookup", "read", "queue", "write", "flush", "replicas", "answer"];

/// Reads the operations in the answer to `dump_op_hops`: first the samples, then the slowest others.
pub fn kept_by_nacre(dump: &Value) -> Result<Vec<OpHops>, HopsError> {
    let osd = dump["osd"].as_i64().and_then(|id| i32::try_from(id).ok()).unwrap_or(-1);
    let list = |name: &'static str| dump[name].as_array().ok_or(HopsError { osd, missing: name });
    let mut ops = Vec::new();
    for op in list("recent")?.iter().chain(list("slowest")?) {
        let missing = |missing| HopsError { osd, missing };
        let number = |value: &Value, name: &'static str| value[name].as_u64().ok_or(missing(name));
        let text = |name: &str| op[name].as_str().unwrap_or_default().to_owned();
        let mut hops = Vec::new();
        for name in NACRE_HOPS {
            if let Some(us) = op["hops"][name].as_u64() {
                hops.push((name.to_owned(), us));
            }
        }
        let mut members = Vec::new();
        for member in op["members"].as_array().into_iter().flatten() {
            members.push(Member {
                osd: id(&member["osd"]).ok_or(missing("member's number"))?,
                acked_us: number(member, "acked_us")?,
                receive_us: number(member, "receive_us")?,
                queue_us: number(member, "queue_us")?,
                write_us: number(member, "write_us")?,
                flush_us: number(member, "flush_us")?,
            });
        }
        let waited_for = op["waited_for"].as_array().into_iter().flatten();
        let write = op["write"].as_bool().ok_or(missing("write"))?;
        ops.push(OpHops {
            osd,
            reqid: text("reqid"),
            pool: op["pool"].as_u64(),
            pg: text("pg"),
            object: text("object"),
            what: text("what"),
            write,
            result: op["result"].as_i64().unwrap_or(0),
            sampled: op["sampled"].as_bool().unwrap_or(false),
            began: text("began"),
            age_us: number(op, "age_us")?,
            total_us: number(op, "total_us")?,
            waited_for: waited_for.filter_map(|reason| reason.as_str().map(str::to_owned)).collect(),
            hops,
            executed_us: op["executed_us"].as_u64(),
            members,
            last_member: id(&op["last_member"]).or(write.then_some(osd)),
        });
    }
    // The answer lists samples that are slow twice.
    let mut seen = std::collections::BTreeSet::new();
    ops.retain(|op| seen.insert((op.reqid.clone(), op.began.clone())));
    Ok(ops)
}

fn id(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

/// Reads clients' operations in the answer to Ceph's `dump_historic_ops`. Its hops are the times between Ceph's events,
/// each named for the event at its end, or for the awaited thing if the event at its beginning names one. Ceph drops
/// the fastest operations first, so those left are the slowest of the last minutes and no sample of all.
pub fn kept_by_ceph(osd: i32, dump: &Value) -> Result<Vec<OpHops>, HopsError> {
    let ops = dump["ops"].as_array().ok_or(HopsError { osd, missing: "ops" })?;
    let microseconds = |value: &Value| (value.as_f64().unwrap_or(0.0).clamp(0.0, 1e9) * 1e6).round() as u64;
    let mut kept = Vec::new();
    for op in ops {
        let description = op["description"].as_str().unwrap_or_default();
        // Operations that other OSDs sent are not clients' operations.
        let Some(inside) = description.strip_prefix("osd_op(") else { continue };
        let mut words = inside.split(' ');
        let (reqid, pg) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        // The next word has pool, placement hash, and the object: `2:e9a5352a:::name:head`.
        let object = words.next().unwrap_or_default();
        let events = op["type_data"]["events"].as_array().ok_or(HopsError { osd, missing: "events" })?;
        let times: Vec<(&str, f64)> = events
            .iter()
            .filter_map(|event| Some((event["event"].as_str()?, seconds_of_day(event["time"].as_str()?)?)))
            .collect();
        let hops = times.windows(2).map(|pair| {
            // Ceph reads clocks on several threads, and a day may end between two events, so differences are clamped.
            let us = ((pair[1].1 - pair[0].1).clamp(0.0, 3600.0) * 1e6).round() as u64;
            let name = if is_wait(pair[0].0) { pair[0].0 } else { pair[1].0 };
            (event_name(name).to_owned(), us)
        });
        let hops: Vec<_> = hops.collect();
        kept.push(OpHops {
            osd,
            reqid: reqid.to_owned(),
            pool: pg.split('.').next().and_then(|pool| pool.parse().ok()),
            pg: pg.to_owned(),
            object: object.splitn(5, ':').nth(4).unwrap_or(object).trim_end_matches(":head").to_owned(),
            what: inside.split_once('[').and_then(|(_, rest)| rest.split(']').next()).unwrap_or_default().to_owned(),
            write: inside.contains("+write+"),
            result: 0,
            sampled: false,
            began: op["initiated_at"].as_str().unwrap_or_default().to_owned(),
            age_us: microseconds(&op["age"]),
            total_us: microseconds(&op["duration"]),
            waited_for: Vec::new(),
            hops,
            executed_us: None,
            members: Vec::new(),
            last_member: last_member(osd, &times),
        });
    }
    Ok(kept)
}

/// Seconds since midnight of a stamp such as `2026-11-21T21:34:35.913515+0000`.
fn seconds_of_day(stamp: &str) -> Option<f64> {
    let time = stamp.split(['T', ' ']).nth(1)?;
    let time = time.split(['+', '-', 'Z']).next()?;
    let mut parts = time.split(':').map(|part| part.parse::<f64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    Some(hours * 3600.0 + minutes * 60.0 + seconds)
}

/// The name of an event without the OSDs in it.
fn event_name(event: &str) -> &str {
    event.split(" from ").next().unwrap_or_default()
}

/// True if an event names the thing that is awaited from then on. The wait for other members is excluded: it lasts
/// until the update is done, and later events tell which member, or the primary itself, it waited for.
fn is_wait(event: &str) -> bool {
    let waits = ["waiting for ", "op must wait", "delayed"].iter().any(|words| event.starts_with(words));
    waits && !event.starts_with(WAITING_FOR_SUBOPS)
}

const WAITING_FOR_SUBOPS: &str = "waiting for subops from ";
const SUBOP_COMMITTED: &str = "sub_op_commit_rec";

/// The member that was the last to have an update, as far as Ceph tells: 16.2 does not say whose acknowledgement came.
fn last_member(primary: i32, events: &[(&str, f64)]) -> Option<i32> {
    let committed = |(event, _): &&(&str, f64)| *event == "op_commit" || event.starts_with(SUBOP_COMMITTED);
    let (last, _) = events.iter().rev().find(committed)?;
    let Some(from) = last.strip_prefix(SUBOP_COMMITTED) else { return Some(primary) };
    // If there is only one other member, the acknowledgement was from it.
    let only = || events.iter().find_map(|(event, _)| event.strip_prefix(WAITING_FOR_SUBOPS));
    from.strip_prefix(" from ").or_else(only)?.trim_start_matches("osd.").parse().ok()
}

#[cfg(test)]
mod tests;
