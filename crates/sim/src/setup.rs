//! The parts of a run: sizes, kinds of misfortunes, kinds of requests.

use crate::faults::Mix;
use reactor::sim::Rng;

/// One seed of a swarm in this many has an erasure-coded pool.
const CODED_ONE_IN: u64 = 6;

/// The most by which a clock may run faster or slower than the world's, in parts per million. Leases allow for a
/// difference of a tenth between two clocks.
pub const DRIFT_PPM_MAX: i64 = 47_000;

/// Bit of a small run's seed, with [`KEY_SEEDS`]: keys of OSDs and clients are replaced meanwhile, and wall clocks
/// differ by minutes.
pub const KEY_TROUBLE_SEEDS: u64 = 1 << 37;
/// From this seed of the swarm on, every other run with keys has that. None of the earlier seeds that found bugs has.
const KEY_TROUBLE_SWARM_FROM: u64 = 24_000_000_000;
/// Bit of a small run's seed, with [`KEY_SEEDS`]: the key by which monitors know each other is replaced meanwhile.
pub const ROTATION_SEEDS: u64 = 1 << 38;
/// From this seed of the swarm on, every other run with keys has that.
const ROTATION_SWARM_FROM: u64 = 22_000_000_000;
/// Bit of a small run's seed: clients ask for operations as large as they may be, and larger.
pub const LARGE_SEEDS: u64 = 1 << 39;
/// From this seed of the swarm on, so it is in one run in [`NEWER_ONE_IN`].
const LARGE_SWARM_FROM: u64 = 20_000_000_000;
/// From this seed of the swarm on, OSDs pass for earlier software until their first restart in one run in
/// [`UPGRADES_ONE_IN`] of those that overwrite parts of erasure-coded objects.
const UPGRADE_SWARM_FROM: u64 = 78_000_000_000;
const UPGRADES_ONE_IN: u64 = 2;
/// Bit of a small run's seed: the pool is erasure-coded.
pub const CODED_SEEDS: u64 = 1 << 40;
/// Bit of a small run's seed: the pool gets more placement groups meanwhile. With [`CODED_SEEDS`], too, it is
/// erasure-coded.
pub const SPLIT_SEEDS: u64 = 1 << 41;

/// Bit of a small run's seed: the pool gets more placement groups and fewer again. With [`CODED_SEEDS`], too, it is
/// erasure-coded.
pub const MERGE_SEEDS: u64 = 1 << 43;

/// Bit of a small run's seed: the operator places groups anywhere, if the seed also has [`CODED_SEEDS`].
pub const PLACE_SEEDS: u64 = 1 << 45;

/// Bit of a small run's seed: there are three or five monitors, and misfortunes of monitors among others.
pub const QUORUM_SEEDS: u64 = 1 << 44;
/// From this seed of the swarm on, runs have one, three or five monitors. Earlier seeds were run when there was one.
const QUORUM_SWARM_FROM: u64 = 7000;
/// From this seed of the swarm on, clients also call object classes and remove snapshots.
const MORE_SWARM_FROM: u64 = QUORUM_SWARM_FROM;

/// From this seed of the swarm on, some runs have these, too: pools get more placement groups, and replicated ones
/// fewer again; groups of erasure-coded pools are placed anywhere; clients watch.
const ALL_SWARM_FROM: u64 = 20_000;
/// From this seed of the swarm on, erasure-coded pools get fewer groups again, too.
const CODED_MERGES_SWARM_FROM: u64 = 80_000;
/// Number of OSDs beyond the members that merging needs: groups of erasure-coded pools may have to exchange shards
/// before they are merged, and that takes another OSD.
const SPARE_TO_MERGE: usize = 1;
/// One seed of a swarm in this many has each of these.
const SPLITS_ONE_IN: u64 = 4;
const WATCH_ONE_IN: u64 = 4;
const PLACES_ONE_IN: u64 = 2;

/// Bit of a small run's seed: some clients watch objects.
pub const WATCH_SEEDS: u64 = 1 << 46;

/// Bit of a small run's seed: OSDs are alone with clients that read.
pub const ISLAND_SEEDS: u64 = 1 << 47;

