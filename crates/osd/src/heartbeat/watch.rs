//! The peers to ask, the times to ask them, and the peers that have been silent too long.

use super::ping_times::{PingTimes, PingView};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::OsdId;
use wire::EntityAddrVec;

/// How often peers are asked, and how long they have to answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pace {
    /// Time between two questions to one peer.
    pub ask_every: Duration,
    /// The shortest grace: a peer that leaves a question unanswered for this long is silent.
    pub grace: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { ask_every: Duration::from_secs(2), grace: GRACE_MIN }
    }
}

/// The shortest grace, unless an operator has set another one.
const GRACE_MIN: Duration = Duration::from_secs(7);

/// A peer that lately needed long for answers gets this many times its longest wait as grace, up to [`GRACE_MAX`].
const GRACE_TIMES: u32 = 6;
const GRACE_MAX: Duration = Duration::from_secs(60);
/// A longest wait is remembered for between once and twice this time.
const SLOWEST_LASTS: Duration = Duration::from_secs(300);
/// Time without an answer after which a new connection is tried. The old one may wait for the network's next attempt
/// long after the network is back.
const CONNECT_ANEW_AFTER: Duration = Duration::from_secs(5);
const _: () = assert!(
    CONNECT_ANEW_AFTER.as_millis() < GRACE_MIN.as_millis(),
    "a peer counts as silent only after a second connection was tried"
);
const _: () = assert!(GRACE_MIN.as_millis() < GRACE_MAX.as_millis(), "slow answers make the grace longer, not shorter");

/// The network that a question takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Network {
    /// The network between OSDs.
    Back,
    /// The network towards clients.
    Front,
}

/// Addresses at which a peer answers heartbeats.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PeerAddrs {
    pub back: EntityAddrVec,
    /// `None`: the peer answers on the same network.
    pub front: Option<EntityAddrVec>,
}

/// A question without an answer.
struct Ping {
    sent: Duration,
    /// The time from which the wait counts: later than `sent` if this process did not run in between.
    counts_from: Duration,
}

/// One peer on one network.
#[derive(Default)]
struct Line {
    unanswered: VecDeque<Ping>,
    /// The longest wait for an answer in the present span of [`SLOWEST_LASTS`] and in the one before.
    slowest: [Duration; 2],
    connected_anew_at: Duration,
    times: PingTimes,
}

impl Line {
    fn silence(&self, now: Duration) -> Duration {
        self.unanswered.front().map_or(Duration::ZERO, |ping| now.saturating_sub(ping.counts_from))
    }

    /// `least`: the shortest grace.
    fn grace(&self, least: Duration) -> Duration {
        (self.slowest[0].max(self.slowest[1]) * GRACE_TIMES).clamp(least, GRACE_MAX.max(least))
    }

    fn answered(&mut self, sent: Duration, now: Duration) {
        while let Some(ping) = self.unanswered.front()
            && ping.sent <= sent
        {
            if ping.sent == sent {
                let took = now.saturating_sub(ping.counts_from);
                self.slowest[0] = self.slowest[0].max(took);
                self.times.add(took, now);
            }
            self.unanswered.pop_front();
        }
    }
}

struct WatchedPeer {
    addrs: PeerAddrs,
    lines: BTreeMap<Network, Line>,
}

/// A question to ask now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    pub osd: OsdId,
    pub network: Network,
    pub addrs: EntityAddrVec,
    /// The time of the question, which also names it.
    pub sent: Duration,
    /// If true, the question goes on a new connection.
    pub connect_anew: bool,
}

/// The peers of one OSD, and the answers that they gave.
#[derive(Default)]
pub(crate) struct Watch {
    peers: BTreeMap<OsdId, WatchedPeer>,
    looked_at: Option<Duration>,
    span_began: Duration,
    pub pace: Pace,
}

impl Watch {
    /// Sets the peers to watch. A peer whose addresses have changed has started again and is watched anew.
    pub fn set_peers(&mut self, peers: &BTreeMap<OsdId, PeerAddrs>) {
        self.peers.retain(|osd, peer| peers.get(osd) == Some(&peer.addrs));
        for (&osd, addrs) in peers {
            self.peers.entry(osd).or_insert_with(|| {
                let mut lines = BTreeMap::from([(Network::Back, Line::default())]);
                if addrs.front.is_some() {
                    lines.insert(Network::Front, Line::default());
                }
                WatchedPeer { addrs: addrs.clone(), lines }
            });
        }
    }

