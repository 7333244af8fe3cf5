//! Misfortunes of monitors: they die, stand still, are cut off, are slow, lose their disks, come and go. Unless
//! monitors die, at most a minority is in trouble at any time.

use super::Away;
use crate::run::Run;
use reactor::sim::{Crash, NodeId, Rng};
use std::time::Duration;

/// The most monitors that there are at a time.
const MONITORS_MAX: usize = 7;
/// The fewest monitors that are left.
const MONITORS_MIN: usize = 3;

/// A choice of a monitor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// The monitor that leads at that time.
    Leader,
    /// The monitor with this number, modulo the number of monitors.
    Number(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuorumFault {
    /// A monitor is killed, even if others are away as well.
    Kill { which: Which, crash: Crash, away: Away },
    /// A monitor stands still, as if stopped by a signal, and goes on later.
    Pause { which: Which, lasts: Away },
    /// A monitor is cut off from the other monitors; `all`: from OSDs and clients, too. `heard`: they still hear it.
    /// `hears`: it still hears them.
    CutOff { which: Which, heard: bool, hears: bool, all: bool, lasts: Away },
    /// Each write to a monitor's disk takes `times` times as long.
    SlowDisk { which: Which, times: u32, lasts: Away },
    /// A monitor's disk is lost. Later the monitor joins with an empty one.
    Wipe { which: Which, away: Away },
    /// Power fails while disks are slow and have many writes to take: all disks, or all but that of `fast`. `elects`:
    /// the leader is killed before, so that votes are on their way. The machine of the leader, or of the last one,
    /// comes back later than the others.
    Outage { times: u32, fast: Option<Which>, elects: bool, after: Away, away: Away, late: Away },
    /// Connections between monitors fail here and there, one way or both. Monitors' processes die meanwhile and are
    /// started again.
    Flaky { seed: u64, lasts: Away },
    /// Another monitor joins.
    Add,
    /// The operator removes a monitor.
    Remove { which: Which },
}

impl QuorumFault {
    pub(super) fn name(self) -> &'static str {
        match self {
            QuorumFault::Kill { crash: Crash::Process, .. } => "one monitor killed",
            QuorumFault::Kill { crash: Crash::Power, .. } => "one monitor lost power",
            QuorumFault::Pause { .. } => "monitor paused",
            QuorumFault::CutOff { heard, hears, .. } if heard != hears => "monitor cut off one way",
            QuorumFault::CutOff { .. } => "monitor cut off",
            QuorumFault::SlowDisk { .. } => "monitor's disk slow",
            QuorumFault::Wipe { .. } => "monitor's disk lost",
            QuorumFault::Outage { .. } => "all monitors lost power",
            QuorumFault::Flaky { .. } => "monitors' network flaky",
            QuorumFault::Add => "monitor added",
            QuorumFault::Remove { .. } => "monitor removed",
        }
    }

    pub(super) fn draw(rng: &mut Rng) -> QuorumFault {
        let which = if rng.one_in(2) { Which::Leader } else { Which::Number(rng.below(16) as usize) };
        let crash = if rng.one_in(2) { Crash::Power } else { Crash::Process };
        let lasts = |rng: &mut Rng| match rng.one_in(3) {
            true => super::quick(rng),
            false => Away(Duration::from_millis(500 + rng.below(11_500))),
        };
        let ms = |rng: &mut Rng, max| Away(Duration::from_millis(rng.below(max)));
        match rng.below(17) {
            0..3 => QuorumFault::Kill { which, crash, away: lasts(rng) },
            3 | 4 => QuorumFault::Pause { which, lasts: Away(Duration::from_millis(100 + rng.below(12_000))) },
            5..8 => {
                let (heard, hears) = [(false, false), (true, false), (false, true)][rng.below(3) as usize];
                QuorumFault::CutOff { which, heard, hears, all: rng.one_in(2), lasts: lasts(rng) }
            }
            8 => QuorumFault::SlowDisk { which, times: 2 << rng.below(8), lasts: lasts(rng) },
            9 => QuorumFault::Wipe { which, away: lasts(rng) },
            10 => QuorumFault::Add,
            11 | 12 => {
                let elects = rng.one_in(2);
                // An election begins one to two seconds after the last message of a leader.
                let after = if elects { Away(Duration::from_millis(1000 + rng.below(2000))) } else { ms(rng, 1500) };
                let times = 8 << rng.below(6);
                let fast = rng.one_in(2).then_some(which);
                QuorumFault::Outage { times, fast, elects, after, away: ms(rng, 1000), late: ms(rng, 8000) }
            }
            13..16 => {
                let lasts = Away(Duration::from_millis(2000 + rng.below(10_000)));
                QuorumFault::Flaky { seed: rng.next_u64(), lasts }
            }
            _ => QuorumFault::Remove { which },
        }
    }

    /// Carries out the misfortune. Returns true if it was carried out.
    pub(crate) fn strike(self, run: &mut Run) -> bool {
        let now = run.cluster.world.now();
        match self {
            QuorumFault::Kill { which, crash, away } => {
                let Some(mon) = run.which(which) else { return false };
                run.cluster.kill_mon(mon, crash);
                run.in_trouble(mon, now + away.0);
                run.start_mon_at(mon, now + away.0);
                true
            }
            QuorumFault::Pause { which, lasts } => run.trouble(which, lasts, |run, mon, until| {
                let node = run.cluster.mon_node(mon);
                run.cluster.world.pause(node, until);
            }),
            QuorumFault::CutOff { which, heard, hears, all, lasts } => run.trouble(which, lasts, |run, mon, until| {
                let own = run.cluster.mon_node(mon);
                let others: Vec<NodeId> = match all {
                    true => run.cluster.nodes(),
                    false => run.cluster.mons_present().map(|mon| run.cluster.mon_node(mon)).collect(),
                };
                for other in others.into_iter().filter(|other| *other != own) {
                    if !heard {
                        run.block(own, other, until);
                    }
                    if !hears {
                        run.block(other, own, until);
                    }
                }
            }),
            QuorumFault::SlowDisk { which, times, lasts } => run.trouble(which, lasts, |run, mon, until| {
                run.cluster.slow_mon_disk(mon, times);
                run.later(until, move |run| run.cluster.slow_mon_disk(mon, 1));
            }),
            QuorumFault::Wipe { which, away } => {
                // At that moment all others have everything that was decided, and keep it until this monitor has it
                // again.
                let Some(mon) = run.which(which).filter(|_| run.cluster.mons_present().count() >= MONITORS_MIN) else {
                    return false;
                };
                if run.cluster.quorum_is_whole().is_err() {
                    return false;
                }
                run.cluster.wipe_mon(mon);
                run.in_trouble(mon, now + away.0);
                run.start_mon_at(mon, now + away.0);
                true
            }
            QuorumFault::Outage { times, fast, elects, after, away, late } => {
                let Some(leader) = run.which(Which::Leader) else { return false };
                let fast = fast.and_then(|fast| run.which(fast));
                let slow: Vec<usize> = run.cluster.mons_present().filter(|mon| Some(*mon) != fast).collect();
                slow.into_iter().for_each(|mon| run.cluster.slow_mon_disk(mon, times));
                if elects {
                    run.cluster.kill_mon(leader, Crash::Process);
                }
                let back = now + after.0 + away.0;
                run.later(now + after.0, move |run| {
                    run.note(|| "all monitors lose power".to_owned());
                    let mons: Vec<usize> = run.cluster.mons_present().collect();
                    for mon in mons {
                        run.cluster.kill_mon(mon, Crash::Power);
                        run.in_trouble(mon, back + late.0);
                        run.start_mon_at(mon, if mon == leader { back + late.0 } else { back });
                    }
                });
                true
            }
            QuorumFault::Flaky { seed, lasts } => {
                let mons: Vec<usize> = run.cluster.mons_present().collect();
                mons.into_iter().for_each(|mon| run.in_trouble(mon, now + lasts.0));
                let mut rng = Rng::new(seed);
                let mut at = now;
                while at < now + lasts.0 {
                    let step = FlakyStep::draw(&mut rng);
                    run.later(at, move |run| step.happen(run));
                    at += Duration::from_millis(20 + rng.below(300));
                }
                true
            }
            QuorumFault::Add => {
                if run.cluster.mons_present().count() >= MONITORS_MAX {
                    return false;
                }
                let mon = run.cluster.add_mon();
                run.cluster.start_mon(mon);
                true
            }
            QuorumFault::Remove { which } => {
                let Some(mon) = run.which(which).filter(|_| run.cluster.mons_present().count() > MONITORS_MIN) else {
                    return false;
                };
                let json = format!(r#"{{"prefix": "mon rm", "name": "{}"}}"#, run.cluster.mon_name(mon));
                run.cluster.try_command(run.operator, json);
                true
            }
        }
    }
}

/// A step while the monitors' network is flaky.
#[derive(Clone, Copy, Debug)]
enum FlakyStep {
    /// One monitor does not reach another for a while. The other does not reach it either, unless `one_way` is set.
    Cut { from: usize, to: usize, one_way: bool, lasts: Duration },
    /// One monitor reaches no other. They do not reach it either, unless `one_way` is set.
    CutAll { mon: usize, one_way: bool, lasts: Duration },
    /// A process dies and is started again.
    Restart { mon: usize, crash: Crash, away: Duration },
}

impl FlakyStep {
    fn draw(rng: &mut Rng) -> FlakyStep {
        let mon = rng.below(16) as usize;
        let lasts_ms = if rng.one_in(2) { 300 } else { 3000 };
        let (one_way, lasts) = (rng.one_in(2), Duration::from_millis(rng.below(lasts_ms)));
        match rng.below(6) {
            0..3 => FlakyStep::Cut { from: mon, to: rng.below(16) as usize, one_way, lasts },
            3 => FlakyStep::CutAll { mon, one_way, lasts },
            _ => {
                let crash = if rng.one_in(4) { Crash::Power } else { Crash::Process };
                FlakyStep::Restart { mon, crash, away: Duration::from_millis(rng.below(100)) }
            }
        }
    }

    fn happen(self, run: &mut Run) {
        run.note(|| format!("{self:?}"));
        let now = run.cluster.world.now();
        let present: Vec<usize> = run.cluster.mons_present().collect();
        let of = |number: usize| present[number % present.len()];
        let mut cut = |from: usize, to: usize, one_way: bool, lasts: Duration| {
            let (from, to) = (run.cluster.mon_node(from), run.cluster.mon_node(to));
            run.block(from, to, now + lasts);
            if !one_way {
                run.block(to, from, now + lasts);
            }
        };
        match self {
            FlakyStep::Cut { from, to, one_way, lasts } if of(from) != of(to) => cut(of(from), of(to), one_way, lasts),
            FlakyStep::Cut { .. } => {}
            FlakyStep::CutAll { mon, one_way, lasts } => {
                let others = present.iter().filter(|other| **other != of(mon));
                others.for_each(|other| cut(of(mon), *other, one_way, lasts));
            }
            FlakyStep::Restart { mon, crash, away } => {
                let mon = of(mon);
                run.cluster.kill_mon(mon, crash);
                run.start_mon_at(mon, now + away);
            }
        }
    }
}

impl Run {
    fn which(&self, which: Which) -> Option<usize> {
        let present: Vec<usize> = self.cluster.mons_present().collect();
        match which {
            Which::Leader => self.cluster.leading_mon(),
            Which::Number(number) => Some(present[number % present.len()]),
        }
    }

    fn in_trouble(&mut self, mon: usize, until: Duration) {
        let known = self.troubled.entry(mon).or_default();
        *known = until.max(*known);
    }

    /// Puts a monitor into trouble for a while, unless a majority would be in trouble. Returns true if it did.
    fn trouble(&mut self, which: Which, lasts: Away, strike: impl FnOnce(&mut Run, usize, Duration)) -> bool {
        let now = self.cluster.world.now();
        let Some(mon) = self.which(which) else { return false };
        self.troubled.retain(|_, until| *until > now);
        let others = self.troubled.keys().filter(|other| **other != mon).count();
        if others >= (self.cluster.mons_present().count() - 1) / 2 {
            return false;
        }
        self.in_trouble(mon, now + lasts.0);
        strike(self, mon, now + lasts.0);
        true
    }

    fn start_mon_at(&mut self, mon: usize, at: Duration) {
        self.later(at, move |run| {
            run.note(|| format!("mon.{} is started", run.cluster.mon_name(mon)));
            run.cluster.start_mon(mon);
        });
    }
}
