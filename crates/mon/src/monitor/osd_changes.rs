//! The way from OSDs' reports, and their silence, to the next OSD map.
//!
//! Facts are collected as they come and turned into one increment at a time: at once when things are quiet, at most
//! every [`SPACING`] when many OSDs start or fail together. OSDs that the hierarchy does not know are collected for
//! longer where there are many (`newcomers.rs`).

use super::blocklist::expired_lock_outs;
use super::failures::FailureReports;
use super::flapping::Flapping;
use super::newcomers::{Newcomers, new_device};
use super::proposals::PendingAnswer;
use super::{Monitor, Now};
use crate::state::LogPriority;
use crate::update::Update;
use osdmap::{Incremental, OsdMap, OsdMapFlags, OsdState, PoolFlags, TempSet, WEIGHT_IN};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tracing::{debug, warn};
use types::{Epoch, OsdId, PgId, PoolId};
use wire::EntityAddrVec;
use wire::msgr::SessionId;
use wire::nacre::mon::{BEACON_GRACE, OsdBoot, osd_features};

/// Increments follow each other no faster than this.
const SPACING: Duration = Duration::from_millis(50);
/// An OSD that is down for this long is marked out, unless `mon_osd_down_out_interval` says otherwise.
const DOWN_OUT_INTERVAL: Duration = Duration::from_secs(600);
/// No OSD is marked out if fewer than this share of all would remain in (`mon_osd_min_in_ratio`).
const MIN_IN_RATIO: f64 = 0.75;
/// Hosts whose OSDs must miss an OSD before it is down, unless the option says otherwise.
const DOWN_REPORTERS: usize = 2;

#[derive(Default)]
pub(super) struct OsdChanges {
    boots: BTreeMap<OsdId, OsdBoot>,
    going_down: BTreeMap<OsdId, SessionId>,
    failures: FailureReports,
    flapping: Flapping,
    /// Acting sets that primaries ask for, each with its asker.
    pg_temp: BTreeMap<PgId, (OsdId, Vec<OsdId>)>,
    /// OSDs need a map that is newer than this one, though nothing may have changed.
    newer_than: Option<Epoch>,
    /// OSDs whose refusal stands in the cluster log already.
    refused: BTreeSet<OsdId>,
    newcomers: Newcomers,
    /// Time since which there is something to look at.
    pending_since: Option<Duration>,
    last_built: Option<Duration>,
}

impl OsdChanges {
    /// Returns the part that lasts once another monitor decides: which OSDs flap.
    pub fn after(before: OsdChanges) -> OsdChanges {
        OsdChanges { flapping: before.flapping, ..OsdChanges::default() }
    }

    /// Records that an OSD has started. `is_new`: the hierarchy does not have it.
    pub fn boot(&mut self, boot: OsdBoot, is_new: bool, now: Duration) {
        self.refused.remove(&boot.osd);
        self.boots.insert(boot.osd, boot);
        if !(is_new && self.newcomers.must_wait(now)) {
            self.look(now);
        }
    }

    /// Returns true if this is the first refusal of `osd` in a row.
    pub fn refused_anew(&mut self, osd: OsdId) -> bool {
        self.refused.insert(osd)
    }

    pub fn going_down(&mut self, osd: OsdId, session: SessionId, now: Duration) {
        self.boots.remove(&osd);
        self.going_down.insert(osd, session);
        self.look(now);
    }

    pub fn failure(&mut self, target: OsdId, reporter: OsdId, host: &str, immediate: bool, now: Duration) {
        self.failures.report(target, reporter, host, immediate, now);
        self.look(now);
    }

    pub fn pg_temp(&mut self, pg: PgId, primary: OsdId, osds: Vec<OsdId>, now: Duration) {
        self.pg_temp.insert(pg, (primary, osds));
        self.look(now);
    }

    /// Asks for a map that is newer than that of epoch `than`, which OSDs need.
    pub fn newer_map(&mut self, than: Epoch, now: Duration) {
        self.newer_than = self.newer_than.max(Some(than));
        self.look(now);
    }

    /// Asks for a look: there may be something to change.
    pub fn look(&mut self, now: Duration) {
        self.pending_since.get_or_insert(now);
    }

