//! Contents that an image must have, and random operations on both.

use bytes::Bytes;
use client::rbd::Image;
use std::collections::BTreeMap;

/// A sequence that looks random: SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }
}

/// The image's bytes, and those of its snapshots.
pub struct Model {
    pub bytes: Vec<u8>,
    /// Before the last write.
    pub before_last: Vec<u8>,
    pub snapshots: BTreeMap<String, Vec<u8>>,
    taken: u32,
}

impl Model {
    pub fn new(size: u64) -> Model {
        Model::of(vec![0; size as usize])
    }

    pub fn of(bytes: Vec<u8>) -> Model {
        Model { before_last: bytes.clone(), bytes, snapshots: BTreeMap::new(), taken: 0 }
    }

    pub async fn write(&mut self, image: &Image, offset: u64, length: u64, random: &mut Random) {
        let mut data = vec![0; length as usize];
        data.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]));
        image.write(offset, Bytes::from(data.clone())).await.expect("written");
        self.before_last.clone_from(&self.bytes);
        self.bytes[offset as usize..][..length as usize].copy_from_slice(&data);
    }

    /// Something random, on the image and here.
    pub async fn step(&mut self, image: &Image, random: &mut Random) {
        let size = self.bytes.len() as u64;
        let offset = random.below(size);
        let length = match random.below(4) {
            0 => random.below(3 << 20),
            1 => 4096,
            _ => random.below(200_000),
        };
        let length = length.min(size - offset);
        match random.below(20) {
            0..=9 => self.write(image, offset, length, random).await,
            10..=12 => {
                image.discard(offset, length).await.expect("discarded");
                self.bytes[offset as usize..][..length as usize].fill(0);
            }
            13 => {
                // Whole objects.
                let (from, to) = (offset >> 20 << 20, (offset + length).next_multiple_of(1 << 20).min(size));
                image.write_zeroes(from, to - from).await.expect("zeroed");
                self.bytes[from as usize..to as usize].fill(0);
            }
            14..=15 => {
                self.taken += 1;
                let name = format!("s{}", self.taken);
                image.create_snapshot(&name).await.expect("a snapshot");
                self.snapshots.insert(name, self.bytes.clone());
            }
            16 => {
                // Not for clones: their snapshots would show more of the parent than they do.
                if image.info().await.expect("info").parent_overlap_bytes.is_none() {
                    let size = size / 2 + random.below(size);
                    image.resize(size).await.expect("resized");
                    self.bytes.resize(size as usize, 0);
                }
            }
            17 => {
                if let Some((name, bytes)) = self.some_snapshot(random) {
                    image.roll_back(&name).await.expect("rolled back");
                    self.bytes = bytes;
                }
            }
            18 => {
                if let Some((name, _)) = self.some_snapshot(random) {
                    image.remove_snapshot(&name).await.expect("removed");
                    self.snapshots.remove(&name);
                }
            }
            _ => {
                let got = image.read(offset, length).await.expect("read").to_vec();
                assert!(got == self.bytes[offset as usize..][..length as usize], "read of {length} at {offset}");
                image.flush().await.expect("flushed");
            }
        }
    }

    fn some_snapshot(&self, random: &mut Random) -> Option<(String, Vec<u8>)> {
        let index = random.below(self.snapshots.len() as u64) as usize;
        self.snapshots.iter().nth(index).map(|(name, bytes)| (name.clone(), bytes.clone()))
    }

    /// All of the image is as it must be.
    pub async fn check(&self, image: &Image) {
        assert_eq!(image.size_bytes().await.expect("a size"), self.bytes.len() as u64);
        let got = image.read(0, self.bytes.len() as u64).await.expect("read").to_vec();
        if got != self.bytes {
            let first = got.iter().zip(&self.bytes).position(|(got, expected)| got != expected);
            panic!("first byte that differs: {first:?}");
        }
        let names: Vec<String> = image.snapshots().await.expect("snapshots").into_iter().map(|s| s.name).collect();
        let mut expected: Vec<String> = self.snapshots.keys().cloned().collect();
        expected.sort_by_key(|name| name[1..].parse::<u32>().expect("a number"));
        assert_eq!(names, expected);
    }

    /// Writes of another program by its own words: lines of offset and length, all bytes of one value.
    pub fn take_from(&mut self, said: &str, value: u64) {
        for line in said.lines() {
            let mut words = line.split_whitespace().map(|word| word.parse::<usize>().expect("a number"));
            let (offset, length) = (words.next().expect("an offset"), words.next().expect("a length"));
            self.bytes[offset..offset + length].fill(value as u8);
        }
    }
}
