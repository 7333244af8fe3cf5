//! Faults, operators' work, and the calm at the end.

use super::world::{Coming, Focus, MS, World};
use crate::{Change, Membership, Payload, Raft, ServerId, Stored};
use std::collections::BTreeSet;

impl World {
    /// Runs the part of a run in which faults happen.
    pub fn faulty(&mut self) -> Result<(), String> {
        self.run_until(300 * MS)?;
        let until = 300 * MS + self.rng.between(300 * MS, 1500 * MS);
        self.run_until(until)
    }

    /// Mends everything: from then on the cluster must decide and answer.
    pub fn calm(&mut self) -> Result<(), String> {
        self.note(|| "calm".to_owned());
        self.is_calm = true;
        self.cut.clear();
        self.loss_percent = 0;
        self.delay_max = 3 * MS;
        let ids: Vec<ServerId> = self.servers.keys().copied().collect();
        for id in ids {
            let server = self.servers.get_mut(&id).expect("it is there");
            server.paused_until = 0;
            server.slowness = 1;
            self.start(id);
        }
        // Messages that were on their way for long may still disturb.
        self.run_until(self.now + 700 * MS)?;
        let (before, reads) = (self.checks.decided(), self.outcome.reads);
        let members_before = self.checks.members().1.clone();
        self.run_until(self.now + 400 * MS)?;
        let state = |world: &World| -> String {
            let leaders: Vec<_> =
                world.running().into_iter().filter(|id| world.raft(*id).is_some_and(Raft::is_leader)).collect();
            format!("leaders {leaders:?}, members {:?}", world.checks.members())
        };
        if self.checks.decided() < before + 5 {
            return Err(format!(
                "nothing is decided in calm: {} after {before}; {}",
                self.checks.decided(),
                state(self)
            ));
        }
        if self.outcome.reads == reads {
            return Err(format!("nothing is answered in calm; {}", state(self)));
        }
        let members: Vec<ServerId> = self.checks.members().1.members().collect();
        for id in members.into_iter().filter(|id| members_before.contains(*id) && self.servers.contains_key(id)) {
            let raft = self.raft(id).ok_or_else(|| format!("{id} is a member and does not run"))?;
            if raft.commit() < before {
                return Err(format!(
                    "{id} knows of {} as decided in calm, {before} was long ago; {}",
                    raft.commit(),
                    state(self)
                ));
            }
        }
        self.logs_match()
    }

    fn logs_match(&mut self) -> Result<(), String> {
        for id in self.running() {
            let process = self.servers.get(&id).and_then(|server| server.process.as_ref()).expect("it runs");
            self.checks.logs_match(&process.raft)?;
        }
        Ok(())
    }

    /// Makes a fault happen.
    pub fn fail(&mut self) {
        let running = self.running();
        let Some(one) = self.rng.pick(&running) else { return };
        let other = self.rng.pick(&running).expect("there is one");
        if self.focus == Focus::Leases && self.rng.percent(70) {
            return self.begin_attack(&running);
        }
        match self.rng.below(16) {
            0..=3 => {
                let down =
                    if self.rng.percent(50) { self.rng.between(MS, 30 * MS) } else { self.rng.between(MS, 300 * MS) };
                self.crash(one);
                self.at(self.now + down, Coming::Restart(one));
            }
            // The leader crashes right away: it loses entries that it has not written.
            4 | 5 => {
                if let Some(leader) = running.iter().copied().find(|id| self.raft(*id).is_some_and(Raft::is_leader)) {
                    self.crash(leader);
                    let down = self.rng.between(MS, 60 * MS);
                    self.at(self.now + down, Coming::Restart(leader));
                }
            }
            6 => {
                self.cut.insert((one, other));
            }
            7 => {
                self.cut.extend([(one, other), (other, one)]);
            }
            8 | 9 => {
                // A server is cut off from all others: both ways, or it hears nothing, or it is not heard.
                let ways = self.rng.below(3);
                for other in running {
                    if ways != 1 {
                        self.cut.insert((one, other));
                    }
                    if ways != 2 {
                        self.cut.insert((other, one));
                    }
                }
            }
            10 | 11 => self.cut.clear(),
            12 => {
                let until = self.now + self.rng.between(MS, 200 * MS);
                self.servers.get_mut(&one).expect("it runs").paused_until = until;
            }
            13 => {
                let slowness = [1, 1, 4, 20][self.rng.below(4) as usize];
                self.servers.get_mut(&one).expect("it runs").slowness = slowness;
            }
            14 => {
                self.loss_percent = [0, 0, 3, 20][self.rng.below(4) as usize];
                self.delay_max = [MS, 3 * MS, 3 * MS, 30 * MS][self.rng.below(4) as usize];
            }
            _ => self.lose_disk(one),
        }
    }