    /// Returns the time at which the next increment may be built, if there is something to build it from.
    pub fn due(&self) -> Option<Duration> {
        let pending = [self.pending_since, self.newcomers.due()].into_iter().flatten().min()?;
        Some(self.last_built.map_or(pending, |built| pending.max(built + SPACING)))
    }
}

/// An increment in the making, with its updates and log lines.
pub(super) struct Draft {
    incremental: Incremental,
    crush: Option<crush::CrushMap>,
    updates: Vec<Update>,
    notes: Vec<(LogPriority, String)>,
}

impl Monitor {
    /// Runs once a second: time may have made something due.
    pub(super) fn tick(&mut self, now: Now) {
        self.update_rates(super::TICK.as_secs_f64());
        self.watch_health(now);
        self.judge_states(now);
        self.volatile.services.expire(now.wall);
        if self.leads {
            self.osd_changes.look(now.since_start);
        }
    }

    /// Brings everything that follows the map up to a map that has changed.
    pub(super) fn map_changed(&mut self, now: Now) {
        let map = self.state.osdmap();
        let up = map.up_osds().map(|(id, _)| id);
        let down_and_in = map.osds().filter(|(id, osd)| !osd.is_up() && map.is_in(*id)).map(|(id, _)| id);
        self.liveness.follow(up, down_and_in, now.since_start);
        self.sync_statistics_with_map();
        self.follow_merges(now);
        self.shard_orders.follow(self.state.osdmaps.current());
    }

    /// Adds the updates that the OSDs' present condition makes necessary.
    pub(super) fn osd_updates(&mut self, now: Now, updates: &mut Vec<Update>, answers: &mut Vec<PendingAnswer>) {
        if self.osd_changes.due().is_none_or(|due| due > now.since_start) {
            return;
        }
        self.osd_changes.pending_since = None;
        self.osd_changes.last_built = Some(now.since_start);
        let mut draft = Draft {
            incremental: self.state.next_incremental(now.wall),
            crush: None,
            updates: Vec::new(),
            notes: Vec::new(),
        };
        self.mark_down(now, &mut draft, answers);
        self.mark_up(now, &mut draft);
        self.mark_out(now, &mut draft);
        self.mark_full(&mut draft);
        self.mark_pools_full(&mut draft);
        self.set_pg_temp(&mut draft);
        self.show_orders(&mut draft);
        expired_lock_outs(now, self.state.osdmap(), &mut draft.incremental);
        let recorded = updates.iter().flat_map(|update| match update {
            Update::PgActivated(records) => records.iter().map(|(pg, _)| pg.pool).collect(),
            _ => Vec::new(),
        });
        let recorded: BTreeSet<PoolId> = recorded.collect();
        self.change_pg_numbers(now, &recorded, &mut draft);
        self.purge_snaps(&mut draft.incremental);
        self.balance(now, &mut draft);
        if let Some(crush) = &draft.crush {
            draft.incremental.set_crush(crush);
            let bytes = draft.incremental.crush.len();
            let listeners = self.sessions.values().filter(|known| known.osd().is_some()).count();
            self.osd_changes.newcomers.sent(bytes, listeners, now.since_start);
        }
        let newer_than = self.osd_changes.newer_than.take();
        let update = match newer_than.is_some_and(|than| self.state.osdmap().epoch <= than) {
            true => Some(self.state.next_osd_map(draft.incremental)),
            false => self.state.osd_update(draft.incremental),
        };
        updates.extend(update);
        updates.append(&mut draft.updates);
        for (priority, message) in draft.notes {
            self.note(now, priority, message);
        }
    }

