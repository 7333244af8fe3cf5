//! Hands messages to the shards, and carries out orders that come from shards.

use super::Running;
use crate::failure::Failure;
use crate::shards::others::{Answered, Early, EarlyFrom};
use crate::shards::{FromWorker, ToWorker};
use pg::as_one::Delivery;
use pg::messages::kind_name;
use pg::{Output, route};
use reactor::Io;
use std::sync::Arc;
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::messages;
use wire::msgr::SessionId;
use wire::nacre::long::{goes_whole, in_parts, is_too_long};
use wire::{DecodeError, Envelope};

impl Running {
    /// Hands a client's operation to the shard that has its group.
    pub(super) fn client_op(
        &mut self,
        session: SessionId,
        envelope: &Envelope,
        began: Duration,
    ) -> Result<(), DecodeError> {
        if self.others.is_empty() {
            return self.shard.client_op(session, envelope, began);
        }
        let (pg, needed) = route::of_client_op(envelope)?;
        let newest = self.shard.newest_epoch();
        route::check_epoch(needed, newest).inspect_err(|_| self.ask_for_maps(newest.next()))?;
        match self.shard.homes().of(pg) {
            // Operations of a group that does not exist, or no longer does, go to this shard, too. It sends the client
            // the map that tells so.
            Some(0) => self.shard.client_op(session, envelope, began),
            None if needed <= self.shard.map().epoch => self.shard.client_op(session, envelope, began),
            Some(shard) => {
                self.others.tell(shard, ToWorker::ClientOp { session, envelope: envelope.clone(), began });
                Ok(())
            }
            None => {
                let from = EarlyFrom::Client(session);
                self.came_early(Early { needed, envelope: envelope.clone(), began, from });
                Ok(())
            }
        }
    }

    /// Hands a client's message about a backoff to the shard that asked for the backoff.
    pub(super) fn client_backoff(&mut self, session: SessionId, envelope: &Envelope) -> Result<(), DecodeError> {
        match route::of_backoff(envelope)? {
            0 => self.shard.client_backoff(session, envelope),
            shard if shard < self.others.shards() => {
                self.others.tell(shard, ToWorker::ClientBackoff { session, envelope: envelope.clone() });
                Ok(())
            }
            // No shard asked for this backoff.
            _ => Ok(()),
        }
    }

    /// Keeps a message that needs a newer map. Asks for the map unless it has come already.
    pub(super) fn came_early(&mut self, early: Early) {
        let is_here = early.needed <= self.shard.newest_epoch();
        self.others.keep_early(early);
        if !is_here {
            self.ask_for_maps(self.shard.newest_epoch().next());
        }
    }

    pub(super) fn ask_for_maps(&mut self, from: Epoch) {
        if self.asked_from != Some(from) {
            self.asked_from = Some(from);
            self.monitor.subscribe(&mut self.public.messenger, from);
        }
    }

