//! Running counts of an OSD. Each count that Ceph has, too, has Ceph's name; counts that an OSD does not keep are
//! absent.

use super::Facts;
use control::counters::{Counter, Measure, Section, counter};
use pg::hops::OpCount;

/// All counters, with their values at present.
pub(crate) fn sections(facts: &Facts<'_>) -> Vec<Section> {
    let throttle = vec![
        counter("val", "bytes that clients' requests and answers hold", 0, Measure::Gauge(facts.client_bytes.0)),
        counter("max", "bytes that they may hold", 0, Measure::Gauge(facts.client_bytes.1)),
    ];
    vec![
        Section { name: "osd", counters: osd(facts) },
        Section { name: "store", counters: store(facts) },
        Section { name: "reactor", counters: reactor(facts) },
        Section { name: "throttle-osd_client_bytes", counters: throttle },
    ]
}

fn osd(facts: &Facts<'_>) -> Vec<Counter> {
    use Measure::{Count, Gauge, Times};
    let of = facts.of_shards;
    let (usage, ops, all) = (&of.usage, &of.ops, of.ops.all());
    let took = |count: OpCount| Times(count.ops, count.took);
    let groups =
        |wanted: &dyn Fn(&pg::GroupView) -> bool| Gauge(of.groups.iter().filter(|group| wanted(group)).count() as u64);
    vec![
        counter("op_wip", "operations that are not answered yet", 5, Gauge(of.ops_in_flight.len() as u64)),
        counter("op", "operations of clients", 10, Count(all.ops)).nick("ops"),
        counter("op_in_bytes", "bytes that came with them", 8, Count(all.in_bytes)).bytes().nick("wr"),
        counter("op_out_bytes", "bytes that were sent as answers", 8, Count(all.out_bytes)).bytes().nick("rd"),
        counter("op_latency", "from an operation's arrival to its answer", 9, took(all)).nick("l"),
        counter("op_r", "reads", 5, Count(ops.reads.ops)),
        counter("op_r_out_bytes", "bytes that reads returned", 5, Count(ops.reads.out_bytes)).bytes(),
        counter("op_r_latency", "from a read's arrival to its answer", 5, took(ops.reads)),
        counter("op_w", "operations that may change something", 5, Count(ops.updates.ops)),
        counter("op_w_in_bytes", "bytes that came with them", 5, Count(ops.updates.in_bytes)).bytes(),
        counter("op_w_latency", "from their arrival to their answer", 5, took(ops.updates)),
        counter("numpg", "placement groups here", 5, groups(&|_| true)).nick("pgs"),
        counter("numpg_primary", "groups that this OSD leads", 0, groups(&|group| group.is_primary)),
        counter(
            "numpg_replica",
            "groups of which this OSD is another member",
            0,
            groups(&|group| group.is_member && !group.is_primary),
        ),
        counter("numpg_stray", "groups whose copies here are not needed", 0, groups(&|group| !group.is_member)),
        counter("stat_bytes", "bytes of the drives", 5, Gauge(usage.total_bytes)).bytes().nick("size"),
        counter(
            "stat_bytes_used",
            "bytes of them in use",
            5,
            Gauge(usage.total_bytes.saturating_sub(usage.free_bytes)),
        )
        .bytes()
        .nick("used"),
        counter("stat_bytes_avail", "bytes of them that are free", 0, Gauge(usage.free_bytes)).bytes(),
        counter("client_sessions", "clients that are connected", 0, Gauge(facts.sessions as u64)),
        counter("replica_read", "reads that came to a member", 0, Count(of.replica_reads.asked)),
        counter("replica_read_served", "reads that a member answered", 0, Count(of.replica_reads.served)),
        counter("backoffs", "backoffs that stand", 0, Gauge(of.backoffs.standing)),
        counter("backoffs_begun", "backoffs that there were", 0, Count(of.backoffs.begun)),
        counter("backoff_dropped_op", "operations dropped for a backoff", 0, Count(of.backoffs.dropped)),
    ]
}

fn store(facts: &Facts<'_>) -> Vec<Counter> {
    use Measure::{Count, Gauge};
    let caches = &facts.of_shards.caches;
    let blocks = &caches.blocks;
    vec![
        counter("block_cache_bytes", "data that was read and is kept", 5, Gauge(blocks.bytes)).bytes(),
        counter("block_cache_hits", "reads of data that was there", 5, Count(blocks.hits)),
        counter("block_cache_hit_bytes", "bytes of them", 5, Count(blocks.hit_bytes)).bytes(),
        counter("block_cache_misses", "reads of data from a drive", 5, Count(blocks.misses)),
        counter("block_cache_miss_bytes", "bytes of them", 5, Count(blocks.miss_bytes)).bytes(),
        counter("onode_cache_bytes", "objects' records that are kept", 5, Gauge(caches.onode_bytes)).bytes(),
        counter("onode_cache_hits", "looks at records that were there", 5, Count(caches.onode_hits)),
        counter("onode_cache_misses", "looks at records that were not", 5, Count(caches.onode_misses)),
        counter("page_cache_bytes", "pages of metadata that are kept", 5, Gauge(caches.page_bytes)).bytes(),
        counter("page_cache_hits", "looks at pages that were there", 5, Count(caches.page_hits)),
        counter("page_cache_misses", "looks at pages that were not", 5, Count(caches.page_misses)),
    ]
}

/// Counts of the loop that has the sockets. Shards behind it have loops of their own, which are not counted here.
fn reactor(facts: &Facts<'_>) -> Vec<Counter> {
    use Measure::{Count, Gauge};
    let of = &facts.reactor;
    vec![
        counter("turns", "turns of the loop", 5, Count(of.turns)),
        counter("enters", "system calls that submit requests or wait", 5, Count(of.enters)),
        counter("completions", "requests that the kernel has finished, parts included", 5, Count(of.completions)),
        counter("sends", "sends; each has all that waits for one connection", 5, Count(of.sends)),
        counter("sent_bytes", "bytes that the network took", 5, Count(of.bytes_sent)).bytes(),
        counter("received_bytes", "bytes that came by the network", 5, Count(of.bytes_received)).bytes(),
        counter(
            "received_in_place_bytes",
            "bytes of them that were copied by the kernel only",
            0,
            Count(of.bytes_received_bulk),
        )
        .bytes(),
        counter("read_bytes", "bytes read from drives", 5, Count(of.bytes_read)).bytes(),
        counter("written_bytes", "bytes written to drives", 5, Count(of.bytes_written)).bytes(),
        counter("realigned_bytes", "bytes of them that were copied for their alignment", 0, Count(of.bytes_realigned))
            .bytes(),
        counter("flushes", "flushes of drives", 5, Count(of.flushes)),
        counter("receive_buffers_missing", "receives that waited for a buffer", 0, Count(of.receive_buffers_missing)),
        counter("connections", "connections that are open", 0, Gauge(of.connections)),
    ]
}
