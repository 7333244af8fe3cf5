//! Snapshots: taken by the state machine, and sent in chunks to followers that lack entries which the log no longer
//! has.

use crate::bug::{self, Bug};
use crate::progress::Pace;
use crate::raft::{Raft, Role};
use crate::replication::said;
use crate::{Membership, Message, Persist, Position, ServerId, Snapshot};
use bytes::Bytes;
use std::time::Duration;

/// A snapshot of which the first bytes have come. Takes no more memory than those.
#[derive(Debug)]
pub(crate) struct Incoming {
    last: Position,
    total: u64,
    data: Vec<u8>,
}

impl Raft {
    /// Takes a snapshot: `data` is the state machine after the entry at `index`, which it has taken. From now on the
    /// snapshot stands for the log up to there, whose end may still be kept for followers that lag a little.
    ///
    /// Panics if `index` was not applied yet. A snapshot that is older than the last one is ignored.
    pub fn snapshot_taken(&mut self, index: u64, data: Bytes) {
        assert!(index <= self.applied, "{}: a snapshot at {index}, but only {} is applied", self.id, self.applied);
        if self.snapshot.as_ref().is_some_and(|snapshot| snapshot.last.index >= index) {
            return;
        }
        let last = self.log.at(index).expect("what was applied behind the last snapshot is in the log");
        let snapshot = Snapshot { last, membership: self.log.membership_at(index).clone(), data };
        self.snapshot = Some(snapshot.clone());
        let through = self.log.index_before_last_bytes(self.config.kept_bytes).min(index);
        self.persist(Persist::Snapshot { snapshot, keep_from: Some(through.min(index) + 1) });
        self.log.compact(through);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(crate) fn snapshot_chunk(
        &mut self,
        now: Duration,
        from: ServerId,
        last: Position,
        membership: Membership,
        total: u64,
        offset: u64,
        data: &[u8],
        sent: u64,
    ) {
        if total > self.config.snapshot_bytes_max || offset.checked_add(data.len() as u64).is_none_or(|end| end > total)
        {
            return;
        }
        self.hear_leader(now, from);
        if last.index <= self.commit {
            // The server has the snapshot's state already, or a later one.
            self.incoming = None;
            self.agree(from, last.index, sent);
            return self.acknowledge_now();
        }
        let is_other = |incoming: &Incoming| incoming.last != last || incoming.total != total;
        if self.incoming.as_ref().is_none_or(is_other) {
            self.incoming = Some(Incoming { last, total, data: Vec::new() });
        }
        let incoming = self.incoming.as_mut().expect("it was just made");
        if offset == incoming.data.len() as u64 {
            incoming.data.extend_from_slice(data);
        }
        let received = incoming.data.len() as u64;
        if received < total {
            let term = self.vote.term;
            return self.send(from, Message::SnapshotReceived { term, last, received, sent });
        }
        let data = Bytes::from(self.incoming.take().expect("it is complete").data);
        self.install(Snapshot { last, membership, data });
        self.agree(from, last.index, sent);
        self.acknowledge_now();
    }

    /// Takes over a snapshot that is ahead of the known decisions.
    fn install(&mut self, snapshot: Snapshot) {
        let (last, decided) = (snapshot.last, self.commit);
        let mut membership = snapshot.membership.clone();
        if bug::is(Bug::SnapshotKeepsMembers) {
            membership = self.log.membership().clone();
        }
        let is_in_log = self.log.at(last.index) == Some(last) || bug::is(Bug::SnapshotKeepsLog);
        if is_in_log && last.index <= self.log.last().index {
            self.persist_install(snapshot.clone(), Some(last.index + 1));
            self.log.compact(last.index);
        } else {
            self.reset_log(last, membership, decided);
            self.persist_install(snapshot.clone(), None);
        }
        self.commit = last.index;
        self.snapshot = Some(snapshot);
    }

    pub(crate) fn snapshot_received(&mut self, now: Duration, from: ServerId, last: Position, now_has: u64, sent: u64) {
        let Role::Leader(leading) = &mut self.role else { return };
        let Some(peer) = leading.peers.get_mut(&from) else { return };
        peer.answered(said(sent, now));
        if let Pace::Snapshot { snapshot, received, asked } = &mut peer.pace {
            // An answer to a chunk before the last one would have that sent twice, unless the answer brings news.
            let is_news = now_has > *received || *asked == Some(sent);
            if snapshot.last == last && is_news && now_has <= snapshot.data.len() as u64 {
                *received = now_has;
                *asked = None;
            }
        }
    }
}