    /// Begins an attack: a leader and one follower lose each other, so that this follower soon stands.
    fn begin_attack(&mut self, running: &[ServerId]) {
        self.cut.clear();
        let leaders: Vec<ServerId> =
            running.iter().copied().filter(|id| self.raft(*id).is_some_and(Raft::is_leader)).collect();
        let Some(leader) = self.rng.pick(&leaders) else { return };
        let mut others: Vec<ServerId> = running.iter().copied().filter(|id| *id != leader).collect();
        let Some(follower) = self.rng.pick(&others) else { return };
        self.delay_max = [MS / 2, MS, 30 * MS][self.rng.below(3) as usize];
        self.cut.extend([(leader, follower), (follower, leader)]);
        others.retain(|id| *id != follower);
        if let Some(voter) = self.rng.pick(&others) {
            let at = self.now + self.rng.between(10 * MS, 90 * MS);
            self.at(at, Coming::Attack(leader, voter));
        }
    }

    /// Goes on with an attack: the voter loses the leader, too, and may start anew.
    pub fn attack(&mut self, leader: ServerId, voter: ServerId) {
        if self.is_calm {
            return;
        }
        self.cut.extend([(leader, voter), (voter, leader)]);
        if self.rng.percent(60) {
            self.crash(voter);
            let at = self.now + self.rng.between(MS / 2, 5 * MS);
            self.at(at, Coming::Restart(voter));
        }
    }

    pub fn usurp(&mut self, leader: ServerId) {
        for other in self.running().into_iter().filter(|id| *id != leader) {
            self.cut.extend([(leader, other), (other, leader)]);
            if self.rng.percent(70) {
                self.crash(other);
                let at = self.now + self.rng.between(MS / 2, 5 * MS);
                self.at(at, Coming::Restart(other));
            }
        }
    }

    /// Loses a disk, if a majority keeps theirs whatever becomes of changes under way.
    fn lose_disk(&mut self, id: ServerId) {
        let memberships: Vec<Membership> = self
            .servers
            .values()
            .filter_map(|server| {
                newest_members(&server.disk.stored, &server.process.as_ref().map(|process| &process.raft))
            })
            .collect();
        let servers: BTreeSet<ServerId> = self.servers.keys().copied().filter(|other| *other != id).collect();
        let decided = self.checks.members().1.clone();
        let is_bearable = memberships
            .iter()
            .chain([&decided])
            .all(|members| members.is_majority(&servers) || members.voters.is_empty());
        if is_bearable {
            self.crash(id);
            self.servers.remove(&id);
            self.note(|| format!("{id} loses its disk"));
        }
    }

