//! The tail of the cluster log (`ceph log last`, `ceph -w`).

use std::collections::VecDeque;
use types::{EntityName, Utime};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// How many lines are kept.
pub const LOG_ENTRIES_MAX: usize = 1000;

/// How serious a line is, by the protocol's numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LogPriority(pub u16);

impl LogPriority {
    pub const DEBUG: LogPriority = LogPriority(0);
    pub const INFO: LogPriority = LogPriority(1);
    pub const SECURITY: LogPriority = LogPriority(2);
    pub const WARN: LogPriority = LogPriority(3);
    pub const ERROR: LogPriority = LogPriority(4);

    /// As the log prints it: `[INF]`, `[WRN]` ...
    pub fn tag(self) -> &'static str {
        match self {
            LogPriority::DEBUG => "[DBG]",
            LogPriority::INFO => "[INF]",
            LogPriority::SECURITY => "[SEC]",
            LogPriority::WARN => "[WRN]",
            LogPriority::ERROR => "[ERR]",
            _ => "[???]",
        }
    }
}

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// Assigned when the line is applied; counts up over all lines.
    pub seq: u64,
    pub stamp: Utime,
    /// Who says it, by its name in authentication: `mon.a`, `client.admin`.
    pub name: String,
    /// Who says it, by its name on the wire.
    pub rank: EntityName,
    pub priority: LogPriority,
    /// `cluster` or `audit`.
    pub channel: String,
    pub message: String,
}

impl Encode for LogEntry {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.seq);
            w.put(&self.stamp);
            w.str(&self.name);
            w.put(&self.rank);
            w.u16(self.priority.0);
            w.str(&self.channel);
            w.str(&self.message);
        });
    }
}

impl Decode for LogEntry {
    const MIN_BYTES: usize = 45;

    fn decode(r: &mut Reader<'_>) -> Result<LogEntry, DecodeError> {
        let (_, mut r) = r.versioned("log entry", 1)?;
        Ok(LogEntry {
            seq: r.u64()?,
            stamp: r.get()?,
            name: r.get()?,
            rank: r.get()?,
            priority: LogPriority(r.u16()?),
            channel: r.get()?,
            message: r.get()?,
        })
    }
}

/// The newest lines, oldest first.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ClusterLog {
    /// The `seq` of the newest line ever, 0 before the first.
    pub last_seq: u64,
    pub entries: VecDeque<LogEntry>,
}

impl ClusterLog {
    /// Adds a line, giving it the next `seq`; the oldest falls off beyond [`LOG_ENTRIES_MAX`].
    pub fn push(&mut self, mut entry: LogEntry) {
        self.last_seq += 1;
        entry.seq = self.last_seq;
        self.entries.push_back(entry);
        if self.entries.len() > LOG_ENTRIES_MAX {
            self.entries.pop_front();
        }
    }

    /// The kept lines with a `seq` of at least `from`.
    pub fn since(&self, from: u64) -> impl Iterator<Item = &LogEntry> {
        let start = self.entries.partition_point(|entry| entry.seq < from);
        self.entries.range(start..)
    }
}

impl Encode for ClusterLog {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.last_seq);
            w.count(self.entries.len());
            self.entries.iter().for_each(|entry| w.put(entry));
        });
    }
}

impl Decode for ClusterLog {
    fn decode(r: &mut Reader<'_>) -> Result<ClusterLog, DecodeError> {
        let (_, mut r) = r.versioned("cluster log", 1)?;
        Ok(ClusterLog { last_seq: r.u64()?, entries: r.get::<Vec<LogEntry>>()?.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tail_is_kept() {
        let mut log = ClusterLog::default();
        for i in 0..LOG_ENTRIES_MAX + 5 {
            log.push(LogEntry {
                seq: 0,
                stamp: Utime::ZERO,
                name: "mon.a".into(),
                rank: EntityName::mon(0),
                priority: LogPriority::INFO,
                channel: "cluster".into(),
                message: i.to_string(),
            });
        }
        assert_eq!(log.entries.len(), LOG_ENTRIES_MAX);
        assert_eq!(log.entries[0].seq, 6);
        assert_eq!(log.since(1003).map(|e| e.message.as_str()).collect::<Vec<_>>(), ["1002", "1003", "1004"]);
        assert_eq!(ClusterLog::from_slice(&log.to_vec(Default::default())).unwrap(), log);
    }
}
