//! Room for updates, promised before they are sent: an OSD that cannot store an update that its primary has logged
//! would have to stop, so none is sent that it has not promised room for.
//!
//! As member, an OSD promises every primary a *window*: so many bytes may be on their way to it from there. All windows
//! together are never more than there is room for, and what the OSD stores for other reasons (as primary, or because
//! objects are brought to it) leaves that alone. When room shrinks, smaller windows are told; a window counts as it was
//! until the primary has confirmed the smaller one, behind which nothing comes that was sent under the old one. Windows
//! are so large that they hold nothing back until an OSD is nearly full.
//!
//! As primary, an OSD sends an update when it fits into the windows of all members that store it. If it does not, the
//! update waits for acknowledgements and for larger windows, and is refused in the end, before anybody has it.

use crate::messages::room::{RoomSeen, RoomTold};
use osdmap::OsdMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use types::{EVersion, Epoch, OsdId, PgId};

/// The largest window of one shard of a primary. While members have much more room than that, they need not send new
/// windows.
const WINDOW_BYTES_MAX: u64 = 512 << 20;
/// Time after which a member is asked again.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(100);

/// The window that a member has promised this primary.
#[derive(Debug, Default)]
struct Window {
    bytes: u64,
    /// Time at which the window was told; `None`: it never was.
    told: Option<Duration>,
    asked: Option<Duration>,
    /// Epoch of the member's map when the window was told.
    epoch: Epoch,
    /// Bytes on their way to the member, and not acknowledged.
    in_flight: u64,
}

/// The window that this member has promised a primary.
#[derive(Clone, Copy, Debug)]
struct Promise {
    /// Bytes of the largest window that the primary may still believe in.
    bytes: u64,
    /// Bytes of the window that was told last, under this number.
    latest: u64,
    number: u64,
    confirmed: bool,
}

/// Outcome of the question if an update can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    Fits,
    /// The update cannot be sent now.
    Waits,
    /// The update takes more than the whole window, which the member has told since then, by a map that is not newer
    /// than this OSD's.
    TooLarge,
}

/// Room for updates on this OSD and on others.
#[derive(Debug)]
pub(crate) struct Rooms {
    /// No window is larger.
    window_bytes_max: u64,
    now: Duration,
    epoch: Epoch,
    windows: BTreeMap<OsdId, Window>,
    /// Updates on their way to each member of a group; of members that have all, no updates.
    in_flight: BTreeMap<(PgId, OsdId), VecDeque<(EVersion, u64)>>,
    /// Groups with updates that wait for room.
    pub waiting: BTreeSet<PgId>,
    /// Room has come since they were looked at.
    pub has_come: bool,

    promises: BTreeMap<OsdId, Promise>,
    /// OSDs that have groups in common with this one: they are who may become promised something.
    sharing: BTreeSet<OsdId>,
    /// Windows are to be told anew: others share the room, or there is too little beside what they are promised.
    shares_anew: bool,
    /// Primaries that want to be told.
    asking: BTreeSet<OsdId>,
    /// Room when windows were last looked at.
    settled_bytes: u64,
    /// Epochs in which OSDs came up of which something is known.
    up_from: BTreeMap<OsdId, Epoch>,
}

impl Default for Rooms {
    fn default() -> Rooms {
        Rooms::of_shards(1)
    }
}

impl Rooms {
    /// Returns the room of an OSD in a cluster whose OSDs have so many shards as this one, among which a primary
    /// divides its window.
    pub fn of_shards(shards: usize) -> Rooms {
        Rooms {
            window_bytes_max: WINDOW_BYTES_MAX * shards as u64,
            now: Duration::ZERO,
            epoch: Epoch(0),
            windows: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            waiting: BTreeSet::new(),
            has_come: false,
            promises: BTreeMap::new(),
            sharing: BTreeSet::new(),
            shares_anew: false,
            asking: BTreeSet::new(),
            settled_bytes: 0,
            up_from: BTreeMap::new(),
        }
    }

    pub fn set_time(&mut self, now: Duration) {
        self.now = now;
    }