    fn mark_down(&mut self, now: Now, draft: &mut Draft, answers: &mut Vec<PendingAnswer>) {
        let map = self.state.osdmap();
        let going_down = std::mem::take(&mut self.osd_changes.going_down);
        let anybody_failed = !self.osd_changes.failures.is_empty();
        // The target's own host cannot tell.
        let hosts_most = if anybody_failed { self.up_hosts().saturating_sub(1) } else { 1 };
        let wanted = self.state.mon_number("mon_osd_min_down_reporters").unwrap_or(DOWN_REPORTERS);
        let hosts_needed = wanted.min(hosts_most).max(1);
        let mut down: BTreeMap<OsdId, String> = BTreeMap::new();
        for (osd, session) in going_down {
            answers.push(PendingAnswer::GoingDown { session, osd });
            down.insert(osd, format!("{osd} marked itself down"));
        }
        let mut silent = BTreeSet::new();
        for osd in self.osd_changes.failures.failed(hosts_needed, now.since_start) {
            silent.insert(osd);
            let host = self.state.host_of(osd);
            down.entry(osd).or_insert(format!("{osd} failed (host={host}): its peers cannot reach it"));
        }
        for osd in self.liveness.silent(now.since_start) {
            down.entry(osd)
                .or_insert(format!("{osd} marked down: it has sent no beacon for {} seconds", BEACON_GRACE.as_secs()));
        }
        // An OSD that starts again before its end was noticed goes down in one epoch and up in the next.
        for (osd, boot) in &self.osd_changes.boots {
            if map.is_up(*osd) && !is_at(map, *osd, &boot.public_addrs) {
                down.entry(*osd).or_insert(format!("{osd} marked down: it has been restarted"));
            }
        }
        for (osd, why) in down {
            let restarted = self.osd_changes.boots.contains_key(&osd);
            if !map.is_up(osd) || (map.has_flag(osd, OsdState::NODOWN) && !restarted) {
                continue;
            }
            self.osd_changes.failures.forget(osd);
            if silent.contains(&osd) {
                self.osd_changes.flapping.marked_down(osd, now.since_start);
            }
            draft.incremental.mark_down(osd);
            draft.forget_fullness(map, osd);
            draft.xinfo(map, osd).down_stamp = now.wall;
            draft.notes.push((LogPriority::INFO, why));
        }
    }

    fn mark_up(&mut self, now: Now, draft: &mut Draft) {
        let map = self.state.osdmap();
        let boots = std::mem::take(&mut self.osd_changes.boots);
        let mut room = self.osd_changes.newcomers.room(now.since_start);
        let mut coming = Vec::new();
        for (osd, boot) in boots {
            if map.is_up(osd) {
                // Another start of the OSD is marked down in this increment, and comes up with the next.
                if !is_at(map, osd, &boot.public_addrs) {
                    self.osd_changes.boots.insert(osd, boot);
                    self.osd_changes.look(now.since_start);
                }
                continue;
            }
            // The OSD stays down for now, and asks again. When it asked, others may not have told what they can.
            if map.has_flag(osd, OsdState::NOUP) || lacks_features(map, &boot) {
                continue;
            }
            if !is_at(map, osd, &boot.public_addrs) {
                self.osd_changes.flapping.forget(osd);
            } else if let Some(wait) = self.osd_changes.flapping.wait(osd, now.since_start) {
                debug!("{osd} was marked down often lately; it is marked up again in {wait:.0?}");
                continue;
            }
            if map.crush.parent(osd.0).is_none() {
                if room == 0 {
                    self.osd_changes.boots.insert(osd, boot);
                    self.osd_changes.newcomers.put_off();
                    continue;
                }
                room -= 1;
            }
            coming.push((osd, boot));
        }
        let cannot = draft.place(map, coming.iter().map(|(_, boot)| boot));
        for (osd, boot) in coming {
            if let Some(reason) = cannot.get(&osd) {
                warn!("{osd}: cannot be placed in the CRUSH hierarchy: {reason}");
                let note = format!("{osd} cannot be placed in the CRUSH hierarchy: {reason}");
                draft.notes.push((LogPriority::WARN, note));
                continue;
            }
            let is_new = map.osd(osd).is_none_or(|known| known.uuid.is_zero()) || map.is_destroyed(osd);
            draft.bring_up(map, &boot, is_new);
            draft.notes.push((LogPriority::INFO, format!("{osd} {} boot", boot.public_addrs)));
            self.osd_changes.failures.forget(osd);
            let is_known = self.state.osd_metadata.get(&osd) == Some(&boot.metadata);
            let bytes: usize = boot.metadata.iter().map(|(key, value)| key.len() + value.len() + 32).sum();
            if !is_known && self.state.has_room_for(bytes) {
                draft.updates.push(Update::OsdMetadata { osd, metadata: Some(boot.metadata) });
            }
        }
    }

