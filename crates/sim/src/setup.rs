//! What a run is made of.

use crate::faults::Mix;
use reactor::sim::Rng;

/// One seed of a swarm in so many has an erasure-coded pool.
const CODED_ONE_IN: u64 = 6;

/// Clocks may run so much faster or slower than the world's, in parts per million: leases allow for a tenth between
/// two.
pub const DRIFT_PPM_MAX: i64 = 47_000;

/// From this seed on, small runs have erasure-coded pools.
pub const CODED_SEEDS: u64 = 1 << 40;
/// From this seed on, pools of small runs get more placement groups meanwhile; those that are also [`CODED_SEEDS`] are
/// erasure-coded.
pub const SPLIT_SEEDS: u64 = 1 << 41;

/// From this seed on, pools of small runs get more placement groups and fewer again; those that are also
/// [`CODED_SEEDS`] are erasure-coded.
pub const MERGE_SEEDS: u64 = 1 << 43;

/// From this seed on, if they are also [`CODED_SEEDS`], the operator places groups of small runs anywhere.
pub const PLACE_SEEDS: u64 = 1 << 45;

/// From this seed on, small runs have three or five monitors, and what befalls them among other things.
pub const QUORUM_SEEDS: u64 = 1 << 44;
/// From this seed on, runs of a swarm have one, three or five monitors. Those before were run when there was one.
const QUORUM_SWARM_FROM: u64 = 7000;
/// From this seed of the swarm on, clients also call object classes and remove snapshots.
const MORE_SWARM_FROM: u64 = QUORUM_SWARM_FROM;

/// From this seed of the swarm on, in some runs pools get more placement groups, and replicated ones fewer again,
/// groups of erasure-coded pools are placed anywhere, and clients watch.
const ALL_SWARM_FROM: u64 = 20_000;
/// From this seed of the swarm on, erasure-coded ones get fewer again, too.
const CODED_MERGES_SWARM_FROM: u64 = 80_000;
/// Groups of erasure-coded pools may have to exchange shards before they are merged, for which it takes another OSD.
const SPARE_TO_MERGE: usize = 1;
/// One seed of a swarm in so many has each of these.
const SPLITS_ONE_IN: u64 = 4;
const WATCH_ONE_IN: u64 = 4;
const PLACES_ONE_IN: u64 = 2;

/// From this seed on, some clients of small runs watch objects.
pub const WATCH_SEEDS: u64 = 1 << 46;

/// From this seed on, small runs have OSDs that are alone with clients that read.
pub const ISLAND_SEEDS: u64 = 1 << 47;

/// From this seed on, clients of small runs take snapshots.
pub const SNAP_SEEDS: u64 = 1 << 42;
/// From this seed on, small runs have erasure-coded pools and snapshots of them.
pub const CODED_SNAP_SEEDS: u64 = 1 << 48;
/// From this seed on, clients of small runs read from any member of a placement group, if the pool is replicated.
pub const BALANCED_SEEDS: u64 = 1 << 49;
/// From this seed on, clients of small runs call the class `version`, too, if the pool is replicated; so do those of
/// the swarm from [`BALANCED_SWARM_FROM`] on.
pub const VERSION_SEEDS: u64 = 1 << 50;
/// From this seed on, OSDs of small runs have two shards, or four.
pub const SHARD_SEEDS: u64 = 1 << 51;
/// From this seed of the swarm on, so do those of one seed in so many.
const SHARD_SWARM_FROM: u64 = 60_000;
const SHARDS_ONE_IN: u64 = 3;
/// From this seed of the swarm on, so do those of one seed in so many.
const BALANCED_SWARM_FROM: u64 = 40_000;
const BALANCED_ONE_IN: u64 = 3;
/// From this seed on, sessions of OSDs end in small runs, among other things, and objects go in small pieces.
pub const SESSION_SEEDS: u64 = 1 << 53;
/// From this seed of the swarm on, in some runs sessions of OSDs end, and objects go in small pieces.
const SESSION_SWARM_FROM: u64 = 17_957_600_000;
/// One seed of a swarm in so many has each of these.
const SESSIONS_ONE_IN: u64 = 3;
const PIECES_ONE_IN: u64 = 2;
/// From this seed on, clients of small runs also copy objects, repeat patterns and set long values; so do those of the
/// swarm from [`HEAVY_SWARM_FROM`] on, under every other seed.
pub const HEAVY_SEEDS: u64 = 1 << 52;
const HEAVY_SWARM_FROM: u64 = 17_957_000_000;

