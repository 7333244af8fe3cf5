//! The tail of the cluster log (`ceph log last`, `ceph -w`).

use std::collections::VecDeque;
use wire::messages::LogEntry;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Channel of the lines that have all monitors compare their states. A leader lets no client
/// and no OSD write to it; one of earlier software does.
pub const STATE_CHECK_CHANNEL: &str = "mon-scrub";

/// Number of lines that are kept.
pub const LOG_ENTRIES_MAX: usize = 1000;

/// The newest lines, oldest first.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ClusterLog {
    /// Number of lines ever, which is the newest one's index: the first had 1.
    pub last_index: u64,
    pub entries: VecDeque<LogEntry>,
}

impl ClusterLog {
    /// Adds a line; the oldest falls off beyond [`LOG_ENTRIES_MAX`].
    pub fn push(&mut self, mut entry: LogEntry) {
        self.last_index += 1;
        // Lines of the monitors themselves come without a number of their own.
        if entry.seq == 0 {
            entry.seq = self.last_index;
        }
        self.entries.push_back(entry);
        if self.entries.len() > LOG_ENTRIES_MAX {
            self.entries.pop_front();
        }
    }

    /// Returns the kept lines from index `from` on.
    pub fn since(&self, from: u64) -> impl Iterator<Item = &LogEntry> {
        let first = self.last_index + 1 - self.entries.len() as u64;
        let skip = from.saturating_sub(first).min(self.entries.len() as u64);
        self.entries.range(skip as usize..)
    }
}

impl Encode for ClusterLog {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.last_index);
            w.count(self.entries.len());
            self.entries.iter().for_each(|entry| w.put(entry));
        });
    }
}

impl Decode for ClusterLog {
    const MIN_BYTES: usize = 18;

    fn decode(r: &mut Reader<'_>) -> Result<ClusterLog, DecodeError> {
        let (_, mut r) = r.versioned("cluster log", 1)?;
        let log = ClusterLog { last_index: r.u64()?, entries: r.get::<Vec<LogEntry>>()?.into() };
        if (log.entries.len() as u64) > log.last_index {
            return Err(DecodeError::Value { what: "newest line of the cluster log", value: log.last_index });
        }
        Ok(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tail_is_kept() {
        let mut log = ClusterLog::default();
        for i in 1..=LOG_ENTRIES_MAX + 5 {
            log.push(LogEntry { message: i.to_string(), ..LogEntry::default() });
        }
        assert_eq!(log.entries.len(), LOG_ENTRIES_MAX);
        let since = |from| log.since(from).map(|e| e.message.as_str()).collect::<Vec<_>>();
        assert_eq!(since(0).first(), Some(&"6"));
        assert_eq!(since(1004), ["1004", "1005"]);
        assert!(since(1006).is_empty());
        assert_eq!(ClusterLog::from_slice(&log.to_vec(Default::default())).unwrap(), log);
        assert_eq!(ClusterLog::default().since(0).count(), 0);
    }
}