/// Bit of a small run's seed: clients take snapshots.
pub const SNAP_SEEDS: u64 = 1 << 42;
/// Bit of a small run's seed: the pool is erasure-coded, and clients take snapshots.
pub const CODED_SNAP_SEEDS: u64 = 1 << 48;
/// Bit of a small run's seed: clients read from any member of a placement group, if the pool is replicated.
pub const BALANCED_SEEDS: u64 = 1 << 49;
/// Bit of a small run's seed: clients call the class `version`, too, if the pool is replicated. Clients of the swarm
/// call it from [`BALANCED_SWARM_FROM`] on.
pub const VERSION_SEEDS: u64 = 1 << 50;
/// Bit of a small run's seed: OSDs have two shards, or four.
pub const SHARD_SEEDS: u64 = 1 << 51;
/// From this seed of the swarm on, OSDs of one seed in [`SHARDS_ONE_IN`] have two shards, or four.
const SHARD_SWARM_FROM: u64 = 60_000;
const SHARDS_ONE_IN: u64 = 3;
/// From this seed of the swarm on, clients of one seed in [`BALANCED_ONE_IN`] read from any member of a placement
/// group.
const BALANCED_SWARM_FROM: u64 = 40_000;
const BALANCED_ONE_IN: u64 = 3;
/// Bit of a small run's seed: sessions of OSDs end, among other things, and objects go in small pieces.
pub const SESSION_SEEDS: u64 = 1 << 53;
/// From this seed of the swarm on, sessions of OSDs end in some runs, and objects go in small pieces in some.
const SESSION_SWARM_FROM: u64 = 17_957_600_000;
/// One seed of a swarm in this many has each of these.
const SESSIONS_ONE_IN: u64 = 3;
const PIECES_ONE_IN: u64 = 2;
/// Bit of a small run's seed: clients also copy objects, repeat patterns and set long values. Clients of the swarm do
/// so from [`HEAVY_SWARM_FROM`] on, under every other seed.
pub const HEAVY_SEEDS: u64 = 1 << 52;
const HEAVY_SWARM_FROM: u64 = 17_957_000_000;

/// Bit of a small run's seed: at the end, more copies or shards of an object rot than others can make up for.
pub const LOSS_SEEDS: u64 = 1 << 54;
/// Bit of a small run's seed: at the end, disks of an OSD go back to an earlier state, as if they had lied about
/// flushes.
pub const LIE_SEEDS: u64 = 1 << 55;
/// Bit of a small run's seed: the work of OSDs and monitors takes time.
pub const BUSY_SEEDS: u64 = 1 << 56;
/// Bit of a small run's seed: flushes of OSDs fail, and lose the data that they were to make durable.
pub const FLUSH_SEEDS: u64 = 1 << 57;
/// Bit of a small run's seed: machines sleep, or are paused together with their clocks, and wall clocks jump by hours.
pub const SLEEP_SEEDS: u64 = 1 << 58;
/// Bit of a small run's seed: OSDs have so little memory for clients that clients wait for it.
pub const MEMORY_SEEDS: u64 = 1 << 59;
/// Bit of a small run's seed: there are several monitors, and single connections with them are slow.
pub const ROUTE_SEEDS: u64 = 1 << 60;
/// Bit of a small run's seed: another process tries to start OSDs that run.
pub const TWICE_SEEDS: u64 = 1 << 61;
/// Bit of a small run's seed: all prove by keys who they are, and tickets and secrets live for seconds.
pub const KEY_SEEDS: u64 = 1 << 63;
/// From this seed of the swarm on, so it is in one run in [`NEWER_ONE_IN`].
const KEY_SWARM_FROM: u64 = 18_000_000_000;
/// From this seed of the swarm on, tickets for monitors are good for so long that a client which no monitor hears for
/// half a minute can still have its own renewed.
const LONGER_TICKETS_FROM: u64 = 18_958_600_000;
/// Bit of a small run's seed, with one that makes its pool erasure-coded: clients overwrite parts of objects there.
pub const OVERWRITE_SEEDS: u64 = 1 << 62;
/// From this seed of the swarm on, clients overwrite parts of objects in one erasure-coded pool in
/// [`OVERWRITES_ONE_IN`], some of which have snapshots.
const OVERWRITE_SWARM_FROM: u64 = 17_958_110_000;
const OVERWRITES_ONE_IN: u64 = 2;
/// From this seed of the swarm on, one run in [`NEWER_ONE_IN`] has each of the newer kinds.
const NEWER_SWARM_FROM: u64 = 17_957_900_000;
const NEWER_ONE_IN: u64 = 4;
/// Kinds of misfortunes, each with the bit of small seeds that brings it.
const NEWER: [(u64, Mix); 4] =
    [(FLUSH_SEEDS, Mix::Flushes), (SLEEP_SEEDS, Mix::Sleeps), (ROUTE_SEEDS, Mix::Routes), (TWICE_SEEDS, Mix::Twice)];
