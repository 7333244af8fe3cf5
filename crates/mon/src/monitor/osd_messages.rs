//! Messages of OSDs.

use super::{Monitor, MonitorAction, Now};
use crate::bounds::{ADDRS_MAX, GROUPS_PER_MESSAGE, NAME_BYTES_MAX, OSD_METADATA_BYTES_MAX};
use crate::state::{LogPriority, PgRecord};
use crate::update::Update;
use mutant::Mutant;
use std::collections::BTreeSet;
use tracing::{debug, info};
use types::{Fsid, OsdId, PgId};
use wire::msgr::SessionId;
use wire::nacre::mon as nacre;

use super::osd_changes::{is_at, lacks_features};
use super::proposals::PendingAnswer;

impl Monitor {
    /// Returns true if the OSD `claimed` is at the other end of `session`. No other party may speak for it.
    pub(super) fn speaks_for(&self, session: SessionId, claimed: OsdId) -> bool {
        let known = &self.sessions[&session];
        let is = known.osd() == Some(claimed);
        if !is {
            info!("{} at {}: speaks for {claimed}, ignored", known.peer.name, known.peer.addrs);
        }
        is
    }

    pub(super) fn osd_boot(
        &mut self,
        now: Now,
        session: SessionId,
        boot: nacre::OsdBoot,
        out: &mut Vec<MonitorAction>,
    ) {
        if !self.speaks_for(session, boot.osd) {
            return;
        }
        if let Err(reason) = self.check_boot(session, &boot) {
            if self.osd_changes.refused_anew(boot.osd) {
                info!("{}: may not start: {reason}", boot.osd);
                let message = format!("{} may not start: {reason}", boot.osd);
                self.note(now, LogPriority::WARN, message);
            }
            return self.send(session, 0, nacre::OsdRefused { osd: boot.osd, reason }, out);
        }
        self.sessions.get_mut(&session).expect("it speaks").store = Some(boot.osd_uuid);
        self.liveness.heard(boot.osd, now.since_start);
        let is_new = self.state.osdmap().crush.parent(boot.osd.0).is_none();
        self.osd_changes.boot(boot, is_new, now.since_start);
    }

    /// Returns the store that the map has under an OSD's number.
    pub(super) fn store_of(&self, osd: OsdId) -> Option<Fsid> {
        self.state.osdmap().osd(osd).map(|known| known.uuid).filter(|uuid| !uuid.is_zero())
    }

    /// Checks that an OSD may be marked up. Error: a sentence with the reason why not.
    fn check_boot(&self, session: SessionId, boot: &nacre::OsdBoot) -> Result<(), String> {
        if boot.fsid != self.state.fsid {
            return Err(format!("it belongs to cluster {}, this is {}", boot.fsid, self.state.fsid));
        }
        if boot.osd.0 < 0 || boot.osd.0 >= OSDS_MAX {
            return Err(format!("OSDs are numbered from 0 to {}", OSDS_MAX - 1));
        }
        if boot.osd_uuid.is_zero() {
            return Err("it names no uuid of its store".to_owned());
        }
        if boot.public_addrs.msgr2_addr().sockaddr.is_none() || boot.cluster_addrs.msgr2_addr().sockaddr.is_none() {
            return Err("it names no msgr v2 address at which it can be reached".to_owned());
        }
        check_sizes(boot)?;
        let map = self.state.osdmap();
        if lacks_features(map, boot) {
            return Err("its software is older than that of all OSDs, which have begun to use what it lacks".to_owned());
        }
        if !map.exists(boot.osd) && !self.state.has_room_for(NEW_OSD_BYTES) {
            return Err("the monitors' state is as large as it may be; see `ceph health detail`".to_owned());
        }
        if !mutant::is(mutant::Mutant::RemovedComesBack)
            && self.store_of(boot.osd).is_none()
            && self.sessions[&session].store == Some(boot.osd_uuid)
        {
            // The OSD may have booted before and be gone for long: its number is for the one that replaces it.
            return Err("it was removed from the cluster; start it again if it is to join anew".to_owned());
        }
        if let Some(known) = map.osd(boot.osd) {
            if map.is_destroyed(boot.osd) && known.uuid == boot.osd_uuid {
                return Err("it was destroyed".to_owned());
            }
            if !known.uuid.is_zero() && !map.is_destroyed(boot.osd) && known.uuid != boot.osd_uuid {
                let known = known.uuid;
                return Err(format!(
                    "its store has uuid {}, but {} is the store with uuid {known}; `ceph osd purge` or `ceph osd \
                     destroy` the old one first",
                    boot.osd_uuid, boot.osd
                ));
            }
        }
        Ok(())
    }

