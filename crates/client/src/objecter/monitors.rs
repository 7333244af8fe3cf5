//! The conversation with the monitors: subscriptions, requests, answers.

use super::mon_request::{Asked, Asker, CommandReply, MonAnswer, MonRequest};
use super::request::OpState;
use super::{Answer, Objecter, Sessions};
use crate::error::Error;
use std::time::Duration;
use types::{Epoch, Errno};
use wire::messages::{self as msg, Subscription};
use wire::msgr::SessionId;
use wire::{EntityAddrVec, Envelope, Message, Target as WireTarget};

impl<C> Objecter<C> {
    pub(super) fn subscribe(&mut self, session: SessionId, link: &mut impl Sessions) {
        let start = |have: u32| if have == 0 { 0 } else { u64::from(have) + 1 };
        let from = |have: u32| Subscription { start: start(have), onetime: false };
        let what = [("monmap", from(self.mon_map_epoch)), ("osdmap", from(self.epoch().0))];
        let what = what.into_iter().map(|(name, sub)| (name.to_owned(), sub)).collect();
        let message = msg::MonSubscribe { what, hostname: self.settings.hostname.clone() };
        link.send(session, message.seal(0, WireTarget::default()));
    }

    pub(super) fn ask_as(&mut self, request: MonRequest, asker: Asker<C>, link: &mut impl Sessions, now: Duration) {
        let tid = self.next_tid();
        let asked = Asked { asker, request, since: now, reached_with: None };
        self.asked.insert(tid, asked);
        self.send_asked(tid, link);
    }

    fn send_asked(&self, tid: u64, link: &mut impl Sessions) {
        let (Some(session), Some(fsid)) = (self.mon.session(), self.fsid) else { return };
        let asked = &self.asked[&tid];
        if asked.reached_with.is_none() {
            link.send(session, asked.request.seal(tid, fsid, self.epoch()));
        }
    }

    pub(super) fn ask_all_again(&self, link: &mut impl Sessions) {
        self.asked.keys().for_each(|tid| self.send_asked(*tid, link));
    }

    pub(super) fn mon_map(&mut self, envelope: &Envelope, link: &mut impl Sessions) -> Result<(), wire::DecodeError> {
        let map: osdmap::MonMap = wire::Decode::from_slice(&msg::MonMap::open(envelope)?.map)?;
        if self.fsid.is_some_and(|fsid| fsid != map.fsid) || map.epoch.0 <= self.mon_map_epoch {
            return Ok(());
        }
        self.mon_map_epoch = map.epoch.0;
        let addrs: Vec<EntityAddrVec> = map.mons.values().map(|mon| mon.addrs.clone()).collect();
        if !addrs.is_empty() {
            self.mon.set_candidates(addrs);
        }
        self.learn_fsid(map.fsid, link);
        Ok(())
    }

    pub(super) fn mon_answer(
        &mut self,
        envelope: &Envelope,
        link: &mut impl Sessions,
        now: Duration,
    ) -> Result<(), wire::DecodeError> {
        let tid = envelope.header.tid;
        let answer = match envelope.header.kind {
            msg::MonCommandAck::TYPE => {
                let ack = msg::MonCommandAck::open(envelope)?;
                let output = ack.output.into_bytes();
                MonAnswer::Command(CommandReply { result: ack.result, status: ack.status, output })
            }
            msg::MonGetVersionReply::TYPE => MonAnswer::Version(msg::MonGetVersionReply::open(envelope)?.version),
            msg::StatfsReply::TYPE => MonAnswer::Statfs(msg::StatfsReply::open(envelope)?),
            msg::GetPoolStatsReply::TYPE => MonAnswer::PoolStats(msg::GetPoolStatsReply::open(envelope)?.stats),
            msg::PoolOpReply::TYPE => return self.pool_op_reply(tid, envelope, link, now),
            _ => return Ok(()),
        };
        if self.asked.contains_key(&tid) {
            self.answered(tid, Ok(answer), link, now);
        }
        Ok(())
    }

    /// Handles the reply to a pool operation, which is complete when the map that shows it has come.
    fn pool_op_reply(
        &mut self,
        tid: u64,
        envelope: &Envelope,
        link: &mut impl Sessions,
        now: Duration,
    ) -> Result<(), wire::DecodeError> {
        let reply = msg::PoolOpReply::open(envelope)?;
        let epoch = self.epoch();
        let Some(asked) = self.asked.get_mut(&tid) else { return Ok(()) };
        if let Some(errno) = Errno::from_result(reply.result) {
            self.answered(tid, Err(errno.into()), link, now);
        } else if reply.epoch <= epoch {
            self.answered(tid, Ok(MonAnswer::PoolOp(reply.response)), link, now);
        } else {
            asked.reached_with = Some((reply.epoch, reply.response));
        }
        Ok(())
    }

    pub(super) fn answered(
        &mut self,
        tid: u64,
        result: Result<MonAnswer, Error>,
        link: &mut impl Sessions,
        now: Duration,
    ) {
        let asked = self.asked.remove(&tid).expect("answered() for a request under way");
        match asked.asker {
            Asker::User(completion) => self.finish(completion, result.map(Answer::Mon)),
            Asker::PoolCheck(op_tid) => {
                let Some(op) = self.ops.get_mut(&op_tid) else { return };
                if !matches!(op.state, OpState::CheckingPool { .. }) {
                    return;
                }
                match result {
                    Ok(MonAnswer::Version(version)) => {
                        let missing_in = Some(Epoch(u32::try_from(version).unwrap_or(u32::MAX)));
                        op.state = OpState::CheckingPool { missing_in };
                        self.reconsider(op_tid, link, now);
                    }
                    Ok(_) => self.complete(op_tid, Err(Error::Answer("another answer than the version".into()))),
                    Err(error) => self.complete(op_tid, Err(error)),
                }
            }
        }
    }
}
