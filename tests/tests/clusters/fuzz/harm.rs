//! Harm that is done to the bytes of a conversation.

use types::crc32c;
use wire::msgr::{RecordError, Seal, TAG_BYTES};

/// Numbers by a seed (SplitMix64).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// A length: mostly short, sometimes `max`.
    pub fn length(&mut self, max: u64) -> usize {
        let bits = self.below(64 - u64::from(max.leading_zeros()) + 1);
        self.below(1 << bits).min(max) as usize
    }

    pub fn bytes(&mut self, max: u64) -> Vec<u8> {
        let length = self.length(max);
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// One kind of harm, at a place in the conversation. Places are counted in bytes that this side has sent.
#[derive(Clone, Debug)]
pub enum Harm {
    None {
        secure: bool,
    },
    /// Nothing but noise, behind a true banner or none.
    Noise {
        banner: bool,
    },
    /// Frames with right checksums that say anything.
    Frames {
        at: usize,
    },
    /// Some bits are turned.
    Flip {
        at: usize,
        bits: u64,
    },
    /// The conversation breaks off; the connection stays open, or is closed.
    Truncate {
        at: usize,
        stays: bool,
    },
    /// One piece comes twice, too late, or not at all.
    Twice {
        piece: usize,
    },
    Swapped {
        piece: usize,
    },
    Left {
        piece: usize,
    },
    /// All pieces of an earlier conversation.
    Replay,
    /// One byte at a time.
    Slow,
    /// Messages of all kinds that say anything, once the session stands.
    Messages {
        secure: bool,
    },
    /// Bits of frames, or records, of the session are turned once it stands.
    Later {
        secure: bool,
    },
    /// Records of secure mode that are sealed as they should be and say anything, behind the first `honest` ones.
    Sealed {
        honest: u64,
    },
}

impl Harm {
    pub fn any(random: &mut Random) -> Harm {
        let at = random.below(1200) as usize;
        let piece = random.below(5) as usize;
        let secure = random.below(2) == 0;
        match random.below(15) {
            0 => Harm::Noise { banner: random.below(2) == 0 },
            1 | 2 => Harm::Frames { at: [0, 26, 100, at][random.below(4) as usize] },
            3 | 4 => Harm::Flip { at, bits: 1 + random.below(4) },
            5 => Harm::Truncate { at, stays: random.below(2) == 0 },
            6 => Harm::Twice { piece },
            7 => Harm::Swapped { piece },
            8 => Harm::Left { piece },
            9 => Harm::Replay,
            10 => Harm::Slow,
            11 | 12 => Harm::Messages { secure },
            13 => Harm::Sealed { honest: random.below(8) },
            _ => Harm::Later { secure },
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Harm::None { .. } => "nothing",
            Harm::Noise { .. } => "noise",
            Harm::Frames { .. } => "frames",
            Harm::Flip { .. } => "flipped bits",
            Harm::Truncate { .. } => "truncated",
            Harm::Twice { .. } => "a piece twice",
            Harm::Swapped { .. } => "pieces swapped",
            Harm::Left { .. } => "a piece left out",
            Harm::Replay => "replayed",
            Harm::Slow => "slow",
            Harm::Messages { secure: false } => "messages",
            Harm::Messages { secure: true } => "messages, secure",
            Harm::Later { secure: false } => "flipped bits of a session",
            Harm::Later { secure: true } => "flipped bits of a session, secure",
            Harm::Sealed { .. } => "sealed",
        }
    }

    /// True for conversations that have to be in secure mode.
    pub fn is_secure(&self) -> bool {
        match self {
            Harm::None { secure } | Harm::Messages { secure } | Harm::Later { secure } => *secure,
            Harm::Sealed { .. } => true,
            _ => false,
        }
    }

    /// True if the visitor speaks on once the session stands.
    pub fn goes_on(&self) -> bool {
        matches!(self, Harm::Messages { .. } | Harm::Later { .. } | Harm::Sealed { .. })
    }
}

/// Bytes of a frame's preamble.
pub const PREAMBLE_BYTES: usize = 32;

/// A frame with a right checksum of its preamble, of any type, with any lengths, and what it announces or less.
pub fn frame(random: &mut Random) -> Vec<u8> {
    let mut frame = vec![random.below(24) as u8, random.below(6) as u8];
    let mut lengths = [0_u32; 4];
    for length in &mut lengths {
        *length = match random.below(8) {
            0..4 => random.length(300) as u32,
            4 => random.length(70_000) as u32,
            5 => random.next() as u32,
            6 => u32::MAX - random.below(64) as u32,
            _ => 0,
        };
        frame.extend_from_slice(&length.to_le_bytes());
        frame.extend_from_slice(&8_u16.to_le_bytes());
    }
    frame.push(if random.below(8) == 0 { 1 } else { 0 });
    frame.push(0);
    let crc = crc32c::update(0, &frame);
    frame.extend_from_slice(&crc.to_le_bytes());
    assert_eq!(frame.len(), PREAMBLE_BYTES);
    let payload: Vec<u8> = (0..lengths[0].min(100_000)).map(|_| random.next() as u8).collect();
    frame.extend_from_slice(&payload);
    frame.extend_from_slice(&crc32c::checksum(&payload).to_le_bytes());
    frame.extend(random.bytes(400));
    frame
}

/// Bytes of the record that begins a frame.
const HEAD_BYTES: usize = 80;

/// A direction of secure mode that does harm to records before it seals them, so that they open at the other end.
#[derive(Debug)]
pub struct HarmfulSeal {
    pub seal: Box<dyn Seal>,
    /// Records that are left as they are.
    pub honest: u64,
    pub random: Random,
}

impl Seal for HarmfulSeal {
    fn seal(&mut self, record: &mut [u8]) -> Result<[u8; TAG_BYTES], RecordError> {
        if self.honest > 0 {
            self.honest -= 1;
        } else if self.random.below(3) == 0 {
            self.harm(record);
        }
        self.seal.seal(record)
    }

    fn is_worn(&self) -> bool {
        self.seal.is_worn()
    }
}

impl HarmfulSeal {
    fn harm(&mut self, record: &mut [u8]) {
        let random = &mut self.random;
        match random.below(3) {
            // A preamble with a right checksum that announces anything.
            0 if record.len() == HEAD_BYTES => {
                record[..PREAMBLE_BYTES].copy_from_slice(&frame(random)[..PREAMBLE_BYTES]);
            }
            1 => record.iter_mut().for_each(|byte| *byte = random.next() as u8),
            _ => {
                let bits = 1 + random.below(4);
                flip(record, bits, random);
            }
        }
    }
}

/// Turns bits behind `at`.
pub fn flip(bytes: &mut [u8], bits: u64, random: &mut Random) {
    for _ in 0..bits {
        if !bytes.is_empty() {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
    }
}