    /// Acts as operators do: members come, go and are replaced; leadership moves.
    pub fn operate(&mut self) -> Result<(), String> {
        self.logs_match()?;
        let leaders: Vec<ServerId> =
            self.running().into_iter().filter(|id| self.raft(*id).is_some_and(Raft::is_leader)).collect();
        let Some(leader) = self.rng.pick(&leaders) else { return Ok(()) };
        if self.paused_until(leader).is_some() {
            return Ok(());
        }
        self.remove_strangers();
        let members = self.raft(leader).expect("it leads").membership().clone();
        let voters: Vec<ServerId> = members.voters.iter().copied().collect();
        let lost: Vec<ServerId> = members.members().filter(|id| !self.servers.contains_key(id)).collect();
        let learners: Vec<ServerId> =
            members.learners.iter().copied().filter(|id| self.servers.contains_key(id)).collect();
        let choice = self.rng.below(10);
        if self.focus == Focus::Elections && !self.is_calm {
            return Ok(());
        }
        let change = if choice == 0 || (choice < 6 && self.focus == Focus::Leases) || (choice == 1 && self.is_calm) {
            let to = self.rng.pick(&voters).expect("somebody votes");
            let mut is_taken = false;
            self.drive(leader, |raft, now| is_taken = raft.transfer(now, to).is_ok())?;
            self.outcome.handovers += u64::from(is_taken);
            if self.focus == Focus::Leases && is_taken && !self.is_calm {
                // A server that has handed over hears nothing of the outcome.
                let others = self.running().into_iter().filter(|id| *id != leader);
                self.cut.extend(others.map(|other| (other, leader)).collect::<Vec<_>>());
            }
            return Ok(());
        } else if let (Some(lost), true) = (self.rng.pick(&lost), choice < 7) {
            Change::Remove(lost)
        } else if let (Some(learner), true) = (self.rng.pick(&learners), choice < 9) {
            Change::Promote(learner)
        } else if learners.is_empty() && (voters.len() as u64) < self.voters_wanted + 1 {
            Change::AddLearner(self.new_server())
        } else {
            Change::Remove(self.rng.pick(&voters).expect("somebody votes"))
        };
        // A careful operator removes no member that a majority needs: one member that is lost and one that is removed
        // may be one too many.
        let there: BTreeSet<ServerId> = self.servers.keys().copied().collect();
        if members.after(change).is_some_and(|after| !after.is_majority(&there)) {
            return Ok(());
        }
        // Two changes at once must not be possible: the second is to be refused.
        let tries_two = self.rng.percent(20) && lost.is_empty();
        let second = Change::Remove(self.rng.pick(&voters).expect("somebody votes"));
        let mut changes = 0;
        self.drive(leader, |raft, now| {
            changes += u64::from(raft.change_membership(now, change).is_ok());
            if tries_two {
                changes += u64::from(raft.change_membership(now, second).is_ok());
            }
        })?;
        self.note(|| format!("{leader} takes {changes} of {change:?}"));
        self.outcome.changes += changes;
        Ok(())
    }

    /// Switches servers off, after a while, that are no members any more.
    fn remove_strangers(&mut self) {
        for id in self.checks.removed().to_vec() {
            if self.servers.contains_key(&id) && self.rng.percent(20) && self.is_out(id) {
                self.crash(id);
                self.servers.remove(&id);
                self.note(|| format!("{id} is switched off"));
            }
        }
    }

    /// Returns true if no log that could still count has this server as a voter.
    fn is_out(&self, id: ServerId) -> bool {
        self.servers.iter().filter(|(other, _)| **other != id).all(|(_, server)| {
            let raft = server.process.as_ref().map(|process| &process.raft);
            newest_members(&server.disk.stored, &raft).is_none_or(|members| !members.contains(id))
        })
    }
}

/// Returns the members by a server's log, in memory or, without a process, on its disk.
fn newest_members(stored: &Stored, raft: &Option<&Raft>) -> Option<Membership> {
    if let Some(raft) = raft {
        return Some(raft.membership().clone());
    }
    let of_entry = stored.entries.iter().rev().find_map(|entry| match &entry.payload {
        Payload::Membership(membership) => Some(membership),
        _ => None,
    });
    of_entry.or(stored.snapshot.as_ref().map(|snapshot| &snapshot.membership)).cloned()
}
