//! Updates on their way to members, and their acknowledgements.

use super::PeerKind;
use super::interval::PgInterval;
use super::steps::{decode_steps, encode_steps};
use crate::coded::undo::Undo;
use crate::group::info::PgInfo;
use crate::group::log::LogEntry;
use crate::hops::MemberHops;
use store::Step;
use types::EVersion;
use wire::{DecodeError, Header, Message, Reader, Rope, Writer};

/// Primary to member: make this update durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepOp {
    pub pg: PgInterval,
    pub entry: LogEntry,
    /// Entries of states of the object that come or go with the update. They come before its own entry and follow each
    /// other.
    pub others: Vec<LogEntry>,
    /// The group's information after the update.
    pub info: PgInfo,
    /// Every member has all updates up to here durably.
    pub committed: EVersion,
    pub steps: Vec<Step>,
    /// The acknowledgement is to tell how long it took ([`MemberHops`]).
    pub hops_wanted: bool,
}

impl Message for RepOp {
    const TYPE: u16 = PeerKind::RepOp.number();

    fn encode_front(&self, w: &mut Writer) {
        // Version 2 adds the wish, which few updates have: the others are as they were. Version 3 adds entries, without
        // which an update is not whole. Version 4 has such as must be renamed, as other shards' ones.
        // Version 5 has bytes that are added to an object's.
        let adds = self.steps.iter().any(|step| matches!(step, Step::Xor { .. }));
        let (version, oldest) = match (self.others.is_empty(), self.hops_wanted) {
            _ if adds => (5, 5),
            (true, false) => (1, 1),
            (true, true) => (2, 1),
            (false, _) if self.others.iter().all(|entry| entry.undo == Undo::Nothing) => (3, 3),
            (false, _) => (4, 4),
        };
        w.versioned(version, oldest, |w| {
            w.put(&self.pg);
            w.put(&self.entry);
            w.put(&self.info);
            w.put(&self.committed);
            encode_steps(&self.steps, w, &mut Rope::new());
            if version >= 2 {
                w.bool(self.hops_wanted);
            }
            if version >= 3 {
                w.put(&self.others);
            }
        });
    }

    fn take_data(&mut self) -> Rope {
        let mut payload = Rope::new();
        for step in &mut self.steps {
            if let Step::Write { data, .. } | Step::Xor { data, .. } = step {
                payload.append(std::mem::take(data));
            }
        }
        payload
    }

    fn decode(_: &Header, front: &mut Reader<'_>, data: &Rope) -> Result<RepOp, DecodeError> {
        let (version, mut r) = front.versioned("RepOp", 5)?;
        Ok(RepOp {
            pg: r.get()?,
            entry: r.get()?,
            info: r.get()?,
            committed: r.get()?,
            steps: decode_steps(&mut r, data)?,
            hops_wanted: version.version >= 2 && r.bool()?,
            others: if version.version >= 3 { r.get()? } else { Vec::new() },
        })
    }
}

/// Member to primary: durable up to these versions, per group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepOpReply {
    pub durable: Vec<(PgInterval, EVersion)>,
    /// Times that single updates took here: updates for which that was wanted, and slow ones.
    pub hops: Vec<((PgInterval, EVersion), MemberHops)>,
}

impl Message for RepOpReply {
    const TYPE: u16 = PeerKind::RepOpReply.number();

    fn encode_front(&self, w: &mut Writer) {
        // Version 2 adds the hops, which few acknowledgements have: the others are as they were.
        w.versioned(1 + u8::from(!self.hops.is_empty()), 1, |w| {
            w.put(&self.durable);
            if !self.hops.is_empty() {
                w.put(&self.hops);
            }
        });
    }

    fn decode(_: &Header, front: &mut Reader<'_>, _: &Rope) -> Result<RepOpReply, DecodeError> {
        let (version, mut r) = front.versioned("RepOpReply", 2)?;
        let durable = r.get()?;
        Ok(RepOpReply { durable, hops: if version.version >= 2 { r.get()? } else { Vec::new() } })
    }
}