    /// Marks OSDs out that have been down for long.
    fn mark_out(&mut self, now: Now, draft: &mut Draft) {
        let map = self.state.osdmap();
        let configured = self.state.mon_option(&self.volatile.name, "mon_osd_down_out_interval");
        let interval = configured.and_then(|s| s.parse().ok()).map_or(DOWN_OUT_INTERVAL, Duration::from_secs);
        // 0 means never, as in Ceph.
        if interval.is_zero() || map.flags.contains(OsdMapFlags::NOOUT) {
            return;
        }
        let ratio = self.state.mon_option(&self.volatile.name, "mon_osd_min_in_ratio");
        let min_in_ratio = ratio.and_then(|s| s.parse().ok()).unwrap_or(MIN_IN_RATIO);
        let (all, _, mut remain) = map.counts();
        for osd in self.liveness.down_for(interval, now.since_start) {
            let excepted = map.has_flag(osd, OsdState::NOOUT);
            if map.is_up(osd) || !map.is_in(osd) || excepted || draft.incremental.new_up_client.contains_key(&osd) {
                continue;
            }
            if ((remain - 1) as f64) < min_in_ratio * all as f64 {
                break;
            }
            remain -= 1;
            let weight = map.weight(osd);
            draft.incremental.mark_out(osd);
            draft.incremental.flip_state(osd, OsdState::AUTOOUT);
            draft.xinfo(map, osd).old_weight = weight;
            let why = format!("Marking {osd} out (has been down for {} seconds)", interval.as_secs());
            draft.notes.push((LogPriority::INFO, why));
        }
    }

    /// Sets other acting sets where the primaries of groups ask for them.
    fn set_pg_temp(&mut self, draft: &mut Draft) {
        let wanted = std::mem::take(&mut self.osd_changes.pg_temp);
        let map = self.state.osdmap();
        for (pg, (primary, osds)) in wanted {
            let Ok(placed) = map.pg_to_up_acting(pg) else { continue };
            let known: BTreeSet<OsdId> = osds.iter().copied().filter(|osd| map.is_up(*osd)).collect();
            let pool = &map.pools[&pg.pool];
            let shape_fits = match pool.is_erasure() {
                false => known.len() == osds.len(),
                // Positions are shards: some may be empty, and none may be left out.
                true => {
                    let holes = osds.iter().filter(|osd| !osd.is_some()).count();
                    let is_whole = osds.len() == usize::from(pool.size) && !known.is_empty();
                    known.len() + holes == osds.len() && (is_whole || osds.is_empty())
                }
            };
            if placed.acting_primary != Some(primary) || !shape_fits {
                // The primary asked in another interval; it asks again if it still wants that.
                continue;
            }
            // A primary may ask for what holds already, by a map from before that.
            let temp = match pool.is_erasure() && osds == placed.up {
                true => TempSet::default(),
                false => TempSet::showing(osds, usize::from(pool.size)),
            };
            if map.pg_temp.get(&pg).cloned().unwrap_or_default() != temp {
                draft.incremental.new_pg_temp.insert(pg, temp);
            }
        }
    }

    /// Marks OSDs by how full they are. An OSD that is down reports nothing: its last report does not count.
    fn mark_full(&self, draft: &mut Draft) {
        let map = self.state.osdmap();
        for (osd, _) in map.osds().filter(|(_, known)| !known.is_up()) {
            draft.forget_fullness(map, osd);
        }
        let goes_down = |draft: &Draft, osd: OsdId| {
            draft.incremental.new_state.get(&osd).is_some_and(|flipped| flipped.contains(OsdState::UP))
        };
        for (osd, known) in map.up_osds() {
            if goes_down(draft, osd) {
                continue;
            }
            let Some(used) = self.used_ratio(osd) else { continue };
            let mut wanted = OsdState::default();
            if used >= map.full_ratio {
                wanted |= OsdState::FULL;
            } else if used >= map.backfillfull_ratio {
                wanted |= OsdState::BACKFILLFULL;
            } else if used >= map.nearfull_ratio {
                wanted |= OsdState::NEARFULL;
            }
            let changed = (known.state & fullness()) ^ wanted;
            if !changed.is_empty() {
                draft.incremental.flip_state(osd, changed);
            }
        }
    }

