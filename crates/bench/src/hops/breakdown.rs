//! Sums of many operations' hops.

use super::{Member, OpHops};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One hop over many operations. Times are in microseconds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HopRow {
    pub hop: String,
    pub median_us: u64,
    pub p99_us: u64,
    pub mean_us: f64,
    /// Share of all operations' time, 0 to 1.
    pub share: f64,
}

/// Hops of the members that acknowledged last, by their own account.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LastMember {
    /// Number of times that each OSD was the last, where that is known; `-1` is the primary itself.
    pub times: BTreeMap<i32, u64>,
    /// The member's own hops, and `network`: the rest of the time from the update's execution until the acknowledgement
    /// came, which is sending, the network, and messages that waited to be read.
    pub rows: Vec<HopRow>,
}

/// Hops over many operations of one kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Breakdown {
    pub ops: u64,
    pub median_us: u64,
    pub p99_us: u64,
    pub mean_us: f64,
    /// Hops in the order in which they happen; hops that never took any time are left out.
    pub rows: Vec<HopRow>,
    /// `None` if there was no write.
    pub last_member: Option<LastMember>,
}

impl Breakdown {
    /// Sums up operations; `None` if there are none.
    pub fn of(ops: &[&OpHops]) -> Option<Breakdown> {
        let (median_us, p99_us, mean_us) = figures(ops.iter().map(|op| op.total_us).collect())?;
        let whole: u64 = ops.iter().map(|op| op.hops.iter().map(|(_, us)| us).sum::<u64>()).sum();
        let mut names: Vec<&str> = Vec::new();
        for (place, op) in ops.iter().flat_map(|op| op.hops.iter().enumerate()) {
            if !names.contains(&op.0.as_str()) {
                names.insert(place.min(names.len()), &op.0);
            }
        }
        let row = |hop: &&str| {
            let of = |op: &&OpHops| op.hops.iter().filter(|(name, _)| name == hop).map(|(_, us)| *us).sum::<u64>();
            row(hop, ops.iter().map(of).collect(), whole)
        };
        let rows = names.iter().filter_map(row).filter(|row| row.mean_us > 0.0).collect();
        let written: Vec<&OpHops> = ops.iter().copied().filter(|op| op.write).collect();
        let last_member = (!written.is_empty()).then(|| last_member(&written));
        Some(Breakdown { ops: ops.len() as u64, median_us, p99_us, mean_us, rows, last_member })
    }

    /// The hop with the largest share of the time.
    pub fn largest(&self) -> Option<&HopRow> {
        self.rows.iter().max_by(|a, b| a.share.total_cmp(&b.share))
    }

    /// A sentence about the hop with the largest share.
    pub fn verdict(&self) -> Option<String> {
        let hop = self.largest()?;
        let mut sentence = format!("most time goes into {} ({:.0} %)", hop.hop, hop.share * 100.0);
        if hop.hop == "replicas"
            && let Some(last) = &self.last_member
            && let Some(part) = last.rows.iter().max_by(|a, b| a.share.total_cmp(&b.share))
        {
            sentence += &format!(", of that most into {}", part.hop);
        }
        Some(sentence)
    }
}

fn last_member(ops: &[&OpHops]) -> LastMember {
    let mut times = BTreeMap::new();
    let mut parts: Vec<(&OpHops, &Member)> = Vec::new();
    for op in ops {
        let Some(last) = op.last_member else { continue };
        *times.entry(if last == op.osd { -1 } else { last }).or_insert(0) += 1;
        // Among equals that came in one message, this is the one that the primary handled last.
        if let Some(member) = op.members.iter().find(|member| member.osd == last) {
            parts.push((op, member));
        }
    }
    let of = |(op, member): &(&OpHops, &Member)| member.acked_us.saturating_sub(op.executed_us.unwrap_or(0));
    let whole = parts.iter().map(of).sum();
    type Part = fn(&(&OpHops, &Member)) -> u64;
    let named: [(&str, Part); 5] = [
        ("network", |(op, member)| {
            member.acked_us.saturating_sub(op.executed_us.unwrap_or(0)).saturating_sub(member.own_us())
        }),
        ("receive", |(_, member)| member.receive_us),
        ("queue", |(_, member)| member.queue_us),
        ("write", |(_, member)| member.write_us),
        ("flush", |(_, member)| member.flush_us),
    ];
    let rows = named.iter().filter_map(|(name, part)| row(name, parts.iter().map(part).collect(), whole));
    LastMember { times, rows: rows.collect() }
}

fn row(hop: &str, values: Vec<u64>, whole: u64) -> Option<HopRow> {
    let sum: u64 = values.iter().sum();
    let (median_us, p99_us, mean_us) = figures(values)?;
    Some(HopRow { hop: hop.to_owned(), median_us, p99_us, mean_us, share: sum as f64 / whole.max(1) as f64 })
}

/// Median, 99th percentile and mean.
fn figures(mut values: Vec<u64>) -> Option<(u64, u64, f64)> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    let at = |share: f64| values[((last as f64) * share).round() as usize];
    Some((at(0.5), at(0.99), values.iter().sum::<u64>() as f64 / values.len() as f64))
}