/// One seed of a swarm in this many has snapshots, if its pool is replicated.
const SNAPS_ONE_IN: u64 = 4;

/// Size and misfortunes of a run. With the seed it determines everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    pub seed: u64,
    /// The kinds from which misfortunes are drawn.
    pub mixes: Vec<Mix>,
    /// Number of monitors at the beginning.
    pub mons: usize,
    pub osds: usize,
    /// Number of copies of each object.
    pub copies: u8,
    /// Numbers of data and parity shards, which replace the copies, if the pool is erasure-coded.
    pub coding: Option<(u8, u8)>,
    /// About how many operations clients make; `None`: some 200, as in tests.
    pub operations: Option<u32>,
    /// Clocks run at different rates.
    pub drift: bool,
    /// The pool gets more placement groups during the run.
    pub splits: bool,
    /// The pool gets fewer placement groups again, too.
    pub merges: bool,
    /// Clients take snapshots.
    pub snapshots: bool,
    /// Groups are placed anywhere during the run.
    pub places: bool,
    /// Some clients watch objects.
    pub watches: bool,
    /// Clients call the class `version`, too.
    pub versions: bool,
    /// Members other than the primary are read from, too.
    pub balanced: bool,
    /// Number of shards of each OSD.
    pub shards: usize,
    /// The most bytes of an object in one message to an OSD that lacks it; `None`: the usual number.
    pub piece_bytes: Option<u64>,
    /// Clients also copy objects, repeat patterns and set long values.
    pub heavy: bool,
    /// Clients overwrite parts of objects in an erasure-coded pool.
    pub overwrites: bool,
    /// An object is lost at the end.
    pub loses: bool,
    /// At the end, but before an object is lost, disks of an OSD turn out to have lied about flushes.
    pub lies: bool,
    /// The work of OSDs and monitors takes time.
    pub busy: bool,
    /// Bytes of memory that each shard of an OSD has for clients; `None`: the usual number.
    pub client_bytes: Option<usize>,
    /// All prove by keys who they are.
    pub keys: bool,
    /// Seconds for which tickets for monitors are good, where there are keys.
    pub monitor_ticket_s: u32,
    /// The key by which monitors know each other is replaced meanwhile.
    pub rotates: bool,
    /// Keys of OSDs and clients are replaced meanwhile, and wall clocks differ by minutes.
    pub key_troubles: bool,
    /// Clients ask for operations as large as they may be, and larger.
    pub large: bool,
    /// OSDs pass for earlier software until their first restart.
    pub upgrades: bool,
}

/// The parts of a [`Setup`] that a user chooses; the seed gives the others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wishes {
    /// A small run with one kind of misfortunes, as in tests.
    pub small: bool,
    pub operations: Option<u32>,
    pub mons: Option<usize>,
    pub osds: Option<usize>,
    pub copies: Option<u8>,
    pub coding: Option<(u8, u8)>,
    pub overwrites: bool,
    pub upgrades: bool,
    pub shards: Option<usize>,
    pub mixes: Vec<Mix>,
}