    /// Returns the questions to ask now. The caller calls this every [`Pace::ask_every`].
    /// A longer pause shows that this
    /// process did not run, and the peers are not to blame.
    pub fn tick(&mut self, now: Duration) -> Vec<Question> {
        let since = self.looked_at.replace(now).map_or(Duration::ZERO, |before| now.saturating_sub(before));
        let every = self.pace.ask_every;
        let lapse = if since > 2 * every { since - every } else { Duration::ZERO };
        let new_span = now >= self.span_began + SLOWEST_LASTS;
        if new_span {
            self.span_began = now;
        }
        let mut questions = Vec::new();
        // An answer names its question by that time in whole microseconds.
        let sent = Duration::from_micros(u64::try_from(now.as_micros()).unwrap_or(u64::MAX));
        for (&osd, peer) in &mut self.peers {
            for (&network, line) in &mut peer.lines {
                line.unanswered.iter_mut().for_each(|ping| ping.counts_from += lapse);
                if new_span {
                    line.slowest = [Duration::ZERO, line.slowest[0]];
                }
                let silence = line.silence(now);
                let anew = silence >= CONNECT_ANEW_AFTER && now >= line.connected_anew_at + CONNECT_ANEW_AFTER;
                if anew {
                    line.connected_anew_at = now;
                }
                // The oldest question tells the silence, so the line keeps 64 at most.
                if line.unanswered.len() < 64 {
                    line.unanswered.push_back(Ping { sent, counts_from: now });
                }
                let addrs = match network {
                    Network::Back => peer.addrs.back.clone(),
                    Network::Front => peer.addrs.front.clone().expect("asked only where there is one"),
                };
                questions.push(Question { osd, network, addrs, sent, connect_anew: anew });
            }
        }
        questions
    }

    /// Notes that a peer has answered the question of time `sent`.
    pub fn answered(&mut self, osd: OsdId, network: Network, sent: Duration, now: Duration) {
        if let Some(line) = self.peers.get_mut(&osd).and_then(|peer| peer.lines.get_mut(&network)) {
            line.answered(sent, now);
        }
    }

    /// Peers that have been silent too long on one of the networks, each with the time.
    pub fn silent(&self, now: Duration) -> BTreeMap<OsdId, Duration> {
        let of = |peer: &WatchedPeer| {
            let late = peer.lines.values().filter(|line| line.silence(now) >= line.grace(self.pace.grace));
            late.map(|line| line.silence(now)).max()
        };
        self.peers.iter().filter_map(|(&osd, peer)| Some((osd, of(peer)?))).collect()
    }

