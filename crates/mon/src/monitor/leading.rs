//! Leading and following among several monitors, and the leader's work for its members.

use super::authentication::NewestSecrets;
use super::osd_changes::OsdChanges;
use super::proposals::SNAPSHOT_EVERY;
use super::{Monitor, MonitorAction, Now};
use crate::state::{LogPriority, MonServer};
use crate::update::{Batch, Update};
use crate::{MonState, volatile::Quorum};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tracing::info;
use wire::nacre::mon::OsdBeacon;
use wire::{Decode, Encode, Target};

/// Time after a monitor has begun to lead in which it does not tell records that may be behind: OSDs that it does not
/// know come in meanwhile.
const DOUBT_SETTLES: Duration = Duration::from_secs(20);

/// News of monitors that the leader has not yet proposed.
#[derive(Default)]
pub(super) struct Members {
    /// Servers that are to be monitors, by name.
    joins: BTreeMap<String, MonServer>,
    /// Monitors' descriptions of themselves, by name.
    metadata: BTreeMap<String, BTreeMap<String, String>>,
    /// Servers that vote.
    voters: BTreeSet<u64>,
}

impl Monitor {
    /// Makes this monitor decide from here on: it has applied everything that was decided before.
    pub fn lead(&mut self, now: Now, quorum: Quorum, out: &mut Vec<MonitorAction>) {
        self.leads = true;
        self.volatile.now = now.wall;
        self.volatile.quorum = quorum;
        self.proposals.want_global_ids();
        // No OSD is judged by signs of life that this monitor may have missed; and reports of maps that other monitors
        // made do not count.
        self.liveness.hear_all(now.since_start);
        self.balancing.begin(self.state.osdmap().epoch);
        self.pg_numbers.begin(self.state.osdmap().epoch);
        self.shard_orders = Default::default();
        self.osd_changes.look(now.since_start);
        self.doubt_told_from = now.since_start + DOUBT_SETTLES;
        self.advance(now, out);
    }

    pub fn leads(&self) -> bool {
        self.leads
    }

    /// Stops deciding: from here on another monitor decides, or none does. The askers of pending requests are sent away
    /// to ask again, because it is not known yet which of the requests will be decided.
    pub fn follow(&mut self, out: &mut Vec<MonitorAction>) {
        if !std::mem::take(&mut self.leads) {
            return;
        }
        self.stop_comparing();
        let dropped = std::mem::take(&mut self.proposals);
        let changes = std::mem::take(&mut self.osd_changes);
        self.osd_changes = OsdChanges::after(changes);
        self.members = Members::default();
        self.volatile.quorum = Quorum::default();
        let mut sent_away = dropped.askers();
        // OSDs connect again and repeat their requests.
        let anew = self.sessions.iter().filter(|(_, known)| known.osd().is_some() || known.is_at_manager);
        sent_away.extend(anew.map(|(session, _)| *session));
        for session in sent_away {
            if self.sessions.remove(&session).is_some() {
                out.push(MonitorAction::Close { session });
            }
        }
    }

    /// Applies batch `index`, which is decided, whichever monitor made it.
    ///
    /// Panics if it cannot be read: the log is damaged, or a newer program made it.
    pub fn decided(&mut self, now: Now, index: u64, batch: &[u8], out: &mut Vec<MonitorAction>) {
        self.volatile.now = now.wall;
        if self.leads && self.proposals.in_flight_index() == Some(index) {
            self.committed(now, index, out);
            return self.advance(now, out);
        }
        let batch = Batch::from_slice(batch).unwrap_or_else(|e| panic!("batch {index}, which is decided: {e}"));
        let (before, secrets) = (self.state.osdmap().epoch, self.newest_secrets());
        self.state.apply(index, &batch);
        self.after(now, &batch, secrets, out);
        self.followed(now, before, out);
    }

    /// Acts on changes among the entities, and on secrets since `secrets` were the newest, which a batch made.
    pub(super) fn after(&mut self, now: Now, batch: &Batch, secrets: NewestSecrets, out: &mut Vec<MonitorAction>) {
        if batch.updates.iter().any(|update| matches!(update, Update::Auth { .. })) {
            self.follow_shared_keys(now, out);
            self.judge_anew(out);
        }
        self.give_anew(now, secrets, out);
        self.check_state(now, batch);
    }

    /// Publishes the state after its last batch was applied.
    pub(super) fn followed(&mut self, now: Now, before: types::Epoch, out: &mut Vec<MonitorAction>) {
        if self.state.osdmap().epoch != before {
            self.map_changed(now);
        }
        // Maps go first: a client that is told "done" may act on the map at once.
        self.publish(out);
        let index = self.state.applied;
        if index.is_multiple_of(SNAPSHOT_EVERY) {
            out.push(MonitorAction::Snapshot { index, state: self.state.to_vec(Target::PACIFIC).into() });
        }
    }

    /// Replaces the state with a later one from another monitor.
    pub fn install(&mut self, now: Now, state: MonState, out: &mut Vec<MonitorAction>) {
        self.volatile.now = now.wall;
        let secrets = self.newest_secrets();
        self.state = MonState { overrides: std::mem::take(&mut self.state.overrides), ..state };
        self.follow_shared_keys(now, out);
        self.judge_anew(out);
        self.give_anew(now, secrets, out);
        self.map_changed(now);
        self.publish(out);
    }