    /// Marks pools that may not be written: an OSD below them is full, or their quota is used up.
    fn mark_pools_full(&self, draft: &mut Draft) {
        let map = self.state.osdmap();
        // The map as it is decides; states that change in this increment show in the next. As in Ceph, only OSDs that
        // are up and in keep a pool from being written: nothing is written to others.
        let counts = |id, osd: &osdmap::Osd, state| osd.is_up() && map.is_in(id) && osd.state.contains(state);
        let having = |state| map.osds().filter(move |(id, osd)| counts(*id, osd, state)).map(|(id, _)| id.0);
        let full: BTreeSet<i32> = having(OsdState::FULL).collect();
        let backfillfull: BTreeSet<i32> = full.iter().copied().chain(having(OsdState::BACKFILLFULL)).collect();
        let nearfull: BTreeSet<i32> = backfillfull.iter().copied().chain(having(OsdState::NEARFULL)).collect();
        for (id, pool) in &map.pools {
            let mut flags = pool.flags;
            let quota_used = self.quota_used(*id);
            flags.set(PoolFlags::FULL_QUOTA, quota_used);
            let on = |osds: &BTreeSet<i32>| {
                let rule = u32::from(pool.crush_rule);
                !osds.is_empty() && map.crush.rule_weights(rule).keys().any(|osd| osds.contains(osd))
            };
            let is_full = quota_used || on(&full);
            flags.set(PoolFlags::FULL, is_full);
            flags.set(PoolFlags::BACKFILLFULL, !is_full && on(&backfillfull));
            flags.set(PoolFlags::NEARFULL, !is_full && !flags.contains(PoolFlags::BACKFILLFULL) && on(&nearfull));
            if flags == pool.flags {
                continue;
            }
            let mut changed = pool.clone();
            changed.flags = flags;
            changed.last_change = draft.incremental.epoch;
            draft.incremental.new_pools.insert(*id, changed);
            let name = map.pool_name(*id).unwrap_or_default();
            if is_full != pool.flags.contains(PoolFlags::FULL) {
                let now_is = if is_full { "is full" } else { "is no longer full" };
                draft.notes.push((LogPriority::WARN, format!("pool '{name}' {now_is}")));
            }
        }
    }

    fn quota_used(&self, id: PoolId) -> bool {
        let Some(pool) = self.state.osdmap().pools.get(&id) else { return false };
        let totals = self.volatile.totals(Some(id));
        (pool.quota_max_bytes > 0 && totals.bytes >= pool.quota_max_bytes)
            || (pool.quota_max_objects > 0 && totals.objects >= pool.quota_max_objects)
    }

    /// Counts the hosts with an OSD that is up.
    fn up_hosts(&self) -> usize {
        let map = self.state.osdmap();
        map.up_osds().map(|(id, _)| self.state.host_of(id)).collect::<BTreeSet<_>>().len()
    }
}

impl Draft {
    /// Returns true if the map stays as it is.
    pub fn is_empty(&self) -> bool {
        self.incremental.is_empty() && self.crush.is_none()
    }

    /// Returns true if nothing changes but acting sets.
    pub fn only_sets_acting(&mut self) -> bool {
        let acting = std::mem::take(&mut self.incremental.new_pg_temp);
        let is_rest_empty = self.is_empty();
        self.incremental.new_pg_temp = acting;
        is_rest_empty
    }

    pub fn incremental(&mut self) -> &mut Incremental {
        &mut self.incremental
    }

    pub fn note(&mut self, priority: LogPriority, message: String) {
        self.notes.push((priority, message));
    }

    /// Clears the fullness of an OSD that is down: its last report on its space says nothing.
    fn forget_fullness(&mut self, map: &OsdMap, osd: OsdId) {
        let known = map.osd(osd).map(|known| known.state & fullness()).filter(|known| !known.is_empty());
        // A state that is flipped here already would come back.
        let flipped = self.incremental.new_state.get(&osd).copied().unwrap_or_default();
        if let Some(known) = known.filter(|known| !flipped.intersects(*known)) {
            self.incremental.flip_state(osd, known);
        }
    }