impl Setup {
    /// A small run: 3 to 6 OSDs, some 200 operations, mostly one kind of misfortunes.
    pub fn small(seed: u64) -> Setup {
        let mix = if seed & ISLAND_SEEDS != 0 { Mix::Islands } else { Mix::of(seed) };
        let mut rng = Rng::new(seed ^ 0x51e5);
        // There are some more OSDs than copies if data has to move. There are at most four shards.
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
                // Half of the runs keep the other misfortunes of a small run beside this kind.
                if rng.one_in(2) {
                    mixes.clear();
                }
                mixes.push(mix);
            }
        }
        let watches = seed & WATCH_SEEDS != 0 && !is_coded;
        let keys = seed & KEY_SEEDS != 0;
        if keys {
            without_wrong_clocks(&mut mixes);
        }
        let loses = seed & LOSS_SEEDS != 0;
        if loses {
            // Another OSD must be able to take the place of one that has a copy.
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
            // Only an OSD's first shard can be told to give up lost objects, so such runs have one shard.
            shards: if seed & SHARD_SEEDS != 0 && !loses { 2 << rng.below(2) } else { 1 },
            piece_bytes,
            heavy: seed & HEAVY_SEEDS != 0,
            overwrites: is_coded && seed & OVERWRITE_SEEDS != 0,
            loses,
            lies: seed & LIE_SEEDS != 0,
            busy: seed & BUSY_SEEDS != 0,
            client_bytes: (seed & MEMORY_SEEDS != 0).then(|| little_memory(&mut rng)),
            keys,
            monitor_ticket_s: 40,
            rotates: keys && seed & ROTATION_SEEDS != 0,
            key_troubles: keys && seed & KEY_TROUBLE_SEEDS != 0,
            large: seed & LARGE_SEEDS != 0,
            upgrades: false,
        }
    }

    /// A run of a swarm. Each seed has another size and another mix of misfortunes, so that one shows what another
    /// hides (Groce et al., "Swarm testing", 2012).
    pub fn swarm(seed: u64) -> Setup {
        let mut rng = Rng::new(seed ^ 0x5a9a);
        let copies = if rng.one_in(4) { 2 } else { 3 };
        let mixes = match rng.below(12) {
            // This kind comes alone, because good copies of everything that rots must stay.
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
        let (splits, merges, snapshots, places, mons) = (false, false, false, false, 1);
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
            overwrites: false,
            loses: false,
            lies: false,
            busy: false,
            client_bytes: None,
            keys: false,
            monitor_ticket_s: if seed >= LONGER_TICKETS_FROM { 120 } else { 40 },
            rotates: false,
            key_troubles: false,
            large: false,
            upgrades: false,
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
        setup.draw_newest(&mut rng);
        setup
    }

    /// Decides by the seed of a swarm whether erasure-coded objects are overwritten, whether all prove who they are,
    /// whether monitors get other keys, whether operations are large, and whether OSDs pass for earlier software at
    /// first.
    fn draw_newest(&mut self, rng: &mut Rng) {
        if self.seed >= OVERWRITE_SWARM_FROM && self.coding.is_some() {
            self.overwrites = rng.one_in(OVERWRITES_ONE_IN);
            self.snapshots = self.overwrites && rng.one_in(SNAPS_ONE_IN);
        }
        if self.seed >= KEY_SWARM_FROM && rng.one_in(NEWER_ONE_IN) {
            self.keys = true;
            without_wrong_clocks(&mut self.mixes);
        }
        // Where connections break and bring little at a time, a large operation never gets through.
        let is_hard = self.client_bytes.is_some() && self.has(Mix::Resets);
        self.large = self.seed >= LARGE_SWARM_FROM && rng.one_in(NEWER_ONE_IN) && !is_hard;
        self.rotates = self.keys && self.seed >= ROTATION_SWARM_FROM && rng.one_in(2);
        // OSDs whose keys are replaced go away for a moment, which only the one with the bad disk may.
        self.key_troubles =
            self.keys && self.seed >= KEY_TROUBLE_SWARM_FROM && self.seed / 3 % 2 == 1 && !self.has(Mix::Rot);
        self.upgrades = self.overwrites && self.seed >= UPGRADE_SWARM_FROM && rng.one_in(UPGRADES_ONE_IN);
    }

    pub fn of(seed: u64, wishes: &Wishes) -> Setup {
        let mut setup = if wishes.small { Setup::small(seed) } else { Setup::swarm(seed) };
        if !wishes.mixes.is_empty() {
            setup.mixes.clone_from(&wishes.mixes);
            setup.key_troubles &= !setup.has(Mix::Rot);
        }
        setup.mons = wishes.mons.unwrap_or(setup.mons);
        if let Some(copies) = wishes.copies {
            (setup.copies, setup.coding) = (copies, None);
        }
        setup.coding = wishes.coding.or(setup.coding);
        setup.overwrites = setup.coding.is_some() && (setup.overwrites || wishes.overwrites);
        setup.upgrades |= wishes.upgrades;
        let may_both = setup.overwrites || wishes.small && seed & CODED_SNAP_SEEDS != 0;
        setup.snapshots &= setup.coding.is_none() || may_both;
        setup.merges &= setup.coding.is_none() || wishes.coding.is_none();
        setup.watches &= setup.coding.is_none();
        setup.balanced &= setup.coding.is_none();
        setup.osds = wishes.osds.unwrap_or(setup.osds).max(setup.members());
        setup.operations = wishes.operations.or(setup.operations);
        setup.shards = wishes.shards.unwrap_or(setup.shards);
        setup
    }

    /// The flags that lead to a setup.
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
        if wishes.overwrites {
            text += " --overwrites";
        }
        if wishes.upgrades {
            text += " --upgrades";
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

    /// Number of members of each placement group: copies or shards.
    pub(crate) fn members(&self) -> usize {
        self.coding.map_or(self.copies, |(k, m)| k + m).into()
    }

    /// True if clients call object classes, and remove snapshots if they take any. False for seeds of the swarm that
    /// were run when clients could not do so.
    pub(crate) fn asks_for_more(&self) -> bool {
        self.operations.is_none() || self.seed >= MORE_SWARM_FROM
    }

    pub(crate) fn has(&self, mix: Mix) -> bool {
        self.mixes.contains(&mix)
    }

    /// The kind of misfortunes, if there is only one.
    pub(crate) fn only(&self) -> Option<Mix> {
        match self.mixes[..] {
            [mix] => Some(mix),
            _ => None,
        }
    }
}

/// Draws a size that some operations fill.
fn little_memory(rng: &mut Rng) -> usize {
    (16 << 10) << rng.below(5)
}

/// Removes misfortunes with wall clocks that are wrong by hours: their owners are refused.
fn without_wrong_clocks(mixes: &mut Vec<Mix>) {
    mixes.retain(|mix| *mix != Mix::Sleeps);
    if mixes.is_empty() {
        mixes.push(Mix::QuickRestarts);
    }
}

fn small_pieces(rng: &mut Rng) -> u64 {
    4096 << rng.below(6)
}

/// Adds misfortunes of monitors for runs with several monitors. Most such runs have them, and many have no others.
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
        let troubled = |seed: u64| Setup::swarm(KEY_TROUBLE_SWARM_FROM + seed);
        let troubled: Vec<Setup> = (0..2000).map(troubled).filter(|setup| setup.key_troubles).collect();
        assert!(
            troubled.len() > 10 && !troubled.iter().any(|setup| setup.has(Mix::Rot)),
            "keys are not replaced there"
        );
        for (which, bit) in [BUSY_SEEDS, MEMORY_SEEDS].into_iter().chain(NEWER.map(|(bit, _)| bit)).enumerate() {
            for seed in (0..20).chain(CODED_SEEDS..CODED_SEEDS + 20) {
                none(seed, Setup::small(seed));
                let has = newer(&Setup::small(bit + seed));
                assert!(has.iter().enumerate().all(|(of, has)| *has == (of == which)), "{seed}: {has:?}");
            }
        }
    }

    #[test]
    fn operations_of_seeds_of_old_are_small() {
        assert!((0..LARGE_SWARM_FROM).step_by(100_000_000).all(|seed| !Setup::swarm(seed).large));
        assert!((0..40).any(|seed| Setup::swarm(LARGE_SWARM_FROM + seed).large));
        assert!((0..40).all(|seed| !Setup::small(seed).large && Setup::small(LARGE_SEEDS + seed).large));
    }

    #[test]
    fn monitors_of_seeds_of_old_keep_their_key() {
        assert!((0..ROTATION_SWARM_FROM).step_by(100_000_000).all(|seed| !Setup::swarm(seed).rotates));
        assert!((0..40).any(|seed| Setup::swarm(ROTATION_SWARM_FROM + seed).rotates));
        let small = |bits: u64| (0..40).all(|seed| Setup::small(bits + seed).rotates);
        assert!(!small(KEY_SEEDS) && !small(ROTATION_SEEDS) && small(KEY_SEEDS + ROTATION_SEEDS));
    }

    #[test]
    fn osds_and_clients_of_seeds_of_old_keep_their_keys() {
        assert!((0..KEY_TROUBLE_SWARM_FROM).step_by(100_000_000).all(|seed| !Setup::swarm(seed).key_troubles));
        let found_bugs = [956_684_120_762, 998_825_430_168, 1_432_827_120_030];
        assert!(found_bugs.into_iter().all(|seed| !Setup::swarm(seed).key_troubles));
        assert!((0..80).any(|seed| Setup::swarm(KEY_TROUBLE_SWARM_FROM + seed).key_troubles));
        let small = |bits: u64| (0..40).all(|seed| Setup::small(bits + seed).key_troubles);
        assert!(!small(KEY_SEEDS) && !small(KEY_TROUBLE_SEEDS) && small(KEY_SEEDS + KEY_TROUBLE_SEEDS));
    }

    #[test]
    fn flags_name_what_was_wished_for() {
        let wishes = Wishes { osds: Some(5), mixes: vec![Mix::Rot, Mix::Clocks], ..Wishes::default() };
        assert_eq!(Setup::flags(4, &wishes), "--seed 4 --osds 5 --faults rot,clocks");
        assert_eq!(Setup::of(4, &wishes).osds, 5);
    }
}