    /// Takes in a report that an OSD sent to another monitor.
    pub fn osd_said(&mut self, now: Now, beacon: OsdBeacon) {
        if self.state.osdmap().is_up(beacon.osd) {
            self.liveness.heard(beacon.osd, now.since_start);
            self.take_statistics(now, beacon);
        }
    }

    /// Returns the OSDs that have sessions here, each with its last report on itself and on the groups that it serves:
    /// for monitors that have not heard it.
    pub fn what_osds_said(&self) -> Vec<OsdBeacon> {
        let here = self.sessions.values().filter_map(|known| known.osd());
        let mut served: BTreeMap<_, Vec<_>> = here.map(|osd| (osd, Vec::new())).collect();
        for pg in self.volatile.pgs.values() {
            let primary = pg.report.acting.iter().find(|osd| osd.is_some());
            if let Some(reports) = primary.and_then(|osd| served.get_mut(osd)) {
                reports.push(pg.report.clone());
            }
        }
        let said = served.into_iter().filter_map(|(osd, pgs)| {
            let stat = self.volatile.osds.get(&osd)?;
            let options = self.volatile.options.get(&osd.to_string()).cloned();
            // The time that others took to answer is told anew within a minute, and is much for many OSDs.
            Some(OsdBeacon { osd, epoch: stat.epoch, stats: stat.stats, pgs, options, pings: None })
        });
        said.collect()
    }

    /// Returns true if the session is one with an OSD.
    pub fn is_osd(&self, session: wire::msgr::SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|known| known.osd().is_some())
    }

    /// Takes in the quorum that the leader told.
    pub fn told_quorum(&mut self, report: wire::nacre::quorum::QuorumReport) {
        if !self.leads {
            self.volatile.quorum.report = report;
        }
    }

    /// For a leader: sets the present quorum.
    pub fn set_quorum(&mut self, now: Now, quorum: Quorum) {
        if quorum.members != self.volatile.quorum.members {
            let names = quorum.names(&self.state.monmap).join(",");
            info!("in quorum: {names}");
            self.note(now, LogPriority::INFO, format!("mon.{} leads, in quorum: {names}", self.volatile.name));
        }
        self.volatile.quorum = quorum;
    }

    /// For a leader: makes a server the monitor `name`.
    pub fn join(&mut self, now: Now, name: &str, server: MonServer, out: &mut Vec<MonitorAction>) {
        self.members.joins.insert(name.to_owned(), server);
        self.advance(now, out);
    }

    /// For a leader: sets the servers that vote.
    pub fn set_voters(&mut self, now: Now, voters: BTreeSet<u64>, out: &mut Vec<MonitorAction>) {
        if self.members.voters != voters {
            self.members.voters = voters;
            self.advance(now, out);
        }
    }

    /// For a leader: takes in a monitor's description of itself.
    pub fn told_metadata(&mut self, name: &str, metadata: BTreeMap<String, String>) {
        let is_known = self.state.mon_metadata.get(name) == Some(&metadata);
        if !is_known && self.state.mon_servers.contains_key(name) {
            self.members.metadata.insert(name.to_owned(), metadata);
        }
    }

    /// Adds the updates that changes among the monitors make necessary.
    pub(super) fn member_updates(&mut self, now: Now, updates: &mut Vec<Update>) {
        let name = self.volatile.name.clone();
        let manager = &self.state.manager;
        let addrs = &self.volatile.manager_addrs;
        if !addrs.is_empty() && (&manager.name, &manager.addrs) != (&name, addrs) {
            updates.push(Update::Manager { name: name.clone(), addrs: addrs.clone(), since: now.wall });
        }
        let own = (name, self.metadata.clone());
        for (name, metadata) in std::mem::take(&mut self.members.metadata).into_iter().chain([own]) {
            let is_known = self.state.mon_metadata.get(&name) == Some(&metadata);
            if !is_known && !metadata.is_empty() {
                updates.push(Update::MonMetadata { name, metadata: Some(metadata) });
            }
        }
        for (name, MonServer { server, addrs }) in std::mem::take(&mut self.members.joins) {
            let is_known = self.state.mon_servers.get(&name).is_some_and(|known| known.server == server);
            if !self.state.former_servers.contains(&server) && !is_known {
                self.note(now, LogPriority::INFO, format!("mon.{name} at {addrs} joins"));
                updates.push(Update::MonServer { name, server, addrs });
            }
        }
        // Clients hear of a monitor once it takes part in decisions.
        let mut map = self.state.monmap.clone();
        for (name, known) in &self.state.mon_servers {
            let shown = map.mons.get(name).map(|mon| &mon.addrs);
            if self.members.voters.contains(&known.server) && shown != Some(&known.addrs) {
                map.add(name, known.addrs.clone());
            }
        }
        if map != self.state.monmap {
            map.epoch = map.epoch.next();
            map.last_changed = now.wall;
            updates.push(Update::MonMap(map.to_vec(Target::PACIFIC).into()));
        }
    }
}
