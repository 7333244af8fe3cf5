//! Messages of clients, and their handlers.

use super::manager_clients::{MgrClose, MgrOpen, MgrReport};
use super::proposals::{AnswerKind, CommandRequest, PendingAnswer};
use super::subscriptions::Subscription;
use super::{Monitor, MonitorAction, Now};
use crate::bounds::{COMMAND_INPUT_BYTES_MAX, COMMAND_WORDS_BYTES_MAX, NAME_BYTES_MAX, cut};
use crate::commands;
use std::collections::BTreeMap;
use tracing::{debug, info, warn};
use types::{Errno, PoolId};
use wire::messages as msg;
use wire::msgr::SessionId;
use wire::nacre::mon as nacre;
use wire::nacre::quorum;
use wire::{DecodeError, Envelope, Message};

impl Monitor {
    pub(super) fn message(&mut self, now: Now, session: SessionId, envelope: &Envelope, out: &mut Vec<MonitorAction>) {
        if self.sessions.get(&session).is_none_or(|known| known.is_ending) {
            return;
        }
        if let Err(e) = self.dispatch(now, session, envelope, out) {
            let peer = &self.sessions[&session].peer;
            let kind = envelope.header.kind;
            info!("{} at {}: closing its session, cannot read its message of type {kind}: {e}", peer.name, peer.addrs);
            self.sessions.remove(&session);
            out.push(MonitorAction::Close { session });
        }
    }

    fn dispatch(
        &mut self,
        now: Now,
        session: SessionId,
        envelope: &Envelope,
        out: &mut Vec<MonitorAction>,
    ) -> Result<(), DecodeError> {
        let (kind, tid) = (envelope.header.kind, envelope.header.tid);
        if !self.may_send(session, kind) {
            return Ok(());
        }
        if [msg::MonCommand::TYPE, msg::PoolOp::TYPE].contains(&kind)
            && self.late.is_late(&self.sessions[&session], (kind, tid))
        {
            let peer = &self.sessions[&session].peer;
            info!("{} at {}: request {tid} was asked again by a later session and is dropped", peer.name, peer.addrs);
            return Ok(());
        }
        match kind {
            msg::MonGetMap::TYPE => self.send(session, tid, self.monmap_message(), out),
            msg::MonSubscribe::TYPE => self.subscribe(session, Message::open(envelope)?, out),
            msg::MonGetVersion::TYPE => self.get_version(session, tid, Message::open(envelope)?, out),
            msg::MonCommand::TYPE => self.mon_command(now, session, tid, Message::open(envelope)?, out),
            msg::Command::TYPE => {
                let msg::Command { fsid, cmd, input } = Message::open(envelope)?;
                self.daemon_command(now, (session, tid, AnswerKind::Daemon), fsid, cmd, input, out);
            }
            msg::MgrCommand::TYPE => {
                let msg::MgrCommand { fsid, cmd, input } = Message::open(envelope)?;
                self.daemon_command(now, (session, tid, AnswerKind::Manager), fsid, cmd, input, out);
            }
            msg::PoolOp::TYPE => {
                let op: msg::PoolOp = Message::open(envelope)?;
                if self.is_ours(session, op.fsid) {
                    self.pool_op(session, tid, op, out);
                }
            }
            msg::Statfs::TYPE => self.statfs(session, tid, Message::open(envelope)?, out),
            msg::GetPoolStats::TYPE => self.get_pool_stats(session, tid, Message::open(envelope)?, out),
            msg::GetConfig::TYPE => self.get_config(session, tid, Message::open(envelope)?, out),
            msg::MonGetOsdMap::TYPE => self.get_osd_map(session, tid, Message::open(envelope)?, out),
            msg::Log::TYPE => {
                let log: msg::Log = Message::open(envelope)?;
                if self.is_ours(session, log.fsid) {
                    self.proposals.log_for(session, log.entries);
                }
            }
            msg::Auth::TYPE => self.auth_request(now, session, tid, &Message::open(envelope)?, out),
            msg::Ping::TYPE => {
                let status = self.ping_status();
                self.send(session, tid, msg::Ping { status: Some(status) }, out);
            }
            MgrOpen::TYPE => self.mgr_open(session, tid, Message::open(envelope)?, out),
            MgrReport::TYPE => self.mgr_report(session, Message::open(envelope)?),
            MgrClose::TYPE => self.mgr_close(session, tid, Message::open(envelope)?, out),
            quorum::GlobalIdsGet::TYPE => self.proposals.want_global_ids_for(session),
            nacre::OsdBoot::TYPE => self.osd_boot(now, session, Message::open(envelope)?, out),
            nacre::OsdBeacon::TYPE => self.osd_beacon(now, session, Message::open(envelope)?),
            nacre::OsdFailure::TYPE => self.osd_failure(now, session, Message::open(envelope)?),
            nacre::OsdGoingDown::TYPE => self.osd_going_down(now, session, Message::open(envelope)?, out),
            nacre::PgHistoryGet::TYPE => self.pg_history_get(now, session, tid, Message::open(envelope)?, out),
            nacre::PgTemp::TYPE => self.pg_temp(now, session, Message::open(envelope)?),
            nacre::NewerMapGet::TYPE => self.newer_map(now, session, &Message::open(envelope)?),
            nacre::PgActivate::TYPE => self.pg_activate(session, Message::open(envelope)?),
            kind => {
                if self.ignored.insert(kind) {
                    let peer = &self.sessions[&session].peer;
                    info!("{}: ignoring messages of type {kind} ({})", peer.name, msg::kind_name(kind));
                }
            }
        }
        if [msg::MonGetMap::TYPE, msg::MonSubscribe::TYPE].contains(&kind) {
            self.give_what_is_due(now, session, out);
        }
        Ok(())
    }

