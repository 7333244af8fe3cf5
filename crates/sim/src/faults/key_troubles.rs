//! Keys of OSDs and clients are replaced again and again, at once or with a pending key, while wall clocks of OSDs and
//! clients differ by minutes from each other's and from those of monitors.

use crate::run::Run;
use reactor::sim::Crash;
use std::time::Duration;

/// Name in reports of keys that have taken a former one's place.
const REPLACED: &str = "keys of OSDs and clients replaced";
/// Time between two commands of the operator.
const EVERY: Duration = Duration::from_secs(3);
/// The longest time for which an OSD is away whose keyring is written.
const AWAY_MS_MAX: u64 = 1500;
/// The most by which the wall clock of an OSD or client is off, in milliseconds. Two of them, or one and that of a
/// monitor, which is off by less, differ by less than the five minutes that are borne.
const SKEW_MS_MAX: i64 = 140_000;
/// The entity that all clients are.
const CLIENTS: &str = "client.admin";

impl Run {
    /// Gives all OSDs and clients wall clocks that are off by minutes, in runs that have such troubles.
    pub(crate) fn let_clocks_differ(&mut self) {
        if !self.setup.key_troubles {
            return;
        }
        for node in self.cluster.mon_count()..self.cluster.nodes().len() {
            self.skew_by_minutes(node);
        }
    }

    fn skew_by_minutes(&mut self, node: usize) {
        let ms = self.rng.below(2 * SKEW_MS_MAX as u64 + 1) as i64 - SKEW_MS_MAX;
        let node = self.cluster.nodes()[node];
        self.cluster.world.skew_wall_clock(node, ms);
    }

    /// Gives OSDs and clients the keys that monitors know, and has the operator replace one of them now and then. OSDs
    /// that run start again with theirs.
    pub(crate) fn replace_keys(&mut self) {
        let now = self.cluster.world.now();
        let mut pending = Vec::new();
        for osd in (0..self.cluster.osd_count()).filter(|osd| self.cluster.is_present(*osd)).collect::<Vec<_>>() {
            let (entity, is_running) = (format!("osd.{osd}"), self.cluster.osd_runs(osd));
            let (is_pending, is_other) = self.follow_key(&entity);
            if is_other && is_running {
                self.cluster.kill_osd(osd, Crash::Process);
                let away = Duration::from_millis(self.rng.below(AWAY_MS_MAX));
                self.later(now + away, move |run| run.cluster.start_osd(osd));
            }
            pending.extend(is_pending.then_some(entity));
        }
        pending.extend(self.follow_key(CLIENTS).0.then(|| CLIENTS.to_owned()));
        if self.key_trouble_at.is_none_or(|at| at > now) {
            return;
        }
        self.key_trouble_at = Some(now + EVERY);
        let (mons, nodes) = (self.cluster.mon_count(), self.cluster.nodes().len());
        let node = mons + self.rng.below((nodes - mons) as u64) as usize;
        self.skew_by_minutes(node);
        let osd = format!("osd.{}", self.rng.below(self.cluster.osd_count() as u64));
        let (prefix, entity) = match pending.pop() {
            Some(entity) => ("auth commit-pending", entity),
            // Not at once: the operator is one of them, and would not hear that it is done.
            None if self.rng.one_in(3) => ("auth get-or-create-pending", CLIENTS.to_owned()),
            None if self.rng.one_in(2) => ("auth get-or-create-pending", osd),
            None => ("auth rotate", osd),
        };
        self.cluster.try_command(self.operator, format!(r#"{{"prefix": "{prefix}", "entity": "{entity}"}}"#));
    }

    /// Gives a party the key that monitors know. Returns whether that one is a pending one, and whether it is another
    /// than before.
    fn follow_key(&mut self, entity: &str) -> (bool, bool) {
        let known = self.cluster.monitor().and_then(|monitor| monitor.state().auth.get(entity)).cloned();
        let (Some(known), Some(keys)) = (known, &mut self.cluster.keys) else { return (false, false) };
        let other = keys.follow(entity, &known);
        if let Some(key) = &other {
            *self.struck.entry(REPLACED).or_default() += 1;
            if entity == CLIENTS {
                self.cluster.set_key_of_clients(key);
            }
        }
        (known.pending_key.is_some(), other.is_some())
    }
}
