//! Sends the data that sessions have subscribed to.

use super::{Monitor, MonitorAction};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use types::Epoch;
use wire::basic::AuthName;
use wire::messages as msg;
use wire::msgr::SessionId;
use wire::{Encode, Envelope, Message, Target};

/// Bounds on one message of maps, as Ceph's defaults.
const MAPS_PER_MESSAGE: usize = 40;
const MAP_BYTES_PER_MESSAGE: usize = 10 << 20;

/// Subscriptions to the cluster log, with the least priority each shows.
const LOG_LEVELS: [(&str, u16); 5] =
    [("log-debug", 0), ("log-info", 1), ("log-sec", 2), ("log-warn", 3), ("log-error", 4)];

/// Messages of maps, each with its last epoch; keyed by the epoch wanted first and the number of messages at most.
type EncodedMaps = BTreeMap<(u64, usize), Vec<(u64, Envelope)>>;

impl Monitor {
    /// Brings all sessions up to date.
    pub(super) fn publish(&mut self, out: &mut Vec<MonitorAction>) {
        if self.state.applied == 0 {
            return;
        }
        // Many sessions are at the same epoch: they share one encoding.
        let mut encoded = BTreeMap::new();
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in sessions {
            self.bring_up_to_date(session, &mut encoded, out);
        }
    }

    /// Brings one session up to date.
    pub(super) fn publish_to(&mut self, session: SessionId, out: &mut Vec<MonitorAction>) {
        self.bring_up_to_date(session, &mut BTreeMap::new(), out);
    }

    fn bring_up_to_date(&mut self, session: SessionId, encoded: &mut EncodedMaps, out: &mut Vec<MonitorAction>) {
        let epoch = u64::from(self.state.monmap.epoch.0);
        self.publish_one(session, "monmap", epoch, out, |mon| mon.monmap_message());
        self.publish_config(session, out);
        let epoch = u64::from(self.state.manager_epoch().0);
        self.publish_one(session, "mgrmap", epoch, out, |mon| mon.mgrmap_message());
        self.publish_osdmaps(session, encoded, out);
        let epoch = u64::from(self.volatile.services.epoch.0);
        self.publish_one(session, "servicemap", epoch, out, |mon| mon.volatile.services.map());
        self.publish_one(session, "fsmap", 1, out, |_| msg::FsMap::default());
        self.publish_one(session, "fsmap.user", 1, out, |_| msg::FsMapUser::default());
        self.publish_log(session, out);
    }

    /// Sends the map called `what` if the session is due for `version` of it.
    fn publish_one<M: Message>(
        &mut self,
        session: SessionId,
        what: &str,
        version: u64,
        out: &mut Vec<MonitorAction>,
        message: impl FnOnce(&Monitor) -> M,
    ) {
        let Some(known) = self.sessions.get(&session) else { return };
        if known.subscriptions.due(what, version).is_none() {
            return;
        }
        let envelope = message(self).seal(0, known.target());
        out.push(MonitorAction::Send { session, envelope });
        if let Some(known) = self.sessions.get_mut(&session) {
            known.subscriptions.sent(what, version);
        }
    }

    pub(super) fn monmap_message(&self) -> msg::MonMap {
        msg::MonMap { map: self.state.monmap.to_vec(Target::PACIFIC).into() }
    }

    /// Returns a map of a manager that does not exist: the leading monitor answers for it, at an address of its own.
    fn mgrmap_message(&self) -> msg::MgrMap {
        let map = self.state.manager_map();
        msg::MgrMap { map: map.to_vec(Target::PACIFIC).into() }
    }

    /// Returns the options that `ceph config` gives to `name` on `host`. `class`: its class of devices as it says, for
    /// an OSD that the hierarchy does not know yet.
    pub(super) fn config_for(&self, name: &AuthName, host: &str, class: Option<&str>) -> BTreeMap<String, String> {
        let host = Some(host).filter(|host| !host.is_empty());
        let mut subject = self.state.config_subject(name.kind.word(), &name.id, host);
        subject.device_class = subject.device_class.or(class.filter(|class| !class.is_empty()));
        let effective = self.state.config.effective(&subject);
        effective.into_iter().map(|(name, (value, _))| (name.to_owned(), value.to_owned())).collect()
    }

    /// Sends the configuration. The first one is always sent, even an empty one: clients wait for it. Later ones are
    /// sent if they differ.
    fn publish_config(&mut self, session: SessionId, out: &mut Vec<MonitorAction>) {
        let Some(known) = self.sessions.get(&session) else { return };
        if known.subscriptions.get("config").is_none() {
            return;
        }
        let options = self.config_for(&known.peer.auth_name, &known.host, None);
        let mut hasher = DefaultHasher::new();
        options.hash(&mut hasher);
        let hash = hasher.finish();
        if known.config_sent == Some(hash) {
            return;
        }
        let envelope = msg::ConfigOptions { options }.seal(0, known.target());
        out.push(MonitorAction::Send { session, envelope });
        if let Some(known) = self.sessions.get_mut(&session) {
            known.config_sent = Some(hash);
            known.subscriptions.sent("config", self.state.applied);
        }
    }