/// From this seed on, more copies, or shards, of an object of small runs rot in the end than others can make up for.
pub const LOSS_SEEDS: u64 = 1 << 54;
/// From this seed on, disks of an OSD of small runs go back to what they were, in the end, as if they had lied about
/// flushes.
pub const LIE_SEEDS: u64 = 1 << 55;
/// From this seed on, OSDs and monitors of small runs take time for what they do.
pub const BUSY_SEEDS: u64 = 1 << 56;
/// From this seed on, flushes of OSDs of small runs fail, and lose what they were to make durable.
pub const FLUSH_SEEDS: u64 = 1 << 57;
/// From this seed on, machines of small runs sleep, or are paused with their clocks, and wall clocks jump by hours.
pub const SLEEP_SEEDS: u64 = 1 << 58;
/// From this seed on, OSDs of small runs have so little memory for clients that these wait for it.
pub const MEMORY_SEEDS: u64 = 1 << 59;
/// From this seed on, small runs have several monitors, and single connections with them are slow.
pub const ROUTE_SEEDS: u64 = 1 << 60;
/// From this seed on, somebody tries to start OSDs of small runs a second time.
pub const TWICE_SEEDS: u64 = 1 << 61;
/// From this seed of the swarm on, each of these newer kinds is there in one run of so many.
const NEWER_SWARM_FROM: u64 = 17_958_000_000;
const NEWER_ONE_IN: u64 = 4;
/// Kinds of misfortunes that come with such bits of small seeds.
const NEWER: [(u64, Mix); 4] =
    [(FLUSH_SEEDS, Mix::Flushes), (SLEEP_SEEDS, Mix::Sleeps), (ROUTE_SEEDS, Mix::Routes), (TWICE_SEEDS, Mix::Twice)];
/// One seed of a swarm in so many has snapshots, if its pool is replicated.
const SNAPS_ONE_IN: u64 = 4;

/// Size and misfortunes of a run. With the seed it determines everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    pub seed: u64,
    /// Each misfortune is drawn from one of these.
    pub mixes: Vec<Mix>,
    /// Monitors in the beginning.
    pub mons: usize,
    pub osds: usize,
    /// Copies of each object.
    pub copies: u8,
    /// Data and parity shards instead, if the pool is erasure-coded.
    pub coding: Option<(u8, u8)>,
    /// Client operations, about; `None`: some 200, as tests have them.
    pub operations: Option<u32>,
    /// Clocks run at different rates.
    pub drift: bool,
    /// The pool gets more placement groups meanwhile.
    pub splits: bool,
    /// It gets fewer again, too.
    pub merges: bool,
    /// Clients take snapshots.
    pub snapshots: bool,
    /// Groups are placed anywhere meanwhile.
    pub places: bool,
    /// Some clients watch objects.
    pub watches: bool,
    /// Clients call the class `version`, too.
    pub versions: bool,
    /// Members that are not the primary are read from, too.
    pub balanced: bool,
    /// Shards of each OSD.
    pub shards: usize,
    /// What one message brings of an object to an OSD that lacks it, if not as much as elsewhere.
    pub piece_bytes: Option<u64>,
    /// Clients also copy objects, repeat patterns and set long values.
    pub heavy: bool,
    /// An object is lost in the end.
    pub loses: bool,
    /// Before that, disks of an OSD turn out to have lied about flushes.
    pub lies: bool,
    /// What OSDs and monitors do takes time.
    pub busy: bool,
    /// What each shard of an OSD has of memory for clients, if not as much as elsewhere.
    pub client_bytes: Option<usize>,
}