    /// Returns true if a request names this cluster. A request that names another came here by mistake, and is dropped
    /// as Ceph does.
    fn is_ours(&self, session: SessionId, fsid: types::Fsid) -> bool {
        if fsid != self.state.fsid {
            debug!("{}: its request is for cluster {fsid}, dropped", self.sessions[&session].peer.name);
        }
        fsid == self.state.fsid
    }

    fn subscribe(&mut self, session: SessionId, message: msg::MonSubscribe, out: &mut Vec<MonitorAction>) {
        let Some(known) = self.sessions.get_mut(&session) else { return };
        known.host = message.hostname;
        cut(&mut known.host, NAME_BYTES_MAX);
        // No subscription has a longer name.
        for (what, wanted) in message.what.into_iter().filter(|(what, _)| what.len() <= NAME_BYTES_MAX) {
            if !known.may_subscribe(&what) {
                debug!("{}: has no right to hear of '{what}'", known.identity.name);
                continue;
            }
            known.subscriptions.want(&what, Subscription { next: wanted.start, once: wanted.onetime });
        }
        self.publish_to(session, out);
    }

    fn get_version(&self, session: SessionId, tid: u64, request: msg::MonGetVersion, out: &mut Vec<MonitorAction>) {
        let epoch = |epoch: types::Epoch| u64::from(epoch.0);
        let (version, oldest) = match request.what.as_str() {
            "osdmap" => (epoch(self.state.osdmap().epoch), epoch(self.state.osdmaps.oldest())),
            "monmap" => (epoch(self.state.monmap.epoch), 1),
            // Nacre has no maps of file systems.
            "fsmap" | "mdsmap" => (1, 1),
            "mgrmap" => (epoch(self.state.manager_epoch()), 1),
            other => return debug!("asked for the version of '{other}', of which there is none"),
        };
        let reply = msg::MonGetVersionReply { handle: request.handle, version, oldest };
        self.send(session, tid, reply, out);
    }

    fn mon_command(
        &mut self,
        now: Now,
        session: SessionId,
        tid: u64,
        request: msg::MonCommand,
        out: &mut Vec<MonitorAction>,
    ) {
        let known = &self.sessions[&session];
        let (from, global_seq, who) = (known.peer.name, known.peer.global_seq, Box::new(known.identity.clone()));
        let cmd = || request.cmd.iter().map(|command| commands::for_log(command)).collect::<Vec<_>>();
        debug!(%from, global_seq, tid, cmd = ?cmd(), leads = self.leads, "command");
        let fsid = request.fsid;
        let wrong_cluster = fsid != self.state.fsid;
        let too_large = is_too_large(&request.cmd, &request.input);
        let input = if too_large.is_some() { Default::default() } else { request.input.into_bytes() };
        let request = CommandRequest {
            session,
            tid,
            from,
            who,
            cmd: request.cmd,
            input,
            tell: false,
            answer: AnswerKind::Monitor,
        };
        if wrong_cluster {
            return self.refuse_of_other_cluster(request, fsid, out);
        }
        match too_large {
            Some(why) => self.refuse(request, Errno::E2BIG, why, out),
            None => self.command(now, request, out),
        }
    }

    fn refuse_of_other_cluster(&self, request: CommandRequest, fsid: types::Fsid, out: &mut Vec<MonitorAction>) {
        warn!(from = %request.from, theirs = %fsid, ours = %self.state.fsid, "a command for another cluster is refused");
        self.refuse(request, Errno::EPERM, "wrong fsid", out);
    }

    /// Handles a command to this monitor in person, or to it as the manager.
    fn daemon_command(
        &mut self,
        now: Now,
        (session, tid, answer): (SessionId, u64, AnswerKind),
        fsid: types::Fsid,
        cmd: Vec<String>,
        input: wire::Rope,
        out: &mut Vec<MonitorAction>,
    ) {
        let known = &self.sessions[&session];
        let (from, tell, who) = (known.peer.name, !known.is_at_manager, Box::new(known.identity.clone()));
        let wrong_cluster = fsid != self.state.fsid && !fsid.is_zero();
        let too_large = is_too_large(&cmd, &input);
        let input = if too_large.is_some() { Default::default() } else { input.into_bytes() };
        let request = CommandRequest { session, tid, from, who, cmd, input, tell, answer };
        if wrong_cluster {
            return self.refuse_of_other_cluster(request, fsid, out);
        }
        match too_large {
            Some(why) => self.refuse(request, Errno::E2BIG, why, out),
            None if tell => {
                let line = request.cmd.first().map(String::as_str).unwrap_or_default();
                let reply = self.told(now, from, &request.who, line);
                self.answer(PendingAnswer::Command(request, reply), out);
            }
            None => {
                let line = request.cmd.first().map(String::as_str).unwrap_or_default();
                let in_person = (answer == AnswerKind::Daemon).then(|| self.told_as_manager(&request.who, line));
                match in_person.flatten() {
                    Some(reply) => self.answer(PendingAnswer::Command(request, reply), out),
                    None => self.command(now, request, out),
                }
            }
        }
    }