    /// Follows a new map: what was said to and by OSDs that went down, or started anew, is void.
    pub fn follow_map(&mut self, map: &OsdMap, sharing: BTreeSet<OsdId>) {
        self.epoch = map.epoch;
        let came_up = |osd: OsdId| map.osd(osd).filter(|_| map.is_up(osd)).map(|osd| osd.info.up_from);
        let known: BTreeSet<OsdId> = self.windows.keys().chain(self.promises.keys()).copied().collect();
        let before = std::mem::take(&mut self.up_from);
        for osd in known.into_iter().chain(sharing.iter().copied()) {
            match came_up(osd) {
                Some(epoch) if before.get(&osd).is_none_or(|before| *before == epoch) => {
                    self.up_from.insert(osd, epoch);
                }
                now => {
                    self.windows.remove(&osd);
                    self.promises.remove(&osd);
                    self.asking.remove(&osd);
                    self.in_flight.retain(|(_, member), _| *member != osd);
                    self.up_from.extend(now.map(|epoch| (osd, epoch)));
                }
            }
        }
        self.shares_anew |= self.sharing != sharing;
        self.sharing = sharing;
        self.has_come = true;
    }

    // ---- as primary ----

    /// Tells if an update that takes so many bytes can be sent to a member. `since`: when it was first tried.
    pub fn fit(&mut self, member: OsdId, bytes: u64, since: Duration) -> Fit {
        let window = self.windows.entry(member).or_default();
        if window.told.is_some() && window.in_flight + bytes <= window.bytes {
            return Fit::Fits;
        }
        // A member that has a newer map may have left: its window is closed, but nobody lacks room.
        match window.told.is_some_and(|at| at > since) && window.epoch <= self.epoch && bytes > window.bytes {
            true => Fit::TooLarge,
            false => Fit::Waits,
        }
    }

    /// Returns true if the member is to be asked now for how much it has room.
    pub fn asks(&mut self, member: OsdId) -> bool {
        let window = self.windows.entry(member).or_default();
        let asks = window.asked.is_none_or(|at| self.now >= at + ASK_EVERY);
        if asks {
            window.asked = Some(self.now);
        }
        asks
    }

    /// Returns true if the member has said for how much it has room.
    pub fn knows(&self, member: OsdId) -> bool {
        self.windows.get(&member).is_some_and(|window| window.told.is_some())
    }

    /// Returns the window that a member has told.
    pub fn window_bytes(&self, member: OsdId) -> u64 {
        self.windows.get(&member).map_or(0, |window| window.bytes)
    }

    pub fn sent(&mut self, pgid: PgId, member: OsdId, version: EVersion, bytes: u64) {
        if bytes > 0 {
            self.windows.entry(member).or_default().in_flight += bytes;
            self.in_flight.entry((pgid, member)).or_default().push_back((version, bytes));
        }
    }

    /// Notes that the member has all updates of the group up to this version.
    pub fn durable(&mut self, pgid: PgId, member: OsdId, version: EVersion) {
        let Some(sent) = self.in_flight.get_mut(&(pgid, member)) else { return };
        let window = self.windows.get_mut(&member).expect("something was sent");
        while let Some((_, bytes)) = sent.pop_front_if(|(sent, _)| *sent <= version) {
            window.in_flight -= bytes;
            self.has_come = true;
        }
    }

    /// Forgets updates of a group that were on their way, as its interval has ended.
    pub fn forget(&mut self, pgid: PgId) {
        let of_group = (pgid, OsdId(i32::MIN))..=(pgid, OsdId(i32::MAX));
        let members: Vec<OsdId> = self.in_flight.range(of_group).map(|((_, member), _)| *member).collect();
        for member in members {
            let sent = self.in_flight.remove(&(pgid, member)).expect("just seen");
            let window = self.windows.get_mut(&member).expect("something was sent");
            window.in_flight -= sent.iter().map(|(_, bytes)| bytes).sum::<u64>();
            self.has_come |= !sent.is_empty();
        }
        self.waiting.remove(&pgid);
    }

    /// Takes the window that a member has told this OSD.
    pub fn told(&mut self, member: OsdId, message: &RoomTold) -> RoomSeen {
        let window = self.windows.entry(member).or_default();
        (window.bytes, window.epoch) = (message.bytes, message.epoch);
        window.told = Some(self.now);
        self.has_come = true;
        RoomSeen { number: message.number }
    }

    // ---- as member ----

    /// Notes that a primary wants to know its window.
    pub fn asked(&mut self, primary: OsdId) {
        self.asking.insert(primary);
    }

    /// Notes that a primary knows its window.
    pub fn seen(&mut self, primary: OsdId, message: &RoomSeen) {
        if let Some(promise) = self.promises.get_mut(&primary).filter(|promise| promise.number == message.number) {
            // Room that the primary had may be this OSD's own part now.
            self.has_come |= promise.bytes > promise.latest;
            (promise.bytes, promise.confirmed) = (promise.latest, true);
        }
    }

    /// Notes that an update of this OSD's own finds no room beside what others are promised: an OSD that has more than
    /// an even part is told of less.
    pub fn own_part_lacks(&mut self) {
        self.shares_anew = true;
    }

