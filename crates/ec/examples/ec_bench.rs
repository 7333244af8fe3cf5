//! Throughput of the kernels, on one core.
//!
//! `cargo run --release -p ec --example ec_bench [-- PART_OF_A_KERNEL_NAME]`
//!
//! Throughput is in GB/s of data shards (1e9 bytes, per second of processor time, so that other processes disturb
//! less). `encode` counts all data of a stripe, `recover 1` and `recover m` all bytes read, which is k shards, and
//! `update` the bytes of the one shard that changes. All rounds work on one stripe, so short shards come from the first
//! or second level of the caches and shards of 1 MiB from the last, or from memory.

use ec::{Code, Kernel, ShardSet, Technique};
use std::hint::black_box;

const MEASURE_NANOS: u64 = 40_000_000;
const REPEATS: usize = 5;

fn processor_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The best of a few measurements, in bytes per nanosecond.
fn throughput(bytes: usize, mut work: impl FnMut()) -> f64 {
    let mut measure = || {
        let (start, mut rounds) = (processor_nanos(), 0u64);
        loop {
            for _ in 0..64 {
                work();
            }
            rounds += 64;
            let elapsed = processor_nanos() - start;
            if elapsed >= MEASURE_NANOS {
                return rounds as f64 * bytes as f64 / elapsed as f64;
            }
        }
    };
    (0..REPEATS).map(|_| measure()).fold(0.0, f64::max)
}

fn noise(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| ((i + seed * 7919).wrapping_mul(0x9e37_79b9) >> 15) as u8).collect()
}

fn measure(code: &Code, shard_bytes: usize) -> [f64; 4] {
    let (k, m) = (code.k(), code.m());
    // Each shard has a page of its own, as in the data path.
    let aligned = |bytes: &[u8]| types::AlignedBuf::copy_from(bytes);
    let data: Vec<_> = (0..k).map(|shard| aligned(&noise(shard, shard_bytes))).collect();
    let data: Vec<&[u8]> = data.iter().map(|shard| shard.as_slice()).collect();
    let mut parity: Vec<_> = (0..m).map(|_| types::AlignedBuf::zeroed(shard_bytes)).collect();
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(|shard| shard.as_mut_slice()).collect();

    let encode = throughput(k * shard_bytes, || code.encode(black_box(&data), &mut parity).unwrap());
    let new = noise(99, shard_bytes);
    let update = throughput(shard_bytes, || code.update(1, data[1], black_box(&new), &mut parity).unwrap());
    code.encode(&data, &mut parity).unwrap();

    let recover = |losses: usize| {
        let lost = ShardSet::first(losses);
        let decoder = code.decoder(lost, code.shards().without(lost)).unwrap();
        let shard = |shard: usize| if shard < k { data[shard] } else { &*parity[shard - k] };
        let sources: Vec<&[u8]> = decoder.sources().iter().map(shard).collect();
        let mut targets: Vec<_> = (0..losses).map(|_| types::AlignedBuf::zeroed(shard_bytes)).collect();
        let mut targets: Vec<&mut [u8]> = targets.iter_mut().map(|target| target.as_mut_slice()).collect();
        let result = throughput(k * shard_bytes, || decoder.decode(black_box(&sources), &mut targets).unwrap());
        assert!(targets.iter().zip(&data).all(|(target, data)| *target == *data), "{code}");
        result
    };
    [encode, recover(1), recover(m), update]
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    println!("GB/s on one core; the kernel chosen here is {}", Kernel::best());
    println!(
        "{:<12} {:<26} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "kernel", "code", "shard", "encode", "recover 1", "recover m", "update"
    );
    for kernel in Kernel::available().into_iter().filter(|kernel| kernel.name().contains(&wanted)) {
        for (technique, k, m) in [
            (Technique::IsaVandermonde, 4, 2),
            (Technique::IsaVandermonde, 8, 3),
            (Technique::IsaCauchy, 8, 3),
            (Technique::IsaVandermonde, 2, 1),
        ] {
            let code = Code::new(technique, k, m).unwrap().with_kernel(kernel);
            for shard_kib in [4, 64, 1024] {
                let [encode, one, all, update] = measure(&code, shard_kib << 10);
                let name = format!("{technique} {k}+{m}");
                println!(
                    "{:<12} {name:<26} {shard_kib:>5} KiB {encode:>9.1} {one:>9.1} {all:>9.1} {update:>9.1}",
                    kernel.name()
                );
            }
        }
    }
}