    fn statfs(&self, session: SessionId, tid: u64, request: msg::Statfs, out: &mut Vec<MonitorAction>) {
        if !self.is_ours(session, request.fsid) {
            return;
        }
        let kib = |bytes: u64| bytes / 1024;
        let space = self.volatile.space();
        let reply = match request.pool {
            None => msg::StatfsReply {
                fsid: self.state.fsid,
                version: self.state.applied,
                kib: kib(space.total_bytes),
                kib_used: kib(space.total_bytes.saturating_sub(space.free_bytes)),
                kib_avail: kib(space.free_bytes),
                objects: self.volatile.totals(None).objects,
            },
            // Usage of a pool, and the space that could still be written to it.
            Some(pool) => {
                let totals = self.volatile.totals(Some(pool));
                let available = self.volatile.pool_available_bytes(self.state.osdmap(), pool).unwrap_or(0);
                msg::StatfsReply {
                    fsid: self.state.fsid,
                    version: self.state.applied,
                    kib: kib(totals.bytes.saturating_add(available)),
                    kib_used: kib(totals.bytes),
                    kib_avail: kib(available),
                    objects: totals.objects,
                }
            }
        };
        self.send(session, tid, reply, out);
    }

    fn get_pool_stats(&self, session: SessionId, tid: u64, request: msg::GetPoolStats, out: &mut Vec<MonitorAction>) {
        if !self.is_ours(session, request.fsid) {
            return;
        }
        let mut stats = BTreeMap::new();
        for name in request.pools {
            if let Some(pool) = self.state.osdmap().pool_by_name(&name) {
                stats.insert(name, self.pool_stat(pool));
            }
        }
        let reply =
            msg::GetPoolStatsReply { version: self.state.applied, fsid: self.state.fsid, stats, per_pool: true };
        self.send(session, tid, reply, out);
    }

    fn pool_stat(&self, pool: PoolId) -> msg::PoolStat {
        let totals = self.volatile.totals(Some(pool));
        let replicas = self.state.osdmap().pools.get(&pool).map_or(0, |pool| u64::from(pool.size));
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        msg::PoolStat {
            objects: msg::ObjectStats {
                num_bytes: count(totals.bytes),
                num_objects: count(totals.objects),
                num_object_clones: count(totals.clones),
                num_object_copies: count(totals.copies),
                num_objects_degraded: count(totals.degraded_copies),
                num_rd: count(totals.read_ops),
                num_rd_kb: count(totals.read_kib),
                num_wr: count(totals.write_ops),
                num_wr_kb: count(totals.write_kib),
                num_omap_bytes: count(totals.omap_bytes),
                num_omap_keys: count(totals.omap_keys),
                ..msg::ObjectStats::default()
            },
            log_size: count(totals.log_entries),
            ondisk_log_size: count(totals.log_entries),
            // Stores do not account allocation by pool: this is the size of its objects' copies, blocks not rounded up.
            store: msg::StoreStatfs {
                allocated: count(totals.bytes.saturating_mul(replicas)),
                data_stored: count(totals.bytes.saturating_mul(replicas)),
                omap_allocated: count(totals.omap_bytes.saturating_mul(replicas)),
                ..msg::StoreStatfs::default()
            },
            num_store_stats: i32::from(totals.pgs > 0),
            ..msg::PoolStat::default()
        }
    }

    fn get_config(&self, session: SessionId, tid: u64, request: msg::GetConfig, out: &mut Vec<MonitorAction>) {
        let options = self.config_for(&request.name, &request.host, Some(&request.device_class));
        self.send(session, tid, msg::ConfigOptions { options }, out);
    }

    /// Returns JSON as `ceph ping mon.a` shows it.
    fn ping_status(&self) -> String {
        let status = crate::health::evaluate(&self.state, &self.volatile).status();
        serde_json::json!({
            "health": { "status": status.word() },
            "mon_status": {
                "name": self.volatile.name,
                "rank": self.state.monmap.rank(&self.volatile.name),
                "state": if self.leads { "leader" } else { "peon" },
            },
        })
        .to_string()
    }
}

/// Returns the reason why a command is too large to be looked at.
fn is_too_large(cmd: &[String], input: &wire::Rope) -> Option<&'static str> {
    if input.len() > COMMAND_INPUT_BYTES_MAX {
        return Some("the command's input is larger than 16 MiB");
    }
    let words: usize = cmd.iter().map(String::len).sum();
    (words > COMMAND_WORDS_BYTES_MAX)
        .then_some("the command is longer than 4 MiB; give what is long as input (-i FILE)")
}
