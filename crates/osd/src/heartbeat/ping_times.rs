//! The time that other OSDs needed for their answers, minute by minute.

use super::Network;
use std::collections::VecDeque;
use std::time::Duration;
use types::{OsdId, Utime};
use wire::nacre::mon::{PingReport, PingTook};

/// Minutes that are kept.
const MINUTES: usize = 15;
const MINUTE: Duration = Duration::from_secs(60);

/// Answers of a span of time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Answers {
    count: u32,
    sum: Duration,
    least: Duration,
    most: Duration,
}

impl Answers {
    fn and(self, other: Answers) -> Answers {
        match (self.count, other.count) {
            (_, 0) => self,
            (0, _) => other,
            _ => Answers {
                count: self.count + other.count,
                sum: self.sum + other.sum,
                least: self.least.min(other.least),
                most: self.most.max(other.most),
            },
        }
    }
}

/// The time that answers took over some minutes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Took {
    pub average: Duration,
    pub least: Duration,
    pub most: Duration,
}

/// The time that answers of one peer took on one network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PingView {
    pub osd: OsdId,
    pub network: Network,
    /// Over the last minute, five and fifteen minutes that are over.
    pub over_minutes: [Took; 3],
    pub last: Duration,
    /// Time since that last answer.
    pub age: Duration,
}

impl PingView {
    /// Returns it as the monitors are told. `wall`: the present time.
    pub fn report(&self, wall: Utime) -> PingReport {
        let us = |took: Duration| u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let of =
            |took: &Took| PingTook { average_us: us(took.average), least_us: us(took.least), most_us: us(took.most) };
        let [one, five, fifteen] = self.over_minutes.each_ref().map(of);
        PingReport {
            osd: self.osd,
            is_front: self.network == Network::Front,
            one,
            five,
            fifteen,
            last_us: us(self.last),
            answered_at: Utime::from_unix(wall.to_unix().saturating_sub(self.age)),
        }
    }
}

/// Answers of one peer on one network.
#[derive(Default)]
pub(crate) struct PingTimes {
    /// The present minute's, which began at `began`.
    present: Answers,
    began: Duration,
    /// Answers of each minute that is over, the last one first.
    minutes: VecDeque<Answers>,
    last: Duration,
    answered_at: Duration,
}

impl PingTimes {
    /// Notes an answer that took this long.
    pub fn add(&mut self, took: Duration, now: Duration) {
        if self.present.count == 0 {
            self.began = now;
        } else if now >= self.began + MINUTE {
            self.minutes.push_front(std::mem::take(&mut self.present));
            self.minutes.truncate(MINUTES);
            self.began = now;
        }
        self.present = self.present.and(Answers { count: 1, sum: took, least: took, most: took });
        (self.last, self.answered_at) = (took, now);
    }

    /// `None`: no minute is over yet.
    pub fn view(&self, osd: OsdId, network: Network, now: Duration) -> Option<PingView> {
        self.minutes.front()?;
        let over = |minutes: usize| {
            let all = self.minutes.iter().take(minutes).fold(Answers::default(), |all, next| all.and(*next));
            Took { average: all.sum / all.count.max(1), least: all.least, most: all.most }
        };
        let age = now.saturating_sub(self.answered_at);
        Some(PingView { osd, network, over_minutes: [1, 5, MINUTES].map(over), last: self.last, age })
    }
}