    /// The time that answers took, for each peer and network of which there is a minute's.
    pub fn ping_times(&self, now: Duration) -> Vec<PingView> {
        let lines = self.peers.iter().flat_map(|(osd, peer)| peer.lines.iter().map(move |line| (*osd, line)));
        lines.filter_map(|(osd, (network, line))| line.times.view(osd, *network, now)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: OsdId = OsdId(1);

    fn addrs(nonce: u32) -> EntityAddrVec {
        EntityAddrVec::msgr2("127.0.0.1:7000".parse().expect("an address"), nonce)
    }

    fn peers(front: bool, nonce: u32) -> BTreeMap<OsdId, PeerAddrs> {
        BTreeMap::from([(A, PeerAddrs { back: addrs(nonce), front: front.then(|| addrs(nonce)) })])
    }

    fn secs(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// Asks every two seconds from `from` to `to`. Each question is answered after `delay`, if at all.
    fn run(watch: &mut Watch, from: u64, to: u64, delay: Option<Duration>) -> Vec<(u64, Duration)> {
        let mut silent = Vec::new();
        let mut answers: VecDeque<(Duration, Network, Duration)> = VecDeque::new();
        for at in (from..to).step_by(2).map(secs) {
            while let Some((due, network, sent)) = answers.front().copied().filter(|(due, ..)| *due <= at) {
                watch.answered(A, network, sent, due);
                answers.pop_front();
            }
            for question in watch.tick(at) {
                if let Some(delay) = delay {
                    answers.push_back((at + delay, question.network, question.sent));
                }
            }
            silent.extend(watch.silent(at).get(&A).map(|silence| (at.as_secs(), *silence)));
        }
        silent
    }

    #[test]
    fn one_that_answers_is_never_silent_and_one_that_does_not_is_after_the_grace() {
        let mut watch = Watch::default();
        watch.set_peers(&peers(false, 1));
        assert_eq!(run(&mut watch, 0, 100, Some(secs(1))), []);
        let silent = run(&mut watch, 100, 120, None);
        assert_eq!(silent.first(), Some(&(106, secs(8))), "the question at 98 is the first whose answer is lost");
        watch.set_peers(&peers(false, 2));
        assert_eq!(run(&mut watch, 120, 126, None), [], "another start is another chance");
    }

    #[test]
    fn either_network_counts() {
        let mut watch = Watch::default();
        watch.set_peers(&peers(true, 1));
        for at in (0..20).step_by(2).map(secs) {
            for question in watch.tick(at) {
                if question.network == Network::Back {
                    watch.answered(A, Network::Back, question.sent, at);
                }
            }
        }
        assert_eq!(watch.silent(secs(6)), BTreeMap::new());
        assert_eq!(watch.silent(secs(7)), BTreeMap::from([(A, secs(7))]));
    }

    #[test]
    fn slow_peers_are_given_more_time_while_they_are_slow() {
        let mut watch = Watch::default();
        watch.set_peers(&peers(false, 1));
        assert_eq!(run(&mut watch, 0, 100, Some(secs(4))), []);
        let silent = run(&mut watch, 100, 140, None);
        assert_eq!(silent.first().map(|(at, _)| *at), Some(120), "six times four seconds after the question at 96");
        assert_eq!(run(&mut watch, 140, 900, Some(Duration::from_millis(1))).len(), 1, "heard of with the next answer");
        assert_eq!(run(&mut watch, 900, 920, None).first().map(|(at, _)| *at), Some(906), "that was long ago");
    }

    #[test]
    fn time_in_which_this_side_did_not_run_does_not_count() {
        let mut watch = Watch::default();
        watch.set_peers(&peers(false, 1));
        watch.tick(secs(0));
        watch.tick(secs(100));
        assert_eq!(watch.silent(secs(100)), BTreeMap::new());
        watch.tick(secs(102));
        assert_eq!(watch.silent(secs(104)), BTreeMap::new());
        assert_eq!(watch.silent(secs(105)), BTreeMap::from([(A, secs(7))]));
    }

    #[test]
    fn a_silent_peer_is_dialled_anew() {
        let mut watch = Watch::default();
        watch.set_peers(&peers(false, 1));
        let anew: Vec<u64> =
            (0..20).step_by(2).filter(|at| watch.tick(secs(*at)).iter().any(|q| q.connect_anew)).collect();
        assert_eq!(anew, [6, 12, 18]);
    }

    #[test]
    fn an_operator_s_grace_and_interval_hold() {
        let mut watch = Watch::default();
        watch.set_peers(&peers(false, 1));
        watch.pace = Pace { ask_every: secs(6), grace: secs(20) };
        for at in (0..60).step_by(6).map(secs) {
            watch.tick(at);
        }
        assert_eq!(watch.silent(secs(19)), BTreeMap::new());
        assert_eq!(watch.silent(secs(20)), BTreeMap::from([(A, secs(20))]));
        watch.pace.grace = secs(90);
        assert_eq!(watch.silent(secs(89)), BTreeMap::new());
        assert_eq!(watch.silent(secs(90)), BTreeMap::from([(A, secs(90))]));
    }

    #[test]
    fn the_time_that_answers_took_is_told_for_each_minute() {
        let mut watch = Watch::default();
        watch.set_peers(&peers(true, 1));
        run(&mut watch, 0, 60, Some(Duration::from_millis(2000)));
        assert_eq!(watch.ping_times(secs(60)), [], "no minute is over");
        run(&mut watch, 60, 130, Some(Duration::from_millis(4000)));
        let views = watch.ping_times(secs(130));
        assert_eq!(
            views.iter().map(|view| (view.osd, view.network)).collect::<Vec<_>>(),
            [(A, Network::Back), (A, Network::Front)]
        );
        assert_eq!(views[0].last, secs(4));
        assert!(views[0].over_minutes[0].average > views[0].over_minutes[1].average, "{views:?}");
        assert_eq!((views[0].over_minutes[2].least, views[0].over_minutes[2].most), (secs(2), secs(4)));
    }

    #[test]
    fn answers_are_told_apart_by_microseconds_as_they_come_back() {
        let mut watch = Watch::default();
        watch.set_peers(&peers(true, 1));
        for second in 0..70 {
            let now = secs(second) + Duration::from_nanos(987);
            for question in watch.tick(now) {
                let told = Duration::from_micros(question.sent.as_micros() as u64);
                watch.answered(question.osd, question.network, told, now + Duration::from_millis(3));
            }
            assert_eq!(watch.silent(now + secs(60)), BTreeMap::new(), "all is answered");
        }
        let views = watch.ping_times(secs(71));
        assert!(!views.is_empty() && views.iter().all(|view| view.last == Duration::from_millis(3)), "{views:?}");
    }
}
