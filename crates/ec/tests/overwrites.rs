//! Shards of one object under overwrites, byte by byte, as docs/decisions/2026-11-27-erasure-coded-overwrites.md has
//! them: edges are written in place on data shards and logged whole for the parities, or their difference is added to
//! the parities at once; what is logged is folded later. Whatever is lost, up to m shards, the rest gives the object.

use ec::{Code, Overwrite, ShardSet, StripeLayout, Technique};
use proptest::prelude::*;
use std::ops::Range;

/// All shards of one object.
struct Shards {
    code: Code,
    layout: StripeLayout,
    /// The newest state of each data shard.
    data: Vec<Vec<u8>>,
    /// The base's bytes of each data shard, where a logged write is not folded. They may equal the newest ones.
    kept: Vec<Vec<Option<u8>>>,
    /// The base of each parity shard.
    parity: Vec<Vec<u8>>,
    /// Written bytes that are not folded, oldest first. Each parity shard has them.
    log: Vec<(u64, Vec<u8>)>,
    /// The object, as clients see it.
    object: Vec<u8>,
}

impl Shards {
    fn new(code: Code, unit_bytes: u32) -> Shards {
        let (k, m) = (code.k(), code.m());
        let layout = StripeLayout::new(k, unit_bytes).expect("a layout");
        let (data, kept) = (vec![Vec::new(); k], vec![Vec::new(); k]);
        Shards { code, layout, data, kept, parity: vec![Vec::new(); m], log: Vec::new(), object: Vec::new() }
    }

