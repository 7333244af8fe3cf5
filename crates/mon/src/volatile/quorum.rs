//! Which monitors decide, and how far their clocks are apart.

use osdmap::MonMap;
use std::collections::BTreeMap;
use std::ops::Deref;
use types::Utime;
use wire::nacre::quorum::QuorumReport;

/// Who decides, as the leader sees it, or as it told this monitor.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Quorum {
    pub report: QuorumReport,
    /// What the leader knows of the others' clocks, by name.
    pub clocks: BTreeMap<String, ClockSample>,
}

/// Another monitor's clock, compared once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClockSample {
    /// How far it is ahead, in seconds.
    pub ahead_s: f64,
    /// How long the question and its answer took; half of that may be wrong about the first.
    pub latency_s: f64,
}

impl ClockSample {
    /// From a question asked at `asked` by the own clock, answered at `there` by the other one, the answer heard at `heard`.
    pub fn new(asked: Utime, there: Utime, heard: Utime) -> ClockSample {
        let seconds = |t: Utime| f64::from(t.sec) + f64::from(t.nsec) / 1e9;
        let (asked, there, heard) = (seconds(asked), seconds(there), seconds(heard));
        ClockSample { ahead_s: there - (asked + heard) / 2.0, latency_s: heard - asked }
    }

    /// How far the clocks are apart at least.
    pub fn skew_s(&self) -> f64 {
        (self.ahead_s.abs() - self.latency_s.max(0.0) / 2.0).max(0.0)
    }
}

impl Deref for Quorum {
    type Target = QuorumReport;

    fn deref(&self) -> &QuorumReport {
        &self.report
    }
}

impl Quorum {
    /// The ranks of those that decide.
    pub fn ranks(&self, map: &MonMap) -> Vec<usize> {
        (0..map.ranks.len()).filter(|rank| self.members.contains(&map.ranks[*rank])).collect()
    }

    /// Their names, by rank.
    pub fn names<'a>(&self, map: &'a MonMap) -> Vec<&'a str> {
        map.ranks.iter().map(String::as_str).filter(|name| self.members.contains(*name)).collect()
    }

    /// The names of the others.
    pub fn absent<'a>(&self, map: &'a MonMap) -> Vec<&'a str> {
        map.ranks.iter().map(String::as_str).filter(|name| !self.members.contains(*name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_compared_in_the_middle_of_question_and_answer() {
        let at = |sec, ms: u32| Utime { sec, nsec: ms * 1_000_000 };
        let same = ClockSample::new(at(100, 0), at(100, 50), at(100, 100));
        assert!(same.ahead_s.abs() < 1e-6 && same.skew_s() == 0.0, "{same:?}");
        let ahead = ClockSample::new(at(100, 0), at(102, 0), at(100, 20));
        assert!((ahead.ahead_s - 1.99).abs() < 1e-6 && (ahead.skew_s() - 1.98).abs() < 1e-6, "{ahead:?}");
        let behind = ClockSample::new(at(100, 0), at(98, 0), at(100, 20));
        assert!((behind.ahead_s + 2.01).abs() < 1e-6 && (behind.skew_s() - 2.0).abs() < 1e-6, "{behind:?}");
    }
}