    pub(super) fn osd_beacon(&mut self, now: Now, session: SessionId, beacon: nacre::OsdBeacon) {
        let osd = beacon.osd;
        if !self.speaks_for(session, osd) {
            return;
        }
        // An OSD that is down in the map and does not know it yet learns it from the map; its numbers are void.
        if !self.state.osdmap().is_up(osd) {
            return debug!("{osd} is not up; its beacon is ignored");
        }
        self.liveness.heard(osd, now.since_start);
        self.take_statistics(now, beacon);
    }

    pub(super) fn osd_failure(&mut self, now: Now, session: SessionId, failure: nacre::OsdFailure) {
        let map = self.state.osdmap();
        let Some(reporter) = self.sessions[&session].osd().filter(|osd| map.is_up(*osd)) else { return };
        let target = failure.target;
        if target == reporter || !map.is_up(target) || !is_at(map, target, &failure.target_addrs) {
            return;
        }
        let host = self.state.host_of(reporter);
        info!("{reporter} on {host} cannot reach {target} (refused: {})", failure.immediate);
        self.osd_changes.failure(target, reporter, &host, failure.immediate, now.since_start);
    }

    pub(super) fn osd_going_down(
        &mut self,
        now: Now,
        session: SessionId,
        message: nacre::OsdGoingDown,
        out: &mut Vec<MonitorAction>,
    ) {
        let osd = message.osd;
        if !self.speaks_for(session, osd) {
            return;
        }
        let map = self.state.osdmap();
        let is_this_start = map.is_up(osd) && is_at(map, osd, &message.public_addrs);
        if is_this_start && !map.has_flag(osd, osdmap::OsdState::NODOWN) {
            self.osd_changes.going_down(osd, session, now.since_start);
        } else {
            // The OSD is down already, or may not be marked down: there is nothing to wait for.
            self.answer(PendingAnswer::GoingDown { session, osd }, out);
        }
    }

    pub(super) fn pg_history_get(
        &self,
        now: Now,
        session: SessionId,
        tid: u64,
        request: nacre::PgHistoryGet,
        out: &mut Vec<MonitorAction>,
    ) {
        let map = self.state.osdmap();
        // A state older than the asker's gives no answer: the OSD asks again.
        if request.epoch > map.epoch {
            return debug!("placement groups' history asked for {}, newest is {}", request.epoch, map.epoch);
        }
        // Every request is answered, also one without groups, or only with groups that are gone.
        let chunks = std::iter::once(&request.pgs[..]).filter(|pgs| pgs.is_empty());
        // An OSD that this monitor has not heard of may have the newest copy: it is given time to come.
        let may_tell = |history: &nacre::PgHistory| {
            history.doubt != nacre::doubt::BEHIND || now.since_start >= self.doubt_told_from
        };
        for pgs in chunks.chain(request.pgs.chunks(GROUPS_PER_MESSAGE)) {
            let pgs = pgs.iter().filter_map(|pgid| self.pg_history(*pgid)).filter(may_tell).collect();
            self.send(session, tid, nacre::PgHistoryReply { epoch: map.epoch, pgs }, out);
        }
    }