    fn publish_osdmaps(&mut self, session: SessionId, encoded: &mut EncodedMaps, out: &mut Vec<MonitorAction>) {
        let current = u64::from(self.state.osdmap().epoch.0);
        let Some(known) = self.sessions.get(&session) else { return };
        let Some(wanted) = known.subscriptions.due("osdmap", current) else { return };
        let (target, is_osd) = (known.target(), known.osd().is_some());
        // A client that asked once gets one message and asks again. OSDs do as well, as in Ceph: each map costs them
        // work, and they ask for more when they have done it.
        let count_max = if wanted.once || is_osd { 1 } else { usize::MAX };
        let messages = encoded
            .entry((wanted.next, count_max))
            .or_insert_with(|| self.osdmap_messages(wanted.next, count_max, target));
        for (_, envelope) in messages.iter() {
            out.push(MonitorAction::Send { session, envelope: envelope.clone() });
        }
        let last = messages.last().map_or(current, |(last, _)| *last);
        if let Some(known) = self.sessions.get_mut(&session) {
            // An OSD gets maps that come from here on; for maps that it lacks it asks.
            known.subscriptions.sent("osdmap", if is_osd { current } else { last });
        }
    }

    /// Returns the messages that bring a peer to the newest map, if it wants `start` first (0: the newest one in full).
    /// Each comes with its last epoch; at most `count_max` messages.
    fn osdmap_messages(&self, start: u64, count_max: usize, target: Target) -> Vec<(u64, Envelope)> {
        let maps = &self.state.osdmaps;
        let newest = maps.current().epoch;
        let (oldest, fsid) = (maps.oldest(), self.state.fsid);
        let blank = || msg::OsdMap { fsid, oldest, newest, ..msg::OsdMap::default() };
        if start == 0 {
            let mut message = blank();
            message.fulls.insert(newest, maps.current_full());
            return vec![(newest.0.into(), message.seal(0, target))];
        }
        let mut messages = Vec::new();
        let mut message = blank();
        let mut bytes = 0;
        let mut next = Epoch(start.try_into().unwrap_or(u32::MAX));
        if next <= oldest {
            // Increments that far back are gone: a full map comes first.
            message.fulls.insert(oldest, maps.oldest_full());
            next = oldest.next();
        }
        for (epoch, incremental) in maps.incrementals_from(next) {
            if message.incrementals.len() >= MAPS_PER_MESSAGE || bytes > MAP_BYTES_PER_MESSAGE {
                let full = std::mem::replace(&mut message, blank());
                messages.push((full.last().0.into(), full.seal(0, target)));
                if messages.len() == count_max {
                    return messages;
                }
                bytes = 0;
            }
            bytes += incremental.len();
            message.incrementals.insert(epoch, incremental);
        }
        messages.push((message.last().0.into(), message.seal(0, target)));
        messages
    }

    /// Sends full maps and increments by epoch, as daemons ask for them.
    pub(super) fn get_osd_map(
        &self,
        session: SessionId,
        tid: u64,
        wanted: msg::MonGetOsdMap,
        out: &mut Vec<MonitorAction>,
    ) {
        let maps = &self.state.osdmaps;
        let mut reply = msg::OsdMap {
            fsid: self.state.fsid,
            oldest: maps.oldest(),
            newest: maps.current().epoch,
            ..msg::OsdMap::default()
        };
        let mut bytes = 0;
        let mut room = |bytes_more: usize| {
            bytes += bytes_more;
            bytes <= MAP_BYTES_PER_MESSAGE
        };
        let count = MAPS_PER_MESSAGE as u32;
        for epoch in wanted.full_first.0..=wanted.full_last.0.min(wanted.full_first.0.saturating_add(count)) {
            match maps.full(Epoch(epoch)) {
                Some(full) if epoch > 0 && room(full.len()) => drop(reply.fulls.insert(Epoch(epoch), full)),
                _ => {}
            }
        }
        for epoch in wanted.inc_first.0..=wanted.inc_last.0.min(wanted.inc_first.0.saturating_add(count)) {
            match maps.incremental(Epoch(epoch)) {
                Some(incremental) if room(incremental.len()) => {
                    reply.incrementals.insert(Epoch(epoch), incremental);
                }
                _ => {}
            }
        }
        self.send(session, tid, reply, out);
    }

    /// Sends lines of the cluster log. A new subscriber gets the newest line, then all that follow.
    fn publish_log(&mut self, session: SessionId, out: &mut Vec<MonitorAction>) {
        for (what, least) in LOG_LEVELS {
            let Some(known) = self.sessions.get(&session) else { return };
            let log = &self.state.log;
            let Some(wanted) = known.subscriptions.due(what, log.last_index) else { continue };
            let shown = |entry: &&msg::LogEntry| entry.priority.0 >= least;
            let entries: Vec<_> = match wanted.next {
                0 => log.entries.iter().rev().find(shown).into_iter().cloned().collect(),
                from => log.since(from).filter(shown).cloned().collect(),
            };
            if !entries.is_empty() {
                let message = msg::Log { have: log.last_index, fsid: self.state.fsid, entries };
                let envelope = message.seal(0, known.target());
                out.push(MonitorAction::Send { session, envelope });
            }
            let last = log.last_index;
            if let Some(known) = self.sessions.get_mut(&session) {
                known.subscriptions.sent(what, last);
            }
        }
    }
}