    /// Returns the bytes that others may still send.
    pub fn promised_bytes(&self) -> u64 {
        self.promises.values().map(|promise| promise.bytes).sum()
    }

    /// Returns the room of each primary that has no more than an even part. A primary that has more keeps it until less
    /// is confirmed, which one that is about to be found dead never does: the others share the room that is left.
    fn share(&self, room_bytes: u64, even: u64, parts: usize) -> u64 {
        let (mut left, mut others) = (room_bytes, parts);
        for promise in self.promises.values().filter(|promise| promise.bytes > even) {
            (left, others) = (left.saturating_sub(promise.bytes), others.saturating_sub(1));
        }
        even.min(left / others.max(1) as u64)
    }

    /// Returns what primaries must be told, before updates that came in this turn are acknowledged: with an
    /// acknowledgement a primary may send as much again. To be called at the end of a turn, with the store's room.
    pub fn settle(&mut self, room_bytes: u64, is_tick: bool) -> Vec<(OsdId, RoomTold)> {
        let is_tick = is_tick | std::mem::take(&mut self.shares_anew);
        let is_short = self.promised_bytes() > room_bytes;
        let has_shrunk = is_short || room_bytes < self.settled_bytes - self.settled_bytes / 4;
        if self.asking.is_empty() && !is_tick && !has_shrunk {
            return Vec::new();
        }
        self.settled_bytes = room_bytes;
        let asking = std::mem::take(&mut self.asking);
        // One part is for this OSD's own updates.
        let unknown = asking.iter().filter(|osd| !self.sharing.contains(osd)).count();
        let parts = self.sharing.len() + unknown + 1;
        let even = (room_bytes / parts as u64).min(self.window_bytes_max);
        let share = self.share(room_bytes, even, parts);
        let mut told = Vec::new();
        let primaries: BTreeSet<OsdId> = asking.iter().chain(self.promises.keys()).copied().collect();
        for primary in primaries {
            let is_asking = asking.contains(&primary);
            let promised = self.promised_bytes();
            let promise = self.promises.entry(primary);
            let promise = promise.or_insert(Promise { bytes: 0, latest: 0, number: 0, confirmed: true });
            let wanted = match is_asking || self.sharing.contains(&primary) {
                true if promise.bytes > even => even,
                true => share,
                false => 0,
            };
            let left = room_bytes.saturating_sub(promised - promise.bytes);
            let bytes = wanted.min(left);
            let worth_telling = bytes < promise.latest / 2
                || is_short && bytes < promise.latest
                || is_tick
                    && (bytes > promise.latest + promise.latest / 4
                        // Objects that are brought here find room only in the part that nobody is promised.
                        || bytes < promise.latest - promise.latest / 8
                        || !promise.confirmed
                        || wanted == 0 && bytes < promise.latest);
            if is_asking || worth_telling {
                promise.bytes = promise.bytes.max(bytes);
                (promise.latest, promise.number, promise.confirmed) = (bytes, promise.number + 1, false);
                told.push((primary, RoomTold { bytes, number: promise.number, epoch: self.epoch }));
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdmap::Incremental;
    use proptest::prelude::*;
    use types::{Fsid, Utime};

    const MEMBER: OsdId = OsdId(100);
    const PG: PgId = PgId::new(1, 0);

    enum Said {
        Get,
        Seen(RoomSeen),
        Update { version: u64, bytes: u64 },
    }

    enum Answered {
        Told(RoomTold),
        Durable(u64),
    }

    #[derive(Default)]
    struct Primary {
        rooms: Rooms,
        versions: u64,
        to_member: VecDeque<Said>,
        from_member: VecDeque<Answered>,
    }

    impl Primary {
        /// Sends an update if it may.
        fn update(&mut self, bytes: u64, since: Duration) -> Fit {
            let fit = self.rooms.fit(MEMBER, bytes, since);
            if fit == Fit::Fits {
                self.versions += 1;
                let version = EVersion { epoch: Epoch(1), version: self.versions };
                self.rooms.sent(PG, MEMBER, version, bytes);
                self.to_member.push_back(Said::Update { version: self.versions, bytes });
            } else if self.rooms.asks(MEMBER) {
                self.to_member.push_back(Said::Get);
            }
            fit
        }

        fn hear(&mut self) {
            match self.from_member.pop_front() {
                Some(Answered::Told(told)) => {
                    let seen = self.rooms.told(MEMBER, &told);
                    self.to_member.push_back(Said::Seen(seen));
                }
                Some(Answered::Durable(version)) => {
                    self.rooms.durable(PG, MEMBER, EVersion { epoch: Epoch(1), version });
                }
                None => {}
            }
        }
    }

    struct Member {
        rooms: Rooms,
        room: u64,
        durable: Vec<(usize, u64)>,
    }

    impl Member {
        fn hear(&mut self, id: usize, primary: &mut Primary) {
            match primary.to_member.pop_front() {
                Some(Said::Get) => self.rooms.asked(OsdId(id as i32)),
                Some(Said::Seen(seen)) => self.rooms.seen(OsdId(id as i32), &seen),
                Some(Said::Update { version, bytes }) => {
                    assert!(bytes <= self.room, "{bytes} bytes come where there is room for {}", self.room);
                    self.room -= bytes;
                    self.durable.push((id, version));
                }
                None => {}
            }
        }

        fn settle(&mut self, primaries: &mut [Primary], is_tick: bool) {
            for (osd, told) in self.rooms.settle(self.room, is_tick) {
                primaries[osd.0 as usize].from_member.push_back(Answered::Told(told));
            }
            for (id, version) in std::mem::take(&mut self.durable) {
                primaries[id].from_member.push_back(Answered::Durable(version));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// However messages are late, and whoever else takes room: what was promised is there.
        #[test]
        fn promises_are_kept(
            room in 0u64..3000, count in 1usize..5, sharing in 0usize..6,
            events in proptest::collection::vec((0u8..12, 0usize..5, 1u64..400), 0..600),
        ) {
            let mut member = Member { rooms: Rooms::default(), room, durable: Vec::new() };
            member.rooms.sharing = (0..sharing as i32).map(OsdId).collect();
            let mut primaries: Vec<Primary> = (0..count).map(|_| Primary::default()).collect();
            let mut now = Duration::from_secs(1);
            for (event, who, bytes) in events {
                now += Duration::from_millis(60);
                let who = who % count;
                primaries[who].rooms.set_time(now);
                match event {
                    0..3 => drop(primaries[who].update(bytes, now)),
                    3..6 => member.hear(who, &mut primaries[who]),
                    6..9 => primaries[who].hear(),
                    9 if member.room >= member.rooms.promised_bytes() + bytes => member.room -= bytes,
                    10 => member.room += bytes,
                    _ => member.settle(&mut primaries, bytes % 2 == 0),
                }
                member.settle(&mut primaries, false);
            }
            // Room comes back, and in the end everybody knows.
            member.room += 100_000;
            for round in 0..6 {
                now += Duration::from_secs(1);
                for id in 0..count {
                    primaries[id].rooms.set_time(now);
                    if round == 0 {
                        primaries[id].update(1, now);
                    }
                    while !primaries[id].to_member.is_empty() || !primaries[id].from_member.is_empty() {
                        member.hear(id, &mut primaries[id]);
                        member.settle(&mut primaries, false);
                        primaries[id].hear();
                    }
                }
                member.settle(&mut primaries, true);
            }
            for (id, primary) in primaries.iter_mut().enumerate() {
                if id < sharing {
                    prop_assert_eq!(primary.update(5000, now), Fit::Fits);
                }
            }
        }
    }

    /// One primary was given half of the room, as the only one, and does not answer when two others come.
    #[test]
    fn one_that_does_not_answer_leaves_the_others_a_part() {
        const ROOM: u64 = 240;
        let mut rooms = Rooms { sharing: [OsdId(2)].into(), ..Rooms::default() };
        rooms.asked(OsdId(2));
        let told = rooms.settle(ROOM, false);
        assert_eq!(told[0].1.bytes, 120);
        rooms.seen(OsdId(2), &RoomSeen { number: told[0].1.number });
        (rooms.sharing, rooms.shares_anew) = ((0..3).map(OsdId).collect(), true);
        for osd in [OsdId(0), OsdId(1)] {
            rooms.asked(osd);
        }
        let told: BTreeMap<OsdId, u64> =
            rooms.settle(ROOM, false).into_iter().map(|(osd, told)| (osd, told.bytes)).collect();
        assert_eq!(told, BTreeMap::from([(OsdId(0), 40), (OsdId(1), 40), (OsdId(2), 60)]));
        assert_eq!(rooms.promised_bytes(), 200, "what is left is this OSD's own part");
    }

    /// Room shrinks slowly, so that nothing need be said, until others are promised all of it.
    #[test]
    fn others_have_less_when_this_osd_has_no_room_for_its_own() {
        let mut rooms = Rooms { sharing: (0..3).map(OsdId).collect(), ..Rooms::default() };
        (0..3).map(OsdId).for_each(|osd| rooms.asked(osd));
        for (osd, told) in rooms.settle(400, false) {
            rooms.seen(osd, &RoomSeen { number: told.number });
        }
        assert_eq!((rooms.settle(310, false), rooms.promised_bytes()), (vec![], 300));
        rooms.has_come = false;
        rooms.own_part_lacks();
        let told = rooms.settle(310, false);
        assert_eq!(told.iter().map(|(_, told)| told.bytes).collect::<Vec<_>>(), [77, 77, 77]);
        assert_eq!((rooms.promised_bytes(), rooms.has_come), (300, false), "they may believe in more still");
        rooms.seen(OsdId(1), &RoomSeen { number: told[1].1.number });
        assert_eq!((rooms.promised_bytes(), rooms.has_come), (277, true));
        assert_eq!(rooms.settle(310, false), [], "that was said");
    }

    #[test]
    fn who_starts_anew_knows_nothing_and_is_owed_nothing() {
        let mut map = OsdMap::new(Fsid([1; 16]));
        let up = |map: &mut OsdMap, down: bool| {
            let mut next = Incremental::after(map, Utime::ZERO);
            let at: wire::EntityAddrVec = "v2:127.0.0.1:6800/1".parse().expect("an address");
            next.new_max_osd = Some(3);
            match down {
                true => next.mark_down(OsdId(1)),
                false => next.mark_up(OsdId(1), at.clone(), at.clone(), at.clone(), at),
            }
            map.apply(&next).expect("it fits");
        };
        up(&mut map, false);
        let mut rooms = Rooms::default();
        rooms.set_time(Duration::from_secs(1));
        rooms.follow_map(&map, [OsdId(1)].into());
        rooms.asked(OsdId(1));
        let told = rooms.settle(1000, false);
        let epoch = map.epoch;
        for (shards, bytes) in [(1, WINDOW_BYTES_MAX), (4, 4 * WINDOW_BYTES_MAX)] {
            let mut rooms = Rooms::of_shards(shards);
            rooms.follow_map(&map, [OsdId(1)].into());
            rooms.asked(OsdId(1));
            let told = rooms.settle(1 << 40, false);
            assert_eq!(
                told,
                [(OsdId(1), RoomTold { bytes, number: 1, epoch })],
                "each shard of the primary gets its part"
            );
        }
        assert_eq!(told, [(OsdId(1), RoomTold { bytes: 500, number: 1, epoch })]);
        rooms.told(OsdId(1), &RoomTold { bytes: 300, number: 1, epoch });
        rooms.sent(PG, OsdId(1), EVersion { epoch: Epoch(1), version: 1 }, 200);
        let since = Duration::from_millis(900);
        assert_eq!(rooms.fit(OsdId(1), 100, since), Fit::Fits);
        assert_eq!(rooms.fit(OsdId(1), 101, since), Fit::Waits);
        assert_eq!(rooms.fit(OsdId(1), 301, since), Fit::TooLarge);
        let newer = Epoch(map.epoch.0 + 1);
        rooms.told(OsdId(1), &RoomTold { bytes: 0, number: 2, epoch: newer });
        assert_eq!(rooms.fit(OsdId(1), 1, since), Fit::Waits, "by a map that is to come it may be no member");
        rooms.told(OsdId(1), &RoomTold { bytes: 300, number: 3, epoch });
        rooms.follow_map(&map, [OsdId(1)].into());
        assert_eq!((rooms.promised_bytes(), rooms.fit(OsdId(1), 100, since)), (500, Fit::Fits));
        up(&mut map, true);
        rooms.follow_map(&map, BTreeSet::new());
        assert_eq!((rooms.promised_bytes(), rooms.knows(OsdId(1))), (0, false));
        up(&mut map, false);
        rooms.follow_map(&map, [OsdId(1)].into());
        rooms.forget(PG);
        assert_eq!(rooms.fit(OsdId(1), 100, since), Fit::Waits);
        // Two members of one group, one of them slow.
        rooms.told(OsdId(1), &RoomTold { bytes: 300, number: 1, epoch });
        for version in 1..=3 {
            rooms.sent(PG, OsdId(1), EVersion { epoch: Epoch(1), version }, 100);
        }
        rooms.durable(PG, OsdId(1), EVersion { epoch: Epoch(1), version: 2 });
        assert_eq!(rooms.fit(OsdId(1), 200, since), Fit::Fits);
        assert_eq!(rooms.fit(OsdId(1), 201, since), Fit::Waits);
        rooms.forget(PG);
        assert_eq!(rooms.fit(OsdId(1), 300, since), Fit::Fits);
    }
}
