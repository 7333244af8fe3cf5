//! Lines of an OSD for the cluster log, which the monitors write.

use super::Running;
use std::collections::VecDeque;
use types::{EntityName, EntityType, Utime};
use wire::basic::AuthName;
use wire::messages::{self, LogEntry, LogPriority};
use wire::{Message, Target};

/// Most lines that wait for a session with a monitor. The oldest go first: what they tell stands in this OSD's own log.
const WAITING_MAX: usize = 1000;
/// Most lines in one message.
const LINES_MAX: usize = 100;

/// Lines that no monitor has acknowledged yet.
#[derive(Default)]
pub(super) struct ClusterLog {
    /// Number of the last line.
    last: u64,
    /// Number of the last line that was sent in this session.
    sent: u64,
    waiting: VecDeque<LogEntry>,
}

impl ClusterLog {
    /// Adds a line, whose number it gives, to those that wait.
    fn add(&mut self, entry: LogEntry) {
        self.last += 1;
        self.waiting.push_back(LogEntry { seq: self.last, ..entry });
        while self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
        }
    }

    /// Returns the lines of the next message; none are left to be sent where it is empty.
    fn take(&mut self) -> Vec<LogEntry> {
        let unsent = self.waiting.iter().filter(|line| line.seq > self.sent);
        let lines: Vec<LogEntry> = unsent.take(LINES_MAX).cloned().collect();
        self.sent = lines.last().map_or(self.sent, |line| line.seq);
        lines
    }

    /// Forgets lines that the monitors have.
    pub fn acknowledged(&mut self, last: u64) {
        self.waiting.retain(|line| line.seq > last);
    }

    /// Has all lines sent again that were not acknowledged: a session has begun.
    pub fn begin_session(&mut self) {
        self.sent = 0;
    }
}

impl Running {
    /// Writes a line to the cluster log: now, or once there is a session with a monitor.
    pub(super) fn tell_cluster(&mut self, priority: LogPriority, message: String, stamp: Utime) {
        let whoami = self.shard.whoami();
        self.commands.cluster_log.add(LogEntry {
            name: AuthName::new(EntityType::OSD, whoami.0.to_string()),
            rank: EntityName::osd(whoami),
            addrs: self.public.messenger.addrs().clone(),
            stamp,
            seq: 0,
            priority,
            message,
            channel: "cluster".to_owned(),
        });
        self.send_cluster_log();
    }

    /// Tells the monitor what waits for it, if there is a session with one.
    pub(super) fn send_cluster_log(&mut self) {
        while self.monitor.is_open() {
            let entries = self.commands.cluster_log.take();
            if entries.is_empty() {
                return;
            }
            let log = messages::Log { have: 0, fsid: self.shard.map().fsid, entries };
            self.monitor.send(&mut self.public.messenger, log.seal(0, Target::default()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_in_their_order_and_the_oldest_go_where_there_are_too_many() {
        let mut log = ClusterLog::default();
        let line = |n: usize| LogEntry {
            name: AuthName::new(EntityType::OSD, "1"),
            rank: EntityName::osd(types::OsdId(1)),
            addrs: Default::default(),
            stamp: Utime::ZERO,
            seq: 0,
            priority: LogPriority::WARN,
            message: n.to_string(),
            channel: "cluster".to_owned(),
        };
        (1..=WAITING_MAX + 5).for_each(|n| log.add(line(n)));
        let mut told = Vec::new();
        loop {
            let lines = log.take();
            assert!(lines.len() <= LINES_MAX);
            if lines.is_empty() {
                break;
            }
            told.extend(lines);
        }
        assert_eq!((told.len(), told[0].message.as_str(), told[0].seq), (WAITING_MAX, "6", 6));
        assert!(told.is_sorted_by_key(|line| line.seq));
        log.acknowledged(told[9].seq);
        assert!(log.take().is_empty(), "all are sent");
        log.begin_session();
        assert_eq!(log.take()[0].seq, told[10].seq, "those come again that nobody acknowledged");
    }
}