    /// Returns the record of a group that exists.
    pub(super) fn pg_history(&self, pgid: PgId) -> Option<nacre::PgHistory> {
        let pool = self.state.osdmap().pools.get(&pgid.pool).filter(|pool| pgid.seed < pool.pg_num)?;
        let record = self.state.pgs.get(&pgid);
        Some(nacre::PgHistory {
            pgid,
            last_epoch_started: record.map(|r| r.last_epoch_started).unwrap_or_default(),
            members: record.map(|r| r.members.clone()).unwrap_or_default(),
            past: record.map(|r| r.past.clone()).unwrap_or_default(),
            created: self.state.pool_created(pgid.pool, pool),
            member_shards: record.map(|r| r.member_shards.clone()).unwrap_or_default(),
            past_shards: record.map(|r| r.past_shards.clone()).unwrap_or_default(),
            doubt: record.map(|r| r.doubt).unwrap_or_default(),
        })
    }

    pub(super) fn pg_temp(&mut self, now: Now, session: SessionId, request: nacre::PgTemp) {
        let Some(osd) = self.sessions[&session].osd() else { return };
        for (pgid, osds) in request.pgs {
            if !self.shard_orders.knows_step(pgid, request.epoch) {
                debug!("{pgid}: {osd} asks for an acting set by epoch {}, from before the last step", request.epoch);
                continue;
            }
            if !self.state.pg_exists(pgid) || osds.len() > ACTING_MAX {
                continue;
            }
            self.osd_changes.pg_temp(pgid, osd, osds, now.since_start);
        }
    }

    /// Asks for a new epoch, if an OSD that is up needs one that it has not seen.
    pub(super) fn newer_map(&mut self, now: Now, session: SessionId, request: &nacre::NewerMapGet) {
        let asks = self.sessions[&session].osd().filter(|osd| self.state.osdmap().is_up(*osd));
        // A map older than the present one needs none: the OSD gets the present one. A map newer than that does not
        // exist here.
        if asks.is_some() && self.state.osdmap().epoch == request.after {
            self.osd_changes.newer_map(request.after, now.since_start);
        }
    }

    pub(super) fn pg_activate(&mut self, session: SessionId, request: nacre::PgActivate) {
        if self.sessions[&session].osd().is_some_and(|osd| self.state.osdmap().is_up(osd)) {
            self.proposals.activate(session, request);
        }
    }