    fn write(&mut self, offset: u64, bytes: &[u8], at_once: bool) {
        let written = offset..offset + bytes.len() as u64;
        let parts = Overwrite::of(&self.layout, written.clone(), self.object.len() as u64);
        let size = self.object.len().max(written.end as usize);
        let shard_bytes = self.layout.shard_bytes(size as u64) as usize;
        self.data.iter_mut().chain(&mut self.parity).for_each(|shard| shard.resize(shard_bytes, 0));
        self.kept.iter_mut().for_each(|kept| kept.resize(shard_bytes, None));
        self.object.resize(size, 0);
        self.object[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        let of = |range: &Range<u64>| &bytes[(range.start - offset) as usize..(range.end - offset) as usize];
        self.encode_whole(&parts.encoded);
        for edge in parts.edges {
            self.write_edge(&edge, of(&edge), at_once);
        }
    }

    /// Writes stripes to all shards.
    fn encode_whole(&mut self, encoded: &Range<u64>) {
        let range = self.layout.shard_range_around(encoded.clone());
        let (begin, end) = (range.start as usize, range.end as usize);
        for offset in encoded.start..self.layout.padded_bytes(encoded.end).max(encoded.start) {
            let (shard, at) = self.layout.locate(offset);
            self.data[shard][at as usize] = self.object.get(offset as usize).copied().unwrap_or(0);
            self.kept[shard][at as usize] = None;
        }
        let sources: Vec<&[u8]> = self.data.iter().map(|shard| &shard[begin..end]).collect();
        let mut targets: Vec<&mut [u8]> = self.parity.iter_mut().map(|shard| &mut shard[begin..end]).collect();
        self.code.encode(&sources, &mut targets).expect("shards of one length");
        // Logged bytes in these stripes are void.
        let stripes = self.layout.stripes_around(encoded.clone());
        if !encoded.is_empty() {
            self.log.retain(|(offset, _)| !stripes.contains(offset));
        }
    }

    /// Writes within one stripe.
    fn write_edge(&mut self, edge: &Range<u64>, bytes: &[u8], at_once: bool) {
        let pieces: Vec<_> = self.layout.pieces(edge.clone()).collect();
        let places = |piece: &ec::Piece| (piece.shard, piece.shard_offset as usize, piece.bytes as usize);
        let is_unfolded = pieces
            .iter()
            .map(places)
            .any(|(shard, at, len)| self.kept[shard][at..at + len].iter().any(Option::is_some));
        for piece in &pieces {
            let (shard, at, len) = places(piece);
            let new = &bytes[(piece.logical_offset - edge.start) as usize..][..len];
            let old = self.data[shard][at..at + len].to_vec();
            if at_once && !is_unfolded {
                self.add_difference(shard, at, &old, new);
            } else {
                for (kept, old) in self.kept[shard][at..at + len].iter_mut().zip(&old) {
                    kept.get_or_insert(*old);
                }
            }
            self.data[shard][at..at + len].copy_from_slice(new);
        }
        if !at_once || is_unfolded {
            self.log.push((edge.start, bytes.to_vec()));
        }
    }

    fn add_difference(&mut self, shard: usize, at: usize, old: &[u8], new: &[u8]) {
        let mut delta = vec![0; old.len()];
        self.code.delta(old, new, &mut delta).expect("equal lengths");
        for (index, parity) in self.parity.iter_mut().enumerate() {
            let parity = &mut parity[at..at + delta.len()];
            self.code.add_delta(shard, index, &delta, parity).expect("equal lengths");
        }
    }

    /// Lays logged bytes over a state of a data shard.
    fn lay_over(&self, shard: usize, log: &[(u64, Vec<u8>)], state: &mut [u8]) {
        for (offset, bytes) in log {
            let pieces = self.layout.pieces(*offset..offset + bytes.len() as u64);
            for piece in pieces.filter(|piece| piece.shard == shard) {
                let from = (piece.logical_offset - offset) as usize;
                state[piece.shard_offset as usize..][..piece.bytes as usize]
                    .copy_from_slice(&bytes[from..][..piece.bytes as usize]);
            }
        }
    }

    /// Makes the state after the oldest `updates` logged ones the base.
    fn fold(&mut self, updates: usize) {
        let later = self.log.split_off(updates.min(self.log.len()));
        let folded = std::mem::replace(&mut self.log, later);
        for shard in 0..self.code.k() {
            let base = self.base(shard);
            let mut state = base.clone();
            self.lay_over(shard, &folded, &mut state);
            self.add_difference(shard, 0, &base, &state);
            let unfolded = self.logged_places(shard);
            self.kept[shard] = state.iter().zip(unfolded).map(|(state, is)| is.then_some(*state)).collect();
        }
    }

    /// Tells of each byte of a data shard if a logged write has it.
    fn logged_places(&self, shard: usize) -> Vec<bool> {
        let mut places = vec![false; self.data[shard].len()];
        for (offset, bytes) in &self.log {
            let pieces = self.layout.pieces(*offset..offset + bytes.len() as u64);
            for piece in pieces.filter(|piece| piece.shard == shard) {
                places[piece.shard_offset as usize..][..piece.bytes as usize].fill(true);
            }
        }
        places
    }

    /// A shard as it is in the code word of all.
    fn base(&self, shard: usize) -> Vec<u8> {
        match shard.checked_sub(self.code.k()) {
            Some(index) => self.parity[index].clone(),
            None => self.data[shard].iter().zip(&self.kept[shard]).map(|(new, kept)| kept.unwrap_or(*new)).collect(),
        }
    }

    /// The object, of the shards that are not `lost`.
    fn read(&self, lost: ShardSet) -> Vec<u8> {
        let there = self.code.shards().without(lost);
        let mut data = self.data.clone();
        let lost_data = lost.intersection(ShardSet::first(self.code.k()));
        if !lost_data.is_empty() {
            let decoder = self.code.decoder(lost_data, there).expect("enough shards");
            let sources: Vec<Vec<u8>> = decoder.sources().iter().map(|shard| self.base(shard)).collect();
            let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            let mut states = vec![vec![0; self.data[0].len()]; decoder.targets().len()];
            let mut targets: Vec<&mut [u8]> = states.iter_mut().map(Vec::as_mut_slice).collect();
            decoder.decode(&sources, &mut targets).expect("shards of one length");
            for (shard, mut state) in decoder.targets().iter().zip(states) {
                self.lay_over(shard, &self.log, &mut state);
                data[shard] = state;
            }
        }
        let place = |offset: usize| {
            let (shard, at) = self.layout.locate(offset as u64);
            data[shard][at as usize]
        };
        (0..self.object.len()).map(place).collect()
    }
}

#[derive(Clone, Debug)]
enum Event {
    Write { offset: u64, bytes: Vec<u8>, at_once: bool },
    Fold(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let bytes = proptest::collection::vec(any::<u8>(), 1..60);
    let write = (0u64..300, bytes, any::<bool>());
    let write = write.prop_map(|(offset, bytes, at_once)| Event::Write { offset, bytes, at_once });
    prop_oneof![4 => write, 1 => (0usize..6).prop_map(Event::Fold)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn whatever_is_lost_the_rest_gives_the_object(
        technique in prop::sample::select(Technique::ALL.to_vec()),
        k in 2usize..9,
        m in 1usize..5,
        unit_bytes in 1u32..24,
        events in proptest::collection::vec(event(), 1..24),
        losses in proptest::collection::vec(any::<u64>(), 24),
    ) {
        let Ok(code) = Code::new(technique, k, m) else { return Ok(()) };
        let mut shards = Shards::new(code, unit_bytes);
        for (event, loss) in events.into_iter().zip(losses) {
            match event {
                Event::Write { offset, bytes, at_once } => shards.write(offset, &bytes, at_once),
                Event::Fold(updates) => shards.fold(updates),
            }
            let lost: ShardSet = ShardSet::from_bits(loss).intersection(shards.code.shards()).iter().take(m).collect();
            prop_assert!(shards.read(lost) == shards.object, "{} without {}", shards.code, lost);
            prop_assert!(shards.read(ShardSet::EMPTY) == shards.object, "all data shards are the object");
        }
        // With nothing left to fold the shards are those of the object encoded whole.
        shards.fold(usize::MAX);
        let mut whole = Shards::new(Code::new(technique, k, m).expect("as before"), unit_bytes);
        whole.write(0, &shards.object, false);
        prop_assert_eq!(&shards.data, &whole.data);
        prop_assert_eq!(&shards.parity, &whole.parity);
    }
}

/// A byte is written twice with the same value, the first write is folded, and the third one's difference is offered at
/// once. The second write is still logged and would come back over the third, were the third not logged behind it.
#[test]
fn a_place_stays_unfolded_while_its_base_happens_to_be_the_newest() {
    let code = Code::new(Technique::IsaVandermonde, 4, 1).expect("a code");
    let mut shards = Shards::new(code, 11);
    shards.write(0, &[1; 44], false);
    shards.write(0, &[7; 4], false);
    shards.write(0, &[7; 4], false);
    shards.fold(1);
    shards.write(0, &[9; 4], true);
    for folded in [0, 1, usize::MAX] {
        shards.fold(folded);
        assert_eq!(shards.read(ShardSet::first(1)), shards.object);
        assert_eq!(shards.read(ShardSet::EMPTY), shards.object);
    }
    assert_eq!(shards.base(0), shards.data[0]);
}