/// What of a [`Setup`] does not follow from the seed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wishes {
    /// A small run of one kind of misfortune, as in tests.
    pub small: bool,
    pub operations: Option<u32>,
    pub mons: Option<usize>,
    pub osds: Option<usize>,
    pub copies: Option<u8>,
    pub coding: Option<(u8, u8)>,
    pub shards: Option<usize>,
    pub mixes: Vec<Mix>,
}

impl Setup {
    /// A small run: 3 to 5 OSDs, some 200 operations, one mix of misfortunes.
    pub fn small(seed: u64) -> Setup {
        let mix = if seed & ISLAND_SEEDS != 0 { Mix::Islands } else { Mix::of(seed) };
        let mut rng = Rng::new(seed ^ 0x51e5);
        // Some more than there are copies, where data is to move; there are at most four shards.
        let has_both = seed & CODED_SNAP_SEEDS != 0;
        let is_coded = has_both || seed & CODED_SEEDS != 0;
        let places = seed & PLACE_SEEDS != 0 && is_coded;
        let mut osds =
            (if mix.wants_spare_osds() || is_coded { 4 } else { 3 }) + rng.below(2) as usize + usize::from(places);
        let (coding, merges) = (is_coded.then(|| (2, 1 + rng.below(2) as u8)), seed & MERGE_SEEDS != 0);
        if let Some((k, m)) = coding.filter(|_| merges) {
            osds = osds.max(usize::from(k + m) + SPARE_TO_MERGE);
        }
        let splits = merges || seed & SPLIT_SEEDS != 0;
        let snapshots = has_both || seed & SNAP_SEEDS != 0 && !is_coded;
        let (mut mixes, operations, mut mons) = (vec![mix], None, 1);
        if seed & QUORUM_SEEDS != 0 {
            (mixes, mons) = (mixes_with_quorum(mixes, &mut rng), 3 + 2 * usize::from(rng.one_in(3)));
        }
        let piece_bytes = (seed & SESSION_SEEDS != 0).then(|| small_pieces(&mut rng));
        if piece_bytes.is_some() {
            mixes.push(Mix::Sessions);
        }
        if seed & ROUTE_SEEDS != 0 {
            mons = mons.max(3);
        }
        for (from, mix) in NEWER {
            if seed & from != 0 {
                // Half of the time it comes with what else a small run has.
                if rng.one_in(2) {
                    mixes.clear();
                }
                mixes.push(mix);
            }
        }
        let watches = seed & WATCH_SEEDS != 0 && !is_coded;
        let loses = seed & LOSS_SEEDS != 0;
        if loses {
            // Somebody is to take the place of one who has a copy.
            osds = osds.max(coding.map_or(3, |(k, m)| usize::from(k + m)) + 1);
        }
        Setup {
            seed,
            mixes,
            mons,
            osds,
            copies: 3,
            coding,
            operations,
            drift: false,
            splits,
            merges,
            snapshots,
            places,
            watches,
            versions: seed & VERSION_SEEDS != 0,
            balanced: seed & BALANCED_SEEDS != 0 && !is_coded,
            // What is lost is given up by an OSD's first shard.
            shards: if seed & SHARD_SEEDS != 0 && !loses { 2 << rng.below(2) } else { 1 },
            piece_bytes,
            heavy: seed & HEAVY_SEEDS != 0,
            loses,
            lies: seed & LIE_SEEDS != 0,
            busy: seed & BUSY_SEEDS != 0,
            client_bytes: (seed & MEMORY_SEEDS != 0).then(|| little_memory(&mut rng)),
        }
    }

