//! Bytes that no peer should send.

use super::network::{Network, Rng, message};
use crate::msgr::assembler::{Assembler, Incoming};
use crate::msgr::frame::{MessageHeader, Transmission, combine_blocks};
use crate::msgr::limits;
use bytes::BytesMut;
use proptest::prelude::*;
use types::crc32c;

/// Frames until the first error or the end, and whether there was an error. Bulk segments are taken from the stream.
fn assemble(bytes: &[u8], established: bool, bulk_min_bytes: Option<usize>, seed: u64) -> (Vec<Incoming>, bool) {
    let mut assembler = Assembler::new(bulk_min_bytes, seed.is_multiple_of(2), types::BufPool::new(1 << 16));
    if established {
        let banner = [&b"ceph v2\n\x10\0"[..], &[0; 16]].concat();
        assembler.next(&mut &banner[..]).unwrap().unwrap();
        assembler.establish();
    }
    let (mut frames, mut rng, mut rest) = (Vec::new(), Rng(seed), bytes);
    while !rest.is_empty() {
        if let Some(n) = assembler.bulk_wanted() {
            assert!(n <= limits::DATA_BYTES);
            let Some((bulk, tail)) = rest.split_at_checked(n) else { break };
            assembler.bulk_received(types::AlignedBuf::copy_from(bulk));
            rest = tail;
            continue;
        }
        let (mut chunk, tail) = rest.split_at(rest.len().min(1 + rng.below(3000)));
        loop {
            match assembler.next(&mut chunk) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
        rest = &rest[rest.len() - tail.len() - chunk.len()..];
    }
    (frames, false)
}

fn messages(sizes: &[(usize, usize, usize)]) -> Vec<u8> {
    let mut t = Transmission::new(BytesMut::new());
    for (i, (front, middle, data)) in sizes.iter().enumerate() {
        let mut envelope = message(i as u64, *front, *data);
        envelope.middle = vec![9; *middle].into();
        t.put_message(&MessageHeader { seq: i as u64 + 1, ack_seq: 3, flags: 1, header: envelope.header }, &envelope);
    }
    t.finish().0.to_vec()
}

/// A preamble with the right checksum around any claims.
pub(super) fn preamble_claiming(tag: u8, count: u8, lengths: &[prop::sample::Index; 4], flags: u8) -> Vec<u8> {
    let mut raw = vec![tag, count];
    for (i, length) in lengths.iter().enumerate() {
        let claim = match length.index(5) {
            0 => 0,
            1 if i == 0 => 41,
            1 | 2 => length.index(200) as u32,
            3 => length.index(1 << 27) as u32,
            _ => length.index(usize::MAX) as u32,
        };
        raw.extend(claim.to_le_bytes());
        raw.extend([8, 0]);
    }
    raw.extend([flags, 0]);
    raw.extend(crc32c::update(0, &raw).to_le_bytes());
    raw
}

proptest! {
    #[test]
    fn messages_of_any_shape_are_read_as_they_were_written(
        sizes in prop::collection::vec((0..5000usize, prop_oneof![Just(0usize), 0..3000usize], prop_oneof![Just(0), 0..40_000usize]), 1..6),
        bulk in prop_oneof![Just(None), Just(Some(16_384))],
        seed: u64,
    ) {
        let (frames, error) = assemble(&messages(&sizes), true, bulk, seed);
        prop_assert!(!error);
        prop_assert_eq!(frames.len(), sizes.len());
        for ((i, frame), (front, middle, data)) in frames.into_iter().enumerate().zip(sizes) {
            let Incoming::Message { header, envelope } = frame else { panic!("not a message") };
            let sent = message(i as u64, front, data);
            prop_assert_eq!((header.seq, header.ack_seq, header.header), (i as u64 + 1, 3, sent.header));
            prop_assert_eq!(envelope.front, sent.front);
            prop_assert_eq!(envelope.middle.len(), middle);
            prop_assert_eq!(envelope.data.to_vec(), sent.data.to_vec());
        }
    }

    #[test]
    fn a_changed_byte_is_noticed(
        sizes in prop::collection::vec((0..300usize, Just(0), 0..20_000usize), 1..4),
        at: prop::sample::Index,
        // The upper half of an epilogue's status means nothing.
        change in (1..=255u8).prop_filter("lower half", |c| c & 0x0f != 0),
        seed: u64,
    ) {
        let mut bytes = messages(&sizes);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        let (frames, error) = assemble(&bytes, true, Some(16_384), seed);
        // Only a frame that the sender says it gave up may go missing without an error.
        prop_assert!(error || frames.len() < sizes.len());
    }

    #[test]
    fn any_bytes_do_no_harm(bytes: Vec<u8>, established: bool, seed: u64) {
        assemble(&bytes, established, Some(16_384), seed);
    }

    /// Preambles with right checksums around any claims.
    #[test]
    fn any_preamble_does_no_harm(
        tag in prop_oneof![Just(17u8), any::<u8>()],
        count in 0..6u8,
        lengths: [prop::sample::Index; 4],
        flags in 0..3u8,
        rest in prop::collection::vec(any::<u8>(), 0..300),
        established: bool,
        seed: u64,
    ) {
        let mut raw = preamble_claiming(tag, count, &lengths, flags);
        raw.extend(rest);
        assemble(&raw, established, Some(16_384), seed);
        assemble(&raw, established, None, seed);
    }

    #[test]
    fn crcs_of_blocks_give_the_crc_of_all(bytes in prop::collection::vec(any::<u8>(), 0..20_000)) {
        let crcs: Vec<u32> = crate::msgr::frame::block_crcs(&bytes).collect();
        prop_assert_eq!(combine_blocks(&crcs, bytes.len()), crc32c::checksum(&bytes));
    }
}

/// Bytes of the stream between two lossless daemons are changed on their way: checksums notice, and the session goes
/// on over another connection.
#[test]
fn damage_on_the_way_is_healed_on_lossless_sessions() {
    for seed in 0..60 {
        let mut net: Network = super::lossless::two_osds(seed);
        let session = super::lossless::dial(&mut net, 0);
        net.settle();
        for number in 0..10 {
            net.send(0, session, message(number, 100, 6000));
        }
        let at = net.rng.below(60_000);
        net.flip(at);
        net.sleep(std::time::Duration::from_secs(5));
        super::lossless::check_received(&net, 1, 10, |_| (100, 6000));
        let faults = net.nodes[1].faults.join("\n");
        assert!(faults.contains("checksum"), "{faults}");
    }
}