    fn xinfo(&mut self, map: &OsdMap, osd: OsdId) -> &mut osdmap::OsdXInfo {
        let present = map.osd(osd).map(|known| known.xinfo).unwrap_or_default();
        self.incremental.new_xinfo.entry(osd).or_insert(present)
    }

    /// Puts OSDs that the hierarchy does not know at the locations that they report. Returns the OSDs for which that
    /// cannot be done.
    fn place<'a>(
        &mut self,
        map: &OsdMap,
        boots: impl Iterator<Item = &'a OsdBoot>,
    ) -> BTreeMap<OsdId, crush::BuildError> {
        let mut cannot = BTreeMap::new();
        let mut devices = Vec::new();
        for boot in boots {
            match new_device(&map.crush, boot) {
                Ok(device) => devices.extend(device),
                Err(reason) => drop(cannot.insert(boot.osd, reason)),
            }
        }
        if !devices.is_empty() {
            let mut next = self.crush.take().unwrap_or_else(|| map.crush.as_ref().clone());
            let refused = next.add_devices(&devices);
            if refused.len() < devices.len() {
                self.crush = Some(next);
            }
            cannot.extend(refused.into_iter().map(|(id, reason)| (OsdId(id), reason)));
        }
        cannot
    }

    fn bring_up(&mut self, map: &OsdMap, boot: &OsdBoot, is_new: bool) {
        let osd = boot.osd;
        let incremental = &mut self.incremental;
        if osd.0 >= incremental.new_max_osd.unwrap_or(map.max_osd()) {
            incremental.new_max_osd = Some(osd.0 + 1);
        }
        let (public, cluster) = (&boot.public_addrs, &boot.cluster_addrs);
        let (hb_back, hb_front) = (boot.hb_back_addrs.clone(), boot.hb_front_addrs.clone());
        incremental.mark_up(osd, public.clone(), cluster.clone(), hb_back, hb_front);
        let known = map.osd(osd);
        if known.is_none_or(|known| known.uuid != boot.osd_uuid) {
            incremental.new_uuid.insert(osd, boot.osd_uuid);
        }
        // New OSDs, and OSDs that were marked out for being down, come in; an OSD that an operator put out stays out.
        let state = known.map(|known| known.state).unwrap_or_default();
        let was_put_out = state.contains(OsdState::AUTOOUT);
        let joins = is_new || state.contains(OsdState::NEW) || was_put_out;
        let comes_in = joins && !map.is_in(osd) && !map.has_flag(osd, OsdState::NOIN);
        // The new weight clears `NEW` and `AUTOOUT` by itself; to flip them as well would bring them back.
        let of_weight = if comes_in { OsdState::default() } else { OsdState::NEW | OsdState::AUTOOUT };
        let passing = state & (OsdState::DESTROYED | of_weight);
        if !passing.is_empty() {
            incremental.flip_state(osd, passing);
        }
        if comes_in {
            let old_weight = known.map(|known| known.xinfo.old_weight).filter(|weight| was_put_out && *weight > 0);
            incremental.mark_in(osd);
            incremental.new_weight.insert(osd, old_weight.unwrap_or(WEIGHT_IN));
        }
        let xinfo = self.xinfo(map, osd);
        xinfo.features = wire::codec::features::PACIFIC | boot.features & osd_features::ALL;
        if was_put_out {
            xinfo.old_weight = 0;
        }
    }
}

/// Returns true if an OSD's software lacks something that all OSDs have and may build on: members of a group could be
/// told what it does not understand.
pub(super) fn lacks_features(map: &OsdMap, boot: &OsdBoot) -> bool {
    let lacking = osd_features::ALL & !boot.features;
    let mut bits = (0..u64::BITS).map(|bit| lacking & 1 << bit).filter(|bit| *bit != 0);
    bits.any(|bit| map.all_osds_have(bit))
}

/// Returns the states that tell how full an OSD is, by its reports.
fn fullness() -> OsdState {
    OsdState::FULL | OsdState::BACKFILLFULL | OsdState::NEARFULL
}

/// Returns true if the map has the OSD at these public or cluster addresses, which change with every start.
pub(super) fn is_at(map: &OsdMap, osd: OsdId, addrs: &EntityAddrVec) -> bool {
    map.osd(osd).is_some_and(|known| known.client_addrs == *addrs || known.cluster_addrs == *addrs)
}