    /// A run of a swarm: each seed has another size and another mix of misfortunes, so that what the one hides the
    /// other shows (Groce et al., "Swarm testing", 2012).
    pub fn swarm(seed: u64) -> Setup {
        let mut rng = Rng::new(seed ^ 0x5a9a);
        let copies = if rng.one_in(4) { 2 } else { 3 };
        let mixes = match rng.below(12) {
            // Alone, as copies of what rots must stay.
            0 => vec![Mix::Rot],
            n => {
                let mut left: Vec<Mix> = Mix::swarming().collect();
                (0..1 + n % 4).map(|_| left.swap_remove(rng.below(left.len() as u64) as usize)).collect()
            }
        };
        let osds = match rng.below(100) {
            0 => 13 + rng.below(18),
            1..10 => 7 + rng.below(6),
            _ => 3 + rng.below(4),
        };
        let spare = usize::from(mixes.iter().any(|mix| mix.wants_spare_osds()));
        let (operations, drift) = (Some(1000 + rng.below(500) as u32), rng.one_in(2));
        let coding = rng.one_in(CODED_ONE_IN).then(|| (2, 1 + rng.below(2) as u8));
        let (splits, merges, snapshots, places) = (false, false, false, false);
        let mons = 1;
        let mut setup = Setup {
            seed,
            mixes,
            mons,
            osds: 0,
            copies,
            coding,
            operations,
            drift,
            splits,
            merges,
            snapshots,
            places,
            watches: false,
            versions: seed >= BALANCED_SWARM_FROM,
            balanced: false,
            shards: 1,
            piece_bytes: None,
            heavy: seed >= HEAVY_SWARM_FROM && seed.is_multiple_of(2),
            loses: false,
            lies: false,
            busy: false,
            client_bytes: None,
        };
        setup.osds = (osds as usize).max(setup.members() + spare);
        setup.snapshots = coding.is_none() && rng.one_in(SNAPS_ONE_IN);
        if seed >= QUORUM_SWARM_FROM {
            setup.mons = [1, 3, 3, 3, 5][rng.below(5) as usize];
        }
        if setup.mons > 1 {
            setup.mixes = mixes_with_quorum(setup.mixes, &mut rng);
        }
        if seed >= ALL_SWARM_FROM {
            setup.splits = rng.one_in(SPLITS_ONE_IN);
            setup.merges = setup.splits && setup.coding.is_none() && rng.one_in(2);
            setup.watches = setup.coding.is_none() && rng.one_in(WATCH_ONE_IN);
            setup.places = setup.coding.is_some() && rng.one_in(PLACES_ONE_IN);
            setup.osds = setup.osds.max(setup.members() + spare + usize::from(setup.places));
        }
        if seed >= BALANCED_SWARM_FROM {
            setup.balanced = setup.coding.is_none() && rng.one_in(BALANCED_ONE_IN);
        }
        if seed >= SHARD_SWARM_FROM && rng.one_in(SHARDS_ONE_IN) {
            setup.shards = 2 << rng.below(2);
        }
        if seed >= CODED_MERGES_SWARM_FROM && setup.coding.is_some() {
            setup.merges = setup.splits && rng.one_in(2);
            setup.osds = setup.osds.max(setup.members() + SPARE_TO_MERGE * usize::from(setup.merges));
        }
        if seed >= SESSION_SWARM_FROM {
            if rng.one_in(SESSIONS_ONE_IN) {
                setup.mixes.push(Mix::Sessions);
            }
            setup.piece_bytes = rng.one_in(PIECES_ONE_IN).then(|| small_pieces(&mut rng));
        }
        if seed >= NEWER_SWARM_FROM {
            setup.busy = rng.one_in(NEWER_ONE_IN);
            for (_, mix) in NEWER {
                if rng.one_in(NEWER_ONE_IN) && (setup.mons > 1 || mix != Mix::Routes) {
                    setup.mixes.push(mix);
                }
            }
            setup.client_bytes = rng.one_in(NEWER_ONE_IN).then(|| little_memory(&mut rng));
            if setup.has(Mix::Rot) {
                // No other OSD than the one with the bad disk goes away: of two copies the other may be the only good
                // one, and the group would be served, and answer for updates, without it.
                setup.mixes.retain(|mix| matches!(mix, Mix::Rot | Mix::Quorum));
            }
        }
        setup
    }

