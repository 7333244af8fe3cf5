//! Facts for operators about an OSD, put together from its shards.

use pg::hops::{OpCounts, OpSample, OpState};
use pg::{
    BackoffCounts, CheckCounts, GroupView, PacingView, ReplicaReadCounts, ReservationsView, ScrubView, Shard, WatchView,
};
use store::{BlockCacheStats, CacheCounts, DeviceUsage, SpaceUsage};

/// The most operations under way that are listed.
const IN_FLIGHT_MAX: usize = 1000;

/// Facts about one shard, or about several together.
#[derive(Clone, Debug)]
pub(crate) struct ShardFacts {
    pub usage: SpaceUsage,
    pub caches: CacheCounts,
    pub check: CheckCounts,
    pub recovery: PacingView,
    pub replica_reads: ReplicaReadCounts,
    pub backoffs: BackoffCounts,
    pub ops: OpCounts,
    /// The number of operations of which one is kept.
    pub one_op_kept_in: u64,
    /// Kept operations, oldest first.
    pub recent_ops: Vec<OpSample>,
    pub slowest_ops: Vec<OpSample>,
    pub ops_in_flight: Vec<(OpSample, OpState)>,
    pub groups: Vec<GroupView>,
    /// Groups that heal: as their primary, and as a member.
    pub reservations: (ReservationsView, ReservationsView),
    pub scrubs: Vec<ScrubView>,
    /// Groups that are being scrubbed.
    pub scrubbing: usize,
    pub watches: Vec<WatchView>,
    /// True if a store's checkpoint has not ended.
    pub checkpoint_runs: bool,
}

impl ShardFacts {
    pub fn of(shard: &Shard) -> ShardFacts {
        ShardFacts {
            usage: shard.store().usage(),
            caches: shard.store().cache_counts(),
            check: shard.check_counts(),
            recovery: shard.pacing_view(),
            replica_reads: shard.replica_reads(),
            backoffs: shard.backoff_counts(),
            ops: shard.op_counts(),
            one_op_kept_in: shard.one_op_kept_in(),
            recent_ops: shard.recent_ops().cloned().collect(),
            slowest_ops: shard.slowest_ops().cloned().collect(),
            ops_in_flight: shard.ops_in_flight(IN_FLIGHT_MAX),
            groups: shard.group_views(),
            reservations: shard.reservations(),
            scrubs: shard.scrub_views(),
            scrubbing: shard.scrubs_now().count(),
            watches: shard.watch_views(),
            checkpoint_runs: shard.store().checkpoint_is_pending(),
        }
    }

    /// These facts together with those of another shard.
    pub fn and(mut self, other: ShardFacts) -> ShardFacts {
        self.usage = usage_of_both(&self.usage, &other.usage);
        self.caches = caches_of_both(&self.caches, &other.caches);
        self.check = CheckCounts {
            objects: self.check.objects + other.check.objects,
            bytes: self.check.bytes + other.check.bytes,
            bad: self.check.bad + other.check.bad,
        };
        let limit = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        self.recovery = PacingView {
            limit_bytes_per_s: limit(self.recovery.limit_bytes_per_s, other.recovery.limit_bytes_per_s),
            clients_slowed_by_percent: self
                .recovery
                .clients_slowed_by_percent
                .max(other.recovery.clients_slowed_by_percent),
        };
        self.replica_reads = ReplicaReadCounts {
            asked: self.replica_reads.asked + other.replica_reads.asked,
            served: self.replica_reads.served + other.replica_reads.served,
        };
        self.backoffs = BackoffCounts {
            standing: self.backoffs.standing + other.backoffs.standing,
            begun: self.backoffs.begun + other.backoffs.begun,
            dropped: self.backoffs.dropped + other.backoffs.dropped,
        };
        self.ops = self.ops.and(other.ops);
        self.one_op_kept_in = self.one_op_kept_in.max(other.one_op_kept_in);
        self.recent_ops.extend(other.recent_ops);
        self.recent_ops.sort_by_key(|op| op.began);
        self.slowest_ops.extend(other.slowest_ops);
        self.ops_in_flight.extend(other.ops_in_flight);
        self.ops_in_flight.truncate(IN_FLIGHT_MAX);
        self.groups.extend(other.groups);
        self.groups.sort_by_key(|group| group.pgid);
        let side = |a: ReservationsView, b: ReservationsView| ReservationsView {
            slots: a.slots + b.slots,
            held: [a.held, b.held].concat(),
            waiting: [a.waiting, b.waiting].concat(),
        };
        self.reservations =
            (side(self.reservations.0, other.reservations.0), side(self.reservations.1, other.reservations.1));
        self.scrubs.extend(other.scrubs);
        self.scrubs.sort_by_key(|scrub| (!scrub.ordered, scrub.at, scrub.pgid));
        self.scrubbing += other.scrubbing;
        self.watches.extend(other.watches);
        self.checkpoint_runs |= other.checkpoint_runs;
        self
    }
}

