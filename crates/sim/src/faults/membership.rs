//! OSDs that come and go: OSDs are added or removed, and disks are lost and replaced by empty ones.

use crate::client_process::POOL;
use crate::keys::Keys;
use crate::run::Run;
use reactor::sim::{Crash, Rng};
use std::time::Duration;

/// The most OSDs that are added.
const ADDED_MAX: usize = 3;
/// Time after which a command that the monitor may refuse is repeated.
const TRY_AGAIN: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MembershipFault {
    /// A new OSD starts.
    Add,
    /// An OSD is lost with its disks. The operator takes it out of the map, and an empty one takes its place.
    LoseDisk { osd: usize },
    /// An OSD is lost with its disks, and none takes its place.
    Remove { osd: usize },
}

/// An OSD whose disks are gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub osd: usize,
    is_replaced: bool,
    /// The time of the operator's last command about it, and whether the OSD was up then.
    asked: Option<(Duration, bool)>,
}

impl MembershipFault {
    pub(super) fn draw(rng: &mut Rng, osds: usize) -> MembershipFault {
        let osd = rng.below(osds as u64) as usize;
        match rng.below(5) {
            0 | 1 => MembershipFault::Add,
            2 => MembershipFault::Remove { osd },
            _ => MembershipFault::LoseDisk { osd },
        }
    }

    /// Carries out the misfortune unless the pool would not survive it. Returns true if it was carried out.
    pub(crate) fn strike(self, run: &mut Run) -> bool {
        match self {
            MembershipFault::Add if run.added < ADDED_MAX => {
                run.added += 1;
                let osd = run.cluster.add_osd();
                run.cluster.start_osd(osd);
                true
            }
            MembershipFault::Add => false,
            MembershipFault::LoseDisk { osd } => run.lose(osd, true),
            MembershipFault::Remove { osd } => run.lose(osd, false),
        }
    }
}

impl Run {
    /// True if the pool is to have as many copies as at first.
    fn has_all_copies(&self) -> bool {
        let Some(monitor) = self.cluster.monitor() else { return false };
        let map = monitor.state().osdmap();
        let pool = map.pool_by_name(POOL).and_then(|pool| map.pools.get(&pool));
        pool.is_some_and(|pool| usize::from(pool.size) == self.setup.members())
    }

    /// Takes an OSD's disks away. A pool whose `min_size` is more than suffices to read survives the loss of one OSD at
    /// any moment, and of another once everything is clean again. Returns false if the pool would not survive it.
    fn lose(&mut self, osd: usize, is_replaced: bool) -> bool {
        let survives = match self.setup.coding {
            Some((_, m)) => m >= 2,
            None => self.setup.copies >= 3,
        };
        let enough = is_replaced || self.cluster.osds_present() > self.setup.members() + 1;
        let untouched = !self.any_lost && !self.made_smaller;
        let whole = untouched || self.lost.is_empty() && self.has_all_copies() && self.cluster.is_clean().is_ok();
        if !survives || !enough || !whole || !self.cluster.is_present(osd) || self.out.contains(&osd) {
            return false;
        }
        self.any_lost = true;
        self.cluster.lose_disks(osd, Crash::Power);
        self.lost.push(Lost { osd, is_replaced, asked: None });
        true
    }

    /// Gives an OSD, whose former key went with its place in the map, the one that monitors know now. Returns false if
    /// they know none, and OSDs need keys.
    fn has_key(&mut self, osd: usize) -> bool {
        let name = format!("osd.{osd}");
        let known = self.cluster.monitor().and_then(|monitor| monitor.state().auth.get(&name)).cloned();
        let Some(keys) = &mut self.cluster.keys else { return true };
        let is_known = known.is_some();
        known.into_iter().for_each(|known| keys.set_of_osd(osd, known));
        is_known
    }

    /// Has the operator make a key of an OSD, unless it was asked to just now.
    fn ask_for_key(&mut self, lost: &mut Lost, now: Duration) {
        if lost.asked.is_none_or(|(at, was_up)| was_up || now >= at + TRY_AGAIN) {
            lost.asked = Some((now, false));
            self.cluster.try_command(self.operator, Keys::new_key_of_osd(lost.osd));
        }
    }

    /// Has the operator deal with lost OSDs. Each command is repeated until the map shows its effect.
    pub(crate) fn replace_lost(&mut self) {
        let now = self.cluster.world.now();
        for mut lost in std::mem::take(&mut self.lost) {
            let id = types::OsdId(lost.osd as i32);
            let known = self.cluster.monitor().map(|monitor| {
                let map = monitor.state().osdmap();
                (map.exists(id), map.is_up(id))
            });
            match known {
                Some((false, _)) if lost.is_replaced && !self.has_key(lost.osd) => self.ask_for_key(&mut lost, now),
                Some((false, _)) => {
                    self.note(|| format!("{id} is gone from the map, replaced: {}", lost.is_replaced));
                    match lost.is_replaced {
                        true => {
                            self.cluster.replace_disks(lost.osd);
                            self.cluster.start_osd(lost.osd);
                        }
                        false => self.cluster.remove(lost.osd),
                    }
                    continue;
                }
                // The operator is quick: the empty OSD is there before the others have agreed on the members without
                // the lost one.
                Some((true, is_up))
                    if lost.asked.is_none_or(|(at, was_up)| was_up != is_up || now >= at + TRY_AGAIN) =>
                {
                    lost.asked = Some((now, is_up));
                    let json = match is_up {
                        true => format!("{{\"prefix\": \"osd down\", \"ids\": [\"{}\"]}}", id.0),
                        false => {
                            format!("{{\"prefix\": \"osd purge\", \"id\": {}, \"yes_i_really_mean_it\": true}}", id.0)
                        }
                    };
                    self.cluster.try_command(self.operator, json);
                }
                _ => {}
            }
            self.lost.push(lost);
        }
    }
}
