use super::*;
use crate::technique::Technique;
use proptest::prelude::*;

/// Encodes with the portable kernel: `shards[0..k]` are data, the others parity.
fn stripe(code: &Code, bytes: usize, seed: u64) -> Vec<Vec<u8>> {
    let byte = |i: usize| {
        let mixed = (i as u64 + 1).wrapping_mul(seed | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()[6]
    };
    let mut shards: Vec<Vec<u8>> = (0..code.shards().len())
        .map(|shard| (0..bytes).map(|i| if shard < code.k() { byte(shard * bytes + i) } else { 0xee }).collect())
        .collect();
    let (data, parity) = shards.split_at_mut(code.k());
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&data, &mut parity).unwrap();
    shards
}

/// Checks that the decoder computes its targets' bytes and writes to no others.
fn check(decoder: &Decoder, shards: &[Vec<u8>], context: &dyn Fn() -> String) {
    let sources: Vec<&[u8]> = decoder.sources().iter().map(|shard| shards[shard].as_slice()).collect();
    let mut targets: Vec<Vec<u8>> = decoder.targets().iter().map(|shard| vec![0x55; shards[shard].len()]).collect();
    let mut slices: Vec<&mut [u8]> = targets.iter_mut().map(Vec::as_mut_slice).collect();
    decoder.decode(&sources, &mut slices).unwrap();
    for (shard, target) in decoder.targets().iter().zip(&targets) {
        assert!(*target == shards[shard], "{}: shard {shard} by {decoder:?}", context());
    }
}

#[test]
fn every_kernel_recovers_every_loss_up_to_twelve_shards() {
    // 131 bytes use registers of every width, and leave a rest.
    const BYTES: usize = 131;
    let kernels = Kernel::available();
    for technique in Technique::ALL {
        for (k, m) in (2..12).flat_map(|k| (1..=12 - k).map(move |m| (k, m))) {
            let Ok(code) = Code::new(technique, k, m) else { continue };
            let code = code.with_kernel(kernels[0]);
            let shards = stripe(&code, BYTES, (k * 16 + m) as u64);
            for lost in (1..1u64 << (k + m)).map(ShardSet::from_bits).filter(|lost| lost.len() <= m) {
                let mut decoder = code.decoder(lost, code.shards().without(lost)).unwrap();
                assert_eq!(decoder.targets(), lost);
                for &kernel in &kernels {
                    decoder.kernel = kernel;
                    check(&decoder, &shards, &|| code.to_string());
                }
            }
        }
    }
}

#[test]
fn more_losses_than_parities_are_refused() {
    let code = Code::new(Technique::JerasureVandermonde, 4, 2).unwrap();
    let lost: ShardSet = [0, 1, 5].into_iter().collect();
    let error = code.decoder(lost, code.shards().without(lost)).unwrap_err();
    assert_eq!(error.to_string(), "only 3 of 4 needed shards are available (2,3,4)");
    assert_eq!(code.minimum_to_decode(lost, code.shards().without(lost)).unwrap_err(), error);
    let error = code.decoder(ShardSet::from_bits(0x41), code.shards()).unwrap_err();
    assert_eq!(error.to_string(), "shards 6 are beyond the last one, 5");
}

#[test]
fn what_is_there_is_neither_read_beyond_need_nor_computed() {
    let code = Code::new(Technique::IsaCauchy, 4, 2).unwrap();
    let set = |shards: &[usize]| shards.iter().copied().collect::<ShardSet>();
    assert_eq!(code.minimum_to_decode(set(&[2]), set(&[1, 2])).unwrap(), set(&[2]));
    assert_eq!(code.minimum_to_decode(set(&[2]), set(&[0, 1, 3, 4, 5])).unwrap(), set(&[0, 1, 3, 4]));
    let decoder = code.decoder(set(&[1, 2]), set(&[1, 2])).unwrap();
    assert!(decoder.sources().is_empty() && decoder.targets().is_empty());
    decoder.decode(&[], &mut []).unwrap();
    let decoder = code.decoder(set(&[1, 2, 5]), set(&[0, 1, 3, 4])).unwrap();
    assert_eq!((decoder.sources(), decoder.targets()), (set(&[0, 1, 3, 4]), set(&[2, 5])));
}

#[test]
fn buffers_that_do_not_fit_are_refused_and_nothing_is_written() {
    let code = Code::new(Technique::JerasureVandermonde, 2, 1).unwrap();
    let decoder = code.decoder(ShardSet::from_bits(0b001), ShardSet::from_bits(0b110)).unwrap();
    let refusal = |sources: &[&[u8]], target_bytes: usize| {
        let mut target = vec![7; target_bytes];
        let error = decoder.decode(sources, &mut [&mut target]).unwrap_err();
        assert!(target.iter().all(|&byte| byte == 7));
        error.to_string()
    };
    assert_eq!(refusal(&[&[1; 8]], 8), "1 source buffers where there are 2");
    assert_eq!(refusal(&[&[1; 8], &[1; 9]], 8), "source buffer 1 has 9 bytes where the first buffer has 8");
    assert_eq!(refusal(&[&[1; 8], &[1; 8]], 7), "target buffer 0 has 7 bytes where the first buffer has 8");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// Large codes, parts of the lost shards, and long shards are recovered.
    #[test]
    fn any_part_of_any_loss(
        technique in prop::sample::select(Technique::ALL.to_vec()),
        k in 2usize..33,
        m in 1usize..9,
        bytes in 0usize..9000,
        lost in any::<[u8; 16]>(),
        wanted in any::<u64>(),
        seed in any::<u64>(),
    ) {
        let Ok(code) = Code::new(technique, k, m) else { return Ok(()) };
        let shards = stripe(&code, bytes, seed);
        let lost: ShardSet = lost.iter().map(|&byte| usize::from(byte) % (k + m)).take(m).collect();
        let want = ShardSet::from_bits(wanted).intersection(code.shards());
        let decoder = code.decoder(want, code.shards().without(lost)).unwrap();
        prop_assert_eq!(decoder.targets(), want.intersection(lost));
        check(&decoder, &shards, &|| code.to_string());
    }
}