/// The sum of both parts' usage. But a device counts as being as full as its fuller part, because data for that part
/// finds no room elsewhere.
pub(crate) fn usage_of_both(a: &SpaceUsage, b: &SpaceUsage) -> SpaceUsage {
    let device = |a: DeviceUsage, b: DeviceUsage| {
        let total_bytes = a.total_bytes + b.total_bytes;
        let free_bytes = free_of_both((a.free_bytes, a.total_bytes), (b.free_bytes, b.total_bytes));
        DeviceUsage { total_bytes, free_bytes }
    };
    SpaceUsage {
        total_bytes: a.total_bytes + b.total_bytes,
        free_bytes: free_of_both((a.free_bytes, a.total_bytes), (b.free_bytes, b.total_bytes)),
        data_bytes: a.data_bytes + b.data_bytes,
        stored_bytes: a.stored_bytes + b.stored_bytes,
        omap_bytes: a.omap_bytes + b.omap_bytes,
        metadata_bytes: a.metadata_bytes + b.metadata_bytes,
        metadata_device: a.metadata_device.zip(b.metadata_device).map(|(a, b)| device(a, b)),
        objects: a.objects + b.objects,
    }
}

/// Free bytes of two parts together, so that the free share of the sum is that of the fuller part. Each argument: free
/// bytes and total bytes of a part.
pub(crate) fn free_of_both(a: (u64, u64), b: (u64, u64)) -> u64 {
    let total = u128::from(a.1) + u128::from(b.1);
    let share = |(free, bytes): (u64, u64)| u128::from(free).saturating_mul(total) / u128::from(bytes.max(1));
    u64::try_from(share(a).min(share(b))).unwrap_or(u64::MAX).min(a.0.saturating_add(b.0))
}

fn caches_of_both(a: &CacheCounts, b: &CacheCounts) -> CacheCounts {
    CacheCounts {
        blocks: BlockCacheStats {
            bytes: a.blocks.bytes + b.blocks.bytes,
            hits: a.blocks.hits + b.blocks.hits,
            hit_bytes: a.blocks.hit_bytes + b.blocks.hit_bytes,
            misses: a.blocks.misses + b.blocks.misses,
            miss_bytes: a.blocks.miss_bytes + b.blocks.miss_bytes,
        },
        onode_hits: a.onode_hits + b.onode_hits,
        onode_misses: a.onode_misses + b.onode_misses,
        onode_bytes: a.onode_bytes + b.onode_bytes,
        page_hits: a.page_hits + b.page_hits,
        page_misses: a.page_misses + b.page_misses,
        page_bytes: a.page_bytes + b.page_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_osd_is_as_full_as_its_fullest_shard() {
        assert_eq!(free_of_both((50, 100), (10, 100)), 20);
        assert_eq!(free_of_both((100, 100), (300, 300)), 400);
        assert_eq!(free_of_both((0, 100), (100, 100)), 0);
        assert_eq!(free_of_both((u64::MAX, u64::MAX), (u64::MAX, u64::MAX)), u64::MAX);
        let one = SpaceUsage { total_bytes: 100, free_bytes: 40, objects: 3, ..SpaceUsage::default() };
        let both = usage_of_both(&one, &SpaceUsage { free_bytes: 90, objects: 4, ..one });
        assert_eq!((both.total_bytes, both.free_bytes, both.objects), (200, 80, 7));
    }
}
