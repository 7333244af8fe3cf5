//! Objects that are copied: questions to other OSDs, as a client asks them, and their answers.

use super::Shard;
use crate::context::{ClientSession, Output};
use crate::hops::OpTimes;
use crate::messages::route;
use crate::rights::ClientRights;
use std::sync::Arc;
use std::time::Duration;
use types::{EntityName, Epoch, OsdId};
use wire::messages::{OsdOp, OsdOpReply};
use wire::msgr::SessionId;
use wire::{EntityAddr, Envelope, Message, Target};

/// First number of the sessions over which other OSDs, and this one, are clients of this OSD; numbers of real sessions
/// are counted from below.
const OSD_SESSIONS: u64 = 1 << 62;

pub(super) fn session_of(osd: OsdId) -> SessionId {
    SessionId(OSD_SESSIONS + u64::from(osd.0.unsigned_abs()))
}

/// Tells whether another OSD asks over that session.
pub(crate) fn is_osds(session: SessionId) -> bool {
    osd_of(session).is_some()
}

pub(super) fn osd_of(session: SessionId) -> Option<OsdId> {
    let number = session.0.checked_sub(OSD_SESSIONS)?;
    i32::try_from(number).ok().map(OsdId)
}

impl Output {
    /// Returns the bytes that an answer to a client holds until the network has taken it; 0 for all else, answers to
    /// other OSDs included, which have memory of their own.
    pub fn answer_bytes(&self) -> usize {
        match self {
            Output::ToClient { session, envelope } if !is_osds(*session) => envelope.front.len() + envelope.data.len(),
            _ => 0,
        }
    }
}

impl Shard {
    /// Takes another OSD's question for an object, which it asks as a client does.
    pub(super) fn osd_asks(&mut self, from: OsdId, tid: u64, op: OsdOp, began: Duration) {
        self.asks_itself |= from == self.host.whoami;
        let name = EntityName::osd(from);
        // The asking OSD has its maps from the monitors. Where clients are asked to hold back it is told to ask later.
        let asking = ClientSession {
            name,
            addr: EntityAddr::BLANK,
            epoch: Epoch(u32::MAX),
            takes_backoffs: true,
            rights: Arc::new(ClientRights::Everything),
        };
        self.host.clients.insert(session_of(from), asking);
        // The question never waits here, however full this OSD is of what clients have sent.
        self.dispatch_op(session_of(from), tid, op, OpTimes::new(began, self.host.now));
    }

    /// Takes another OSD's answer to question `tid`.
    pub(super) fn osd_answers(&mut self, tid: u64, reply: &OsdOpReply) {
        let ended = self.host.shared.copies.answered(tid, reply);
        self.host.shared.coded_reads.done.extend(ended.map(|(id, content)| (id, Ok(content))));
    }

    /// Asks what is to be asked, and takes this OSD's answers to its own questions.
    pub(super) fn copy_on(&mut self) {
        loop {
            while let Some((osd, tid, op)) =
                self.host.shared.copies.poll(self.host.whoami, self.host.maps.current(), self.host.now)
            {
                match osd == self.host.whoami && self.is_home_of(op.pgid.pg) {
                    true => self.osd_asks(osd, tid, op, self.host.now),
                    false => {
                        self.host.outbox.outputs.push(Output::ToOsd { osd, envelope: op.seal(tid, Target::default()) })
                    }
                }
            }
            if !self.asks_itself {
                return;
            }
            let whoami = session_of(self.host.whoami);
            // The others are answers to other shards of this OSD.
            let index = self.index;
            let asked_here = |envelope: &Envelope| route::shard_that_asked(envelope) == index;
            let is_own = |output: &mut Output| matches!(output, Output::ToClient { session, envelope } if *session == whoami && asked_here(envelope));
            let own: Vec<Output> = self.host.outbox.outputs.extract_if(.., is_own).collect();
            if own.is_empty() {
                return;
            }
            for output in own {
                let Output::ToClient { envelope, .. } = output else { continue };
                let reply = OsdOpReply::open(&envelope).expect("our own");
                self.osd_answers(envelope.header.tid, &reply);
            }
        }
    }

    /// Has answers to questions of other OSDs go to these, over the sessions between OSDs.
    pub(super) fn address_answers(&mut self) {
        for output in &mut self.host.outbox.outputs {
            if let Output::ToClient { session, envelope } = output
                && let Some(osd) = osd_of(*session)
            {
                let envelope = std::mem::take(envelope);
                *output = Output::ToOsd { osd, envelope };
            }
        }
    }

    /// Forgets questions of OSDs that are down by the map: they ask again if they are not.
    pub(super) fn forget_questions(&mut self) {
        let map = self.host.maps.current();
        let is_down = |session: &SessionId| osd_of(*session).is_some_and(|osd| !map.is_up(osd));
        let gone: Vec<SessionId> =
            self.host.clients.range(session_of(OsdId(0))..).map(|(session, _)| *session).filter(is_down).collect();
        gone.into_iter().for_each(|session| self.client_closed(session));
    }

    /// Asks again for copies that wait for long, and ends those that take too long. To be called about once a second.
    pub(super) fn copies_tick(&mut self) {
        let ended = self.host.shared.copies.tick(self.host.now);
        self.host.shared.coded_reads.done.extend(ended.into_iter().map(|(id, content)| (id, Ok(content))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_osds_take_nothing_of_clients_memory() {
        let envelope = Envelope { front: vec![0; 10].into(), data: vec![1; 200].into(), ..Envelope::default() };
        let bytes = |session| Output::ToClient { session, envelope: envelope.clone() }.answer_bytes();
        assert_eq!((bytes(SessionId(3)), bytes(session_of(OsdId(3)))), (210, 0));
        assert_eq!(Output::ToOsd { osd: OsdId(3), envelope: envelope.clone() }.answer_bytes(), 0);
    }
}