    /// Returns the records that an OSD asks for, as far as they agree with the newest map, and the answer to give.
    pub(super) fn activation(&self, session: SessionId, request: nacre::PgActivate) -> (Option<Update>, PendingAnswer) {
        let osd = self.sessions.get(&session).and_then(|known| known.osd());
        let mut records = Vec::new();
        let mut asked: Vec<PgId> = Vec::new();
        for activation in request.pgs {
            let pg = activation.pgid;
            if !self.state.pg_exists(pg) {
                continue;
            }
            // A pool that cannot be placed has no groups that serve.
            let Ok(mapped) = self.state.osdmap().pg_to_up_acting(pg) else { continue };
            let known = self.state.pgs.get(&pg);
            let range_since = known.map(|record| record.range_since).unwrap_or_default();
            // A primary that asks for an interval from before a split does not know of the split: updates that it
            // answered, of objects that belong to other groups now, would not be in the records of those.
            let known_since = known.map(|record| record.last_epoch_started).unwrap_or_default().max(range_since);
            let is_current = mapped.acting == activation.acting && osd.is_some() && mapped.acting_primary == osd;
            let (members, member_shards) = (activation.members, activation.member_shards);
            let is_erasure = self.state.osdmap().pools[&pg.pool].is_erasure();
            let mut holders = members.iter().copied().zip(&member_shards);
            // Shards that are to be in the acting set next count, too: no client is answered without them. Each OSD of
            // earlier software brings the shard of its place in the up set.
            let are_acting = match is_erasure {
                false => member_shards.is_empty() && members.iter().all(|member| mapped.acting.contains(member)),
                true => {
                    let has = |osds: &[OsdId], osd, shard| osds.get(usize::from(shard)) == Some(&osd);
                    let is_brought = |osd, shard| osdmap::shard_of(&mapped.acting, &mapped.up, osd) == Some(shard);
                    members.len() == member_shards.len()
                        && holders.all(|(osd, shard)| is_brought(osd, *shard) || has(&mapped.up, osd, *shard))
                }
            };
            let serves = osd.is_some_and(|osd| members.contains(&osd));
            let is_current = is_current || mutant::is(Mutant::StaleRecord);
            // A record of an interval that is yet to come would outlast the present ones.
            let is_known = activation.interval_since <= self.state.osdmap().epoch;
            if !is_current || !are_acting || !serves || activation.interval_since < known_since || !is_known {
                debug!("{pg}: activation in {} is out of date", activation.interval_since);
                continue;
            }
            // Other OSDs may have served, and have answered clients, since the record that the primary went by. A
            // record of the same interval is not such a one: its primary is the asker.
            let started = known.map(|record| record.last_epoch_started).unwrap_or_default();
            let rests_on = activation.basis.filter(|_| !mutant::is(Mutant::BasisNotCompared)).unwrap_or(started);
            if rests_on != started && activation.interval_since != started {
                let since = activation.interval_since;
                info!(
                    "{pg}: activation in {since} rests on a record of {rests_on}, the present one is of {started}: \
                     refused"
                );
                // The answer tells the present record: the primary must find out anew which OSD has what.
                asked.extend(known.map(|_| pg));
                continue;
            }
            asked.push(pg);
            let mut record = PgRecord {
                last_epoch_started: activation.interval_since,
                members,
                past: Vec::new(),
                member_shards,
                past_shards: Vec::new(),
                range_since,
                // Only the OSDs know of further holders of objects that members lack, until no member lacks anything.
                doubt: match known.map_or(nacre::doubt::NONE, |record| record.doubt) {
                    nacre::doubt::BEHIND if activation.recovered => nacre::doubt::UNCONFIRMED,
                    doubt => doubt,
                },
            };
            if !activation.recovered && !mutant::is(Mutant::PastForgotten) {
                let serve: BTreeSet<_> = record.holders().collect();
                let served: BTreeSet<_> = known.iter().flat_map(|record| record.holders()).collect();
                let gone: Vec<_> = served.difference(&serve).copied().collect();
                record.past = gone.iter().map(|(osd, _)| *osd).collect();
                record.past_shards = gone.iter().filter_map(|(_, shard)| *shard).collect();
            }
            if self.state.pgs.get(&pg) != Some(&record) {
                records.push((pg, record));
            }
        }
        let update = (!records.is_empty()).then_some(Update::PgActivated(records));
        (update, PendingAnswer::PgActivated { session, pgs: asked })
    }
}

/// Most members of a group, erasure-coded pools included.
const ACTING_MAX: usize = 256;

/// Approximate bytes that a new OSD adds to the state.
const NEW_OSD_BYTES: usize = 4096;

/// Refuses texts of unreasonable length.
fn check_sizes(boot: &nacre::OsdBoot) -> Result<(), String> {
    let texts = |table: &std::collections::BTreeMap<String, String>| -> usize {
        table.iter().map(|(key, value)| key.len() + value.len()).sum()
    };
    let metadata = texts(&boot.metadata);
    if metadata > OSD_METADATA_BYTES_MAX {
        return Err(format!("it says {metadata} bytes about itself, at most {OSD_METADATA_BYTES_MAX} are kept"));
    }
    if texts(&boot.location) > 4 * NAME_BYTES_MAX || boot.device_class.len() > NAME_BYTES_MAX {
        return Err("its location, or its device class, is too long".to_owned());
    }
    let addrs = [&boot.public_addrs, &boot.cluster_addrs, &boot.hb_back_addrs, &boot.hb_front_addrs];
    if addrs.iter().any(|addrs| addrs.0.len() > ADDRS_MAX) {
        return Err(format!("it names more than {ADDRS_MAX} addresses of a kind"));
    }
    Ok(())
}

/// OSD numbers end below this: maps hold vectors of this length.
pub(super) const OSDS_MAX: i32 = 100_000;
