//! The monitors that decide, and the differences of their clocks.

use osdmap::MonMap;
use std::collections::BTreeMap;
use std::ops::Deref;
use types::Utime;
use wire::nacre::quorum::QuorumReport;

/// The monitors that decide, as the leader sees them, or as it told this monitor.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Quorum {
    pub report: QuorumReport,
    /// Samples that the leader has of the others' clocks, by name.
    pub clocks: BTreeMap<String, ClockSample>,
}

/// Another monitor's clock, compared once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClockSample {
    /// Seconds by which it is ahead.
    pub ahead_s: f64,
    /// Seconds from the question to its answer; `ahead_s` may be wrong by half of that.
    pub latency_s: f64,
}

impl ClockSample {
    /// Makes a sample of a question asked at `asked` by the own clock, answered at `there` by the other one, the answer
    /// heard at `heard`.
    pub fn new(asked: Utime, there: Utime, heard: Utime) -> ClockSample {
        let seconds = |t: Utime| f64::from(t.sec) + f64::from(t.nsec) / 1e9;
        let (asked, there, heard) = (seconds(asked), seconds(there), seconds(heard));
        ClockSample { ahead_s: there - (asked + heard) / 2.0, latency_s: heard - asked }
    }

    /// Returns the least difference of the clocks, in seconds.
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
    /// Returns the ranks of the monitors that decide.
    pub fn ranks(&self, map: &MonMap) -> Vec<usize> {
        (0..map.ranks.len()).filter(|rank| self.members.contains(&map.ranks[*rank])).collect()
    }

    /// Returns the names of the monitors that decide, by rank.
    pub fn names<'a>(&self, map: &'a MonMap) -> Vec<&'a str> {
        map.ranks.iter().map(String::as_str).filter(|name| self.members.contains(*name)).collect()
    }

    /// Returns the names of the monitors that do not decide, by rank.
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
