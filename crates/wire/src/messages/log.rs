//! The cluster log.

use super::paxos::{get_head, put_head};
use crate::addr::EntityAddrVec;
use crate::basic::AuthName;
use crate::envelope::{Header, Message};
use crate::{Decode, DecodeError, Encode, Reader, Rope, Writer};
use types::{EntityName, Fsid, Utime};

/// Severity of an entry. The numbers are the protocol's.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LogPriority(pub u16);

impl LogPriority {
    pub const DEBUG: LogPriority = LogPriority(0);
    pub const INFO: LogPriority = LogPriority(1);
    pub const SECURITY: LogPriority = LogPriority(2);
    pub const WARN: LogPriority = LogPriority(3);
    pub const ERROR: LogPriority = LogPriority(4);

    /// The level as the log shows it: `[INF]`.
    pub const fn tag(self) -> &'static str {
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

/// One line of the cluster log. Ceph's `LogEntry`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct LogEntry {
    pub name: AuthName,
    pub rank: EntityName,
    pub addrs: EntityAddrVec,
    pub stamp: Utime,
    /// Number of the entry among those of its sender.
    pub seq: u64,
    pub priority: LogPriority,
    pub message: String,
    /// `cluster`, `audit` or another channel.
    pub channel: String,
}

impl Encode for LogEntry {
    fn encode(&self, w: &mut Writer) {
        w.versioned(5, 5, |w| {
            w.put(&self.name);
            w.put(&self.rank);
            w.put(&self.addrs);
            w.put(&self.stamp);
            w.u64(self.seq);
            w.u16(self.priority.0);
            w.str(&self.message);
            w.str(&self.channel);
        });
    }
}

impl Decode for LogEntry {
    const MIN_BYTES: usize = 54;

    fn decode(r: &mut Reader<'_>) -> Result<LogEntry, DecodeError> {
        let (head, mut r) = r.versioned("log entry", 5)?;
        if head.version < 5 {
            return Err(DecodeError::TooOld { what: "log entry", version: head.version, oldest: 5 });
        }
        Ok(LogEntry {
            name: r.get()?,
            rank: r.get()?,
            addrs: r.get()?,
            stamp: r.get()?,
            seq: r.u64()?,
            priority: LogPriority(r.u16()?),
            message: r.get()?,
            channel: r.get()?,
        })
    }
}

/// Entries for the cluster log; also sent to subscribers of the log. Ceph's `MLog`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Log {
    pub have: u64,
    pub fsid: Fsid,
    pub entries: Vec<LogEntry>,
}

impl Message for Log {
    const TYPE: u16 = 52;

    fn encode_front(&self, w: &mut Writer) {
        put_head(w, self.have);
        w.put(&self.fsid);
        w.put(&self.entries);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<Log, DecodeError> {
        Ok(Log { have: get_head(r)?, fsid: r.get()?, entries: r.get()? })
    }
}

/// Tells that entries up to `last` are safe, so that the sender may forget them. Ceph's `MLogAck`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct LogAck {
    pub fsid: Fsid,
    pub last: u64,
    pub channel: String,
}

impl Message for LogAck {
    const TYPE: u16 = 53;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.fsid);
        w.u64(self.last);
        w.str(&self.channel);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<LogAck, DecodeError> {
        Ok(LogAck { fsid: r.get()?, last: r.u64()?, channel: r.get()? })
    }
}
