//! `ceph mon scrub`: the monitors compare their states.
//!
//! A line in the log that all monitors apply, on a channel of its own, has each of them compute a checksum of its state
//! as it is right behind the line's batch. Monitors of earlier software take it for a line like others. Each tells the
//! leader its checksum with what it says every few seconds, and the leader writes to the cluster log whether all are
//! the same.

use super::{Monitor, Now};
use crate::bounds::{NAME_BYTES_MAX, cut};
use crate::state::{LogPriority, STATE_CHECK_CHANNEL};
use crate::update::{Batch, Update};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityType, crc32c};
use wire::nacre::quorum::StateSum;
use wire::{Encode, Target};

/// Time that the other monitors have to tell their checksums.
const TOLD_WITHIN: Duration = Duration::from_secs(30);

/// The last comparison.
#[derive(Default)]
pub(super) struct StateCheck {
    /// The last checksum of each monitor, by its name.
    told: BTreeMap<String, StateSum>,
    /// For a leader: the batch whose checksums are waited for, and until when.
    awaited: Option<(u64, Duration)>,
}

impl Monitor {
    /// Forgets what a leader waits for.
    pub(super) fn stop_comparing(&mut self) {
        self.state_check.awaited = None;
        self.volatile.compares_states = false;
    }

    /// Returns this monitor's last checksum of its state.
    pub fn state_sum(&self) -> Option<StateSum> {
        self.state_check.told.get(&self.volatile.name).cloned()
    }

    /// Takes over the checksum that another monitor tells.
    pub fn told_state_sum(&mut self, name: &str, mut sum: StateSum) {
        cut(&mut sum.software, NAME_BYTES_MAX);
        if self.state.monmap.mons.contains_key(name) && *name != self.volatile.name {
            self.state_check.told.insert(name.to_owned(), sum);
        }
    }

    /// Computes the checksum, if a batch that was applied just now asks for it.
    pub(super) fn check_state(&mut self, now: Now, batch: &Batch) {
        let asks = |update: &Update| match update {
            Update::Log(lines) => {
                lines.iter().any(|line| line.channel == STATE_CHECK_CHANNEL && line.rank.kind == EntityType::MON)
            }
            _ => false,
        };
        if !batch.updates.iter().any(asks) {
            return;
        }
        let bytes = self.state.to_vec(Target::PACIFIC);
        let crc = crc32c::update(u32::MAX, &bytes);
        let (applied, software) = (self.state.applied, control::version::OWN.to_owned());
        let sum = StateSum { software, applied, bytes: bytes.len() as u64, crc };
        self.state_check.told.insert(self.volatile.name.clone(), sum);
        if self.leads {
            self.state_check.awaited = Some((applied, now.since_start + TOLD_WITHIN));
            self.volatile.compares_states = true;
        }
    }

    /// For a leader: writes to the cluster log how the comparison went, once all have told, or had time to.
    pub(super) fn judge_states(&mut self, now: Now) {
        let Some((applied, until)) = self.state_check.awaited.filter(|_| self.leads) else { return };
        let quorum: Vec<String> =
            self.volatile.quorum.names(&self.state.monmap).into_iter().map(str::to_owned).collect();
        let sum_of = |name: &String| self.state_check.told.get(name).cloned().filter(|sum| sum.applied == applied);
        let sums: Vec<(String, Option<StateSum>)> = quorum.iter().map(|name| (name.clone(), sum_of(name))).collect();
        if now.since_start < until && sums.iter().any(|(_, sum)| sum.is_none()) {
            return;
        }
        let rank = |name: &str| self.state.monmap.rank(name).unwrap_or_default();
        let own = sum_of(&self.volatile.name).unwrap_or_default();
        let told = |sum: &StateSum| format!("ScrubResult(keys {{state={}}} crc {{state={}}})", sum.bytes, sum.crc);
        let (mut lines, mut fine) = (Vec::new(), Vec::new());
        for (name, sum) in &sums {
            match sum {
                None => lines.push((LogPriority::WARN, format!("scrub: mon.{name} has not told how its state is"))),
                Some(sum) if sum.software != own.software => {
                    let line = format!("scrub: mon.{name} runs other software ({}), not compared", sum.software);
                    lines.push((LogPriority::WARN, line));
                }
                Some(sum) if *sum == own => fine.push(rank(name).to_string()),
                Some(sum) => {
                    let mine = told(&own);
                    lines.push((LogPriority::ERROR, "scrub mismatch".to_owned()));
                    lines.push((LogPriority::ERROR, format!(" mon.{} {mine}", rank(&self.volatile.name))));
                    lines.push((LogPriority::ERROR, format!(" mon.{} {}", rank(name), told(sum))));
                }
            }
        }
        if lines.is_empty() {
            lines.push((LogPriority::DEBUG, format!("scrub ok on {}: {}", fine.join(","), told(&own))));
        }
        self.stop_comparing();
        lines.into_iter().for_each(|(priority, line)| self.note(now, priority, line));
    }
}