    pub fn of(seed: u64, wishes: &Wishes) -> Setup {
        let mut setup = if wishes.small { Setup::small(seed) } else { Setup::swarm(seed) };
        if !wishes.mixes.is_empty() {
            setup.mixes.clone_from(&wishes.mixes);
        }
        setup.mons = wishes.mons.unwrap_or(setup.mons);
        if let Some(copies) = wishes.copies {
            (setup.copies, setup.coding) = (copies, None);
        }
        setup.coding = wishes.coding.or(setup.coding);
        setup.snapshots &= setup.coding.is_none() || wishes.small && seed & CODED_SNAP_SEEDS != 0;
        setup.merges &= setup.coding.is_none() || wishes.coding.is_none();
        setup.watches &= setup.coding.is_none();
        setup.balanced &= setup.coding.is_none();
        setup.osds = wishes.osds.unwrap_or(setup.osds).max(setup.members());
        setup.operations = wishes.operations.or(setup.operations);
        setup.shards = wishes.shards.unwrap_or(setup.shards);
        setup
    }

    /// The flags that lead to it.
    pub fn flags(seed: u64, wishes: &Wishes) -> String {
        let mut text = format!("--seed {seed}");
        if wishes.small {
            text += " --small";
        }
        if let Some(operations) = wishes.operations {
            text += &format!(" --ops {operations}");
        }
        if let Some(mons) = wishes.mons {
            text += &format!(" --mons {mons}");
        }
        if let Some(osds) = wishes.osds {
            text += &format!(" --osds {osds}");
        }
        if let Some(copies) = wishes.copies {
            text += &format!(" --copies {copies}");
        }
        if let Some((k, m)) = wishes.coding {
            text += &format!(" --coded {k}+{m}");
        }
        if let Some(shards) = wishes.shards {
            text += &format!(" --shards {shards}");
        }
        if !wishes.mixes.is_empty() {
            let names: Vec<&str> = wishes.mixes.iter().map(|mix| mix.name()).collect();
            text += &format!(" --faults {}", names.join(","));
        }
        text
    }

    /// Members of each placement group: copies or shards.
    pub(crate) fn members(&self) -> usize {
        self.coding.map_or(self.copies, |(k, m)| k + m).into()
    }

    /// Whether clients call object classes, and remove snapshots if they take any: not in seeds of a swarm that were
    /// run when they could not.
    pub(crate) fn asks_for_more(&self) -> bool {
        self.operations.is_none() || self.seed >= MORE_SWARM_FROM
    }

    pub(crate) fn has(&self, mix: Mix) -> bool {
        self.mixes.contains(&mix)
    }

    /// The only mix, if there is one only.
    pub(crate) fn only(&self) -> Option<Mix> {
        match self.mixes[..] {
            [mix] => Some(mix),
            _ => None,
        }
    }
}

/// Some operations fill it.
fn little_memory(rng: &mut Rng) -> usize {
    (16 << 10) << rng.below(5)
}

fn small_pieces(rng: &mut Rng) -> u64 {
    4096 << rng.below(6)
}