    /// Hands a message of another OSD, or of another shard of this OSD, to the shards that it concerns.
    pub(super) fn osd_message(&mut self, from: OsdId, envelope: &Envelope, began: Duration) -> Result<(), DecodeError> {
        let Some(as_one) = self.others.as_one() else { return self.shard.peer_message(from, envelope, began) };
        match as_one.deliver(self.shard.homes(), self.shard.map().epoch, from, envelope)? {
            Delivery::Later(needed) => {
                let newest = self.shard.newest_epoch();
                // A shard that is ahead tells the others of its own OSD no more than its clients ask for.
                if from != self.shard.whoami() {
                    route::check_epoch(needed, newest).inspect_err(|_| self.ask_for_maps(newest.next()))?;
                    self.others.has_room_for_early(from, envelope)?;
                }
                let (envelope, from) = (envelope.clone(), EarlyFrom::Osd(from));
                self.came_early(Early { needed, envelope, began, from });
            }
            Delivery::Shards(deliveries) => {
                for (shard, envelope) in deliveries {
                    match shard {
                        0 => self.shard.peer_message(from, &envelope, began)?,
                        _ => self.others.tell(shard, ToWorker::FromOsd { from, envelope, began }),
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn bad_osd(&mut self, from: OsdId, kind: u16, why: &DecodeError) {
        tracing::error!(%from, kind = kind_name(kind), "malformed message: {why}; session closed");
        self.end_peer_session(from);
    }

    /// Ends the session with another OSD, if there is one.
    pub(super) fn end_peer_session(&mut self, osd: OsdId) {
        if let Some(session) = self.peers.session_of(osd) {
            self.cluster.messenger.close(session);
            self.peers.reset(session);
            self.peer_session_ended(osd);
        }
    }

    /// The session with another OSD has ended, with all messages that were on their way in it. Groups of which both
    /// OSDs are members learn this before any message that comes or goes in a later session.
    pub(super) fn peer_session_ended(&mut self, osd: OsdId) {
        self.others.drop_early(osd);
        self.others.tell_all(|| ToWorker::SessionEnded { osd });
        self.shard.session_ended(osd);
    }

    /// Handles the messages of workers. Returns the reason if the OSD must stop.
    pub(super) fn take_from_workers(&mut self, io: &impl Io) -> Option<Failure> {
        let now = io.now();
        for (shard, message) in self.others.take() {
            let answered = match message {
                FromWorker::Out(output) => {
                    if let Some(why) = self.route_one(now, shard, output) {
                        return Some(why);
                    }
                    None
                }
                FromWorker::Failed(why) => return Some(why),
                FromWorker::Opened { .. } => panic!("a store is opened once"),
                FromWorker::BadClient { session, kind, why } => {
                    self.close_client(session, kind, &why);
                    None
                }
                FromWorker::BadOsd { osd, kind, why } => {
                    self.bad_osd(osd, kind, &why);
                    None
                }
                FromWorker::InForce(epoch) => {
                    self.others.in_force(shard, epoch);
                    self.map_is_new = true;
                    None
                }
                FromWorker::Beacon(beacon) => {
                    self.others.beacon_came(shard, beacon);
                    None
                }
                FromWorker::Facts { id, facts } => self.others.facts_came(id, *facts),
                FromWorker::PgReply { id, reply } => self.others.reply_came(id, reply),
                FromWorker::Idle => {
                    self.others.idle_came(shard);
                    None
                }
            };
            match answered {
                None => {}
                Some(Answered::Facts { asker, told, facts }) => self.answer_command(io, asker, told, &facts),
                Some(Answered::Reply { asker, reply }) => asker.answer(&mut self.public.messenger, *reply),
            }
        }
        None
    }

    pub(super) fn maps_came(&mut self, maps: messages::OsdMap) {
        let maps = Arc::new(maps);
        self.commands.oldest_map = maps.oldest;
        // Workers get the maps before any message about groups of these maps.
        self.others.tell_all(|| ToWorker::Maps(maps.clone()));
        if let Err(e) = self.shard.osd_maps(&maps) {
            tracing::error!("maps from the monitor are not usable: {e}");
        }
        self.follow_map();
    }

    /// Brings maps that came earlier into force, as far as one turn allows.
    pub(super) fn maps_go_on(&mut self) {
        let epoch = self.shard.map().epoch;
        self.shard.follow_maps();
        if self.shard.map().epoch != epoch {
            self.follow_map();
        }
    }

    /// Does all that the map in force makes possible.
    fn follow_map(&mut self) {
        self.map_is_new = true;
        let map = self.shard.map().clone();
        self.peers.follow_map(&mut self.cluster.messenger, &map);
        self.turn_out_purged(&map);
        for Early { needed, envelope, began, from } in self.others.take_early(map.epoch) {
            let outcome = match from {
                EarlyFrom::Client(session) => self.client_op(session, &envelope, began).map_err(|e| {
                    self.close_client(session, envelope.header.kind, &e);
                }),
                EarlyFrom::Osd(osd) => self.osd_message(osd, &envelope, began).map_err(|e| {
                    self.bad_osd(osd, envelope.header.kind, &e);
                }),
            };
            if outcome.is_ok() {
                tracing::trace!(epoch = needed.0, "a message that came before its map goes on");
            }
        }
    }

    /// Carries out the first shard's outputs. Returns the reason if the OSD must stop.
    pub(super) fn route(&mut self, now: Duration) -> Option<Failure> {
        let mut outputs = self.shard.take_outputs();
        let failure = outputs.drain(..).find_map(|output| self.route_one(now, 0, output));
        self.shard.reuse_outputs(outputs);
        failure
    }

    /// Carries out one output of a shard. Returns the reason if the OSD must stop.
    pub(super) fn route_one(&mut self, now: Duration, shard: usize, output: Output) -> Option<Failure> {
        match output {
            Output::ToClient { session, envelope } => self.public.messenger.send(session, envelope),
            Output::ToOsd { osd, envelope } if osd == self.shard.whoami() => {
                // This message goes from one of the OSD's shards to another.
                if let Err(why) = self.osd_message(osd, &envelope, now) {
                    return Some(Failure::MessageBetweenShards { shard, why });
                }
            }
            Output::ToOsd { osd, envelope } => {
                let map = self.shard.map();
                let envelope = match self.others.as_one() {
                    None => Some(envelope),
                    Some(as_one) => match as_one.send(shard, map, osd, envelope, now) {
                        Ok(envelope) => envelope,
                        Err(why) => return Some(Failure::Message { shard, why }),
                    },
                };
                if let Some(envelope) = envelope
                    && let Some(session) = self.peers.session(&mut self.cluster.messenger, map, osd, now)
                {
                    if is_too_long(&envelope) {
                        let (kind, bytes) =
                            (kind_name(envelope.header.kind), envelope.front.len() + envelope.data.len());
                        tracing::error!(%osd, kind, bytes, "message is too long for any session; session closed");
                        self.end_peer_session(osd);
                        return None;
                    }
                    if goes_whole(&envelope, self.message_bytes) {
                        self.cluster.messenger.send(session, envelope);
                    } else {
                        let parts = in_parts(envelope, self.message_bytes).into_iter();
                        parts.for_each(|part| self.cluster.messenger.send(session, part));
                    }
                }
            }
            Output::ToMonitor { envelope } => self.monitor.send(&mut self.public.messenger, envelope),
            Output::ToClusterLog { priority, message, stamp } => self.tell_cluster(priority, message, stamp),
            // A shard that is behind the first one lacks only maps that are on their way to it.
            Output::NeedMaps { from } if shard == 0 || from > self.shard.newest_epoch() => self.ask_for_maps(from),
            Output::NeedMaps { .. } => {}
            Output::Fatal(why) => return Some(Failure::Shard(why)),
        }
        None
    }
}