/// Most runs with several monitors have misfortunes of theirs, many nothing else.
fn mixes_with_quorum(mixes: Vec<Mix>, rng: &mut Rng) -> Vec<Mix> {
    match rng.below(6) {
        0 => mixes,
        1 | 2 => vec![Mix::Quorum],
        _ => mixes.into_iter().chain([Mix::Quorum]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swarm_has_all_sizes_and_all_mixes() {
        let setups: Vec<Setup> = (0..2000).map(Setup::swarm).collect();
        for mix in Mix::swarming().chain([Mix::Rot]) {
            assert!(setups.iter().any(|setup| setup.has(mix)), "{mix:?}");
        }
        let osds = |osds: usize| setups.iter().filter(|setup| setup.osds == osds).count();
        assert!((3..=12).all(|count| osds(count) > 0) && osds(3) > osds(8));
        assert!(setups.iter().any(|setup| setup.osds > 20) && setups.iter().all(|setup| setup.osds <= 30));
        assert!(setups.iter().all(|setup| setup.osds >= setup.members()));
        let coded = setups.iter().filter(|setup| setup.coding.is_some()).count();
        assert!((250..420).contains(&coded), "{coded}");
        assert_eq!(Setup::swarm(7), Setup::of(7, &Wishes::default()));
        assert!(setups.iter().all(|setup| setup.mons == 1));
        let setups: Vec<Setup> = (QUORUM_SWARM_FROM..QUORUM_SWARM_FROM + 200).map(Setup::swarm).collect();
        assert!([1, 3, 5].iter().all(|mons| setups.iter().any(|setup| setup.mons == *mons)));
        assert!(setups.iter().all(|setup| setup.mons > 1 || !setup.has(Mix::Quorum)));
        assert!(setups.iter().any(|setup| setup.has(Mix::Quorum)));
        assert!(setups.iter().all(|setup| !setup.splits));
        let setups: Vec<Setup> = (ALL_SWARM_FROM..ALL_SWARM_FROM + 400).map(Setup::swarm).collect();
        let count = |has: fn(&Setup) -> bool| setups.iter().filter(|setup| has(setup)).count();
        assert!(count(|setup| setup.splits) > 50 && count(|setup| setup.splits && setup.coding.is_some()) > 5);
        assert!(count(|setup| setup.merges) > 25 && count(|setup| setup.merges && setup.coding.is_some()) == 0);
        let setups: Vec<Setup> = (CODED_MERGES_SWARM_FROM..CODED_MERGES_SWARM_FROM + 400).map(Setup::swarm).collect();
        let coded: Vec<&Setup> = setups.iter().filter(|setup| setup.merges && setup.coding.is_some()).collect();
        assert!(coded.len() > 3 && coded.iter().all(|setup| setup.osds > setup.members()));
    }

    #[test]
    fn seeds_of_old_have_no_snapshots_of_erasure_coded_pools() {
        for seed in (0..40).chain(CODED_SEEDS..CODED_SEEDS + 40).chain(SNAP_SEEDS..SNAP_SEEDS + 40) {
            let setup = Setup::small(seed);
            assert!(setup.coding.is_none() || !setup.snapshots);
            assert_eq!((setup.coding.is_some(), setup.snapshots), (seed & CODED_SEEDS != 0, seed & SNAP_SEEDS != 0));
            let setup = Setup::small(CODED_SNAP_SEEDS + seed);
            assert!(setup.coding.is_some() && setup.snapshots && setup.osds >= 4);
            assert_eq!(Setup::of(setup.seed, &Wishes { small: true, ..Wishes::default() }), setup);
        }
    }

    #[test]
    fn seeds_of_old_read_from_primaries_alone() {
        for seed in 0..40 {
            assert!(!Setup::small(seed).balanced && Setup::small(BALANCED_SEEDS + seed).balanced);
            assert!(!Setup::small(CODED_SEEDS + BALANCED_SEEDS + seed).balanced);
        }
        assert!((0..BALANCED_SWARM_FROM).step_by(100).all(|seed| !Setup::swarm(seed).balanced));
        assert!((0..60).any(|seed| Setup::swarm(BALANCED_SWARM_FROM + seed).balanced));
    }

    #[test]
    fn seeds_of_old_copy_nothing() {
        assert!((0..HEAVY_SWARM_FROM).step_by(100_000_000).all(|seed| !Setup::swarm(seed).heavy));
        assert!(Setup::swarm(HEAVY_SWARM_FROM).heavy && !Setup::swarm(HEAVY_SWARM_FROM + 1).heavy);
        assert!((0..40).all(|seed| !Setup::small(seed).heavy && Setup::small(HEAVY_SEEDS + seed).heavy));
    }

    #[test]
    fn seeds_of_old_have_osds_of_one_shard() {
        assert!((0..SHARD_SWARM_FROM).step_by(100).all(|seed| Setup::swarm(seed).shards == 1));
        let later: Vec<usize> = (0..60).map(|seed| Setup::swarm(SHARD_SWARM_FROM + seed).shards).collect();
        assert!([1, 2, 4].iter().all(|shards| later.contains(shards)), "{later:?}");
        assert!((0..40).all(|seed| Setup::small(seed).shards == 1 && Setup::small(SHARD_SEEDS + seed).shards > 1));
    }

    #[test]
    fn sessions_of_seeds_of_old_do_not_end() {
        let ends = |setup: &Setup| setup.has(Mix::Sessions) || setup.piece_bytes.is_some();
        assert!((0..SESSION_SWARM_FROM).step_by(100_000_000).all(|seed| !ends(&Setup::swarm(seed))));
        let later: Vec<Setup> = (0..60).map(|seed| Setup::swarm(SESSION_SWARM_FROM + seed)).collect();
        assert!(later.iter().any(|setup| setup.has(Mix::Sessions)));
        assert!(later.iter().any(|setup| setup.piece_bytes == Some(4096)));
        assert!((0..40).all(|seed| !ends(&Setup::small(seed)) && ends(&Setup::small(SESSION_SEEDS + seed))));
    }

    #[test]
    fn seeds_of_old_lose_nothing() {
        assert!((0..SESSION_SWARM_FROM).step_by(100_000_000).all(|seed| !Setup::swarm(seed).loses));
        for seed in (0..40).chain(CODED_SEEDS..CODED_SEEDS + 40) {
            let (before, setup) = (Setup::small(seed), Setup::small(LOSS_SEEDS + seed));
            assert!(!before.loses && setup.loses && setup.osds > setup.members() && setup.shards == 1);
        }
    }

    #[test]
    fn seeds_of_old_have_nothing_that_is_newer() {
        let newer = |setup: &Setup| {
            let mut has = vec![setup.busy, setup.client_bytes.is_some()];
            has.extend(NEWER.map(|(_, mix)| setup.has(mix)));
            has
        };
        let none = |seed: u64, setup: Setup| assert!(newer(&setup).iter().all(|has| !has), "{seed}");
        (0..NEWER_SWARM_FROM).step_by(100_000_000).for_each(|seed| none(seed, Setup::swarm(seed)));
        let later: Vec<_> = (0..60).map(|seed| newer(&Setup::swarm(NEWER_SWARM_FROM + seed))).collect();
        assert!((0..6).all(|which| later.iter().any(|newer| newer[which])), "{later:?}");
        let others = |setup: &Setup| setup.mixes.iter().any(|mix| !matches!(mix, Mix::Rot | Mix::Quorum));
        let rotten: Vec<Setup> =
            (0..400).map(|seed| Setup::swarm(NEWER_SWARM_FROM + seed)).filter(|setup| setup.has(Mix::Rot)).collect();
        assert!(rotten.len() > 10 && !rotten.iter().any(others), "only the OSD with the bad disk goes away");
        for (which, bit) in [BUSY_SEEDS, MEMORY_SEEDS].into_iter().chain(NEWER.map(|(bit, _)| bit)).enumerate() {
            for seed in (0..20).chain(CODED_SEEDS..CODED_SEEDS + 20) {
                none(seed, Setup::small(seed));
                let has = newer(&Setup::small(bit + seed));
                assert!(has.iter().enumerate().all(|(of, has)| *has == (of == which)), "{seed}: {has:?}");
            }
        }
    }

    #[test]
    fn flags_name_what_was_wished_for() {
        let wishes = Wishes { osds: Some(5), mixes: vec![Mix::Rot, Mix::Clocks], ..Wishes::default() };
        assert_eq!(Setup::flags(4, &wishes), "--seed 4 --osds 5 --faults rot,clocks");
        assert_eq!(Setup::of(4, &wishes).osds, 5);
    }
}
