//! The drive behind [`crate::NvmeTarget`]: its namespaces, what it says of itself, and its blocks.

use std::collections::BTreeMap;

pub(crate) const BLOCK: u64 = 4096;
/// Status codes, with the bit that says that trying again is of no use.
pub(crate) const INVALID_OPCODE: u16 = 0x4001;
pub(crate) const INVALID_FIELD: u16 = 0x4002;
const INVALID_NAMESPACE: u16 = 0x400b;
const OUT_OF_RANGE: u16 = 0x4080;
const INSUFFICIENT_CAPACITY: u16 = 0x4115;
const NO_NAMESPACE_LEFT: u16 = 0x4116;
const ALREADY_ATTACHED: u16 = 0x4118;
const NOT_ATTACHED: u16 = 0x411a;
const WRONG_CONTROLLERS: u16 = 0x411c;
const ALL: u32 = u32::MAX;
/// Namespaces that it can have.
const NAMESPACES_MAX: u32 = 8;
/// Bytes of a structure that a controller identifies something by.
const IDENTITY: usize = 4096;

/// An answer to a command.
pub(crate) struct Answer {
    pub status: u16,
    pub result: u64,
    pub data: Vec<u8>,
}

impl Answer {
    pub(crate) fn of(result: u64) -> Answer {
        Answer { status: 0, result, data: Vec::new() }
    }

    pub(crate) fn refused(status: u16) -> Answer {
        Answer { status, result: 0, data: Vec::new() }
    }

    fn bytes(data: Vec<u8>) -> Answer {
        Answer { status: 0, result: 0, data }
    }
}

struct Namespace {
    blocks: u64,
    attached: bool,
    /// The how-manieth namespace of the drive's life it is, by which hosts know it.
    identity: u64,
    /// Blocks that were written.
    written: BTreeMap<u64, Vec<u8>>,
}

/// A drive with one controller.
pub(crate) struct NvmeDrive {
    bytes: u64,
    name: &'static str,
    namespaces: BTreeMap<u32, Namespace>,
    made: u64,
    pub erased: Vec<u32>,
}

/// A number at an offset of a command or a structure.
fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("long enough")
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

impl NvmeDrive {
    pub(crate) const CONTROLLER: u16 = 5;

    pub(crate) fn new(bytes: u64, name: &'static str) -> NvmeDrive {
        let mut drive = NvmeDrive { bytes, name, namespaces: BTreeMap::new(), made: 0, erased: Vec::new() };
        drive.make(bytes / BLOCK);
        drive.namespaces.values_mut().for_each(|namespace| namespace.attached = true);
        drive
    }

    pub(crate) fn namespaces(&self) -> Vec<(u32, u64, bool)> {
        self.namespaces.iter().map(|(id, one)| (*id, one.blocks, one.attached)).collect()
    }

    /// Makes a namespace under the lowest number that is free.
    fn make(&mut self, blocks: u64) -> Answer {
        let used: u64 = self.namespaces.values().map(|one| one.blocks).sum();
        if blocks == 0 {
            return Answer::refused(INVALID_FIELD);
        }
        if used.saturating_add(blocks) > self.bytes / BLOCK {
            return Answer::refused(INSUFFICIENT_CAPACITY);
        }
        let Some(id) = (1..=NAMESPACES_MAX).find(|id| !self.namespaces.contains_key(id)) else {
            return Answer::refused(NO_NAMESPACE_LEFT);
        };
        self.made += 1;
        let new = Namespace { blocks, attached: false, identity: self.made, written: BTreeMap::new() };
        self.namespaces.insert(id, new);
        Answer::of(id.into())
    }

    /// Carries out a command of the administrator's queue.
    pub(crate) fn admin(&mut self, command: &[u8; 64], data: &[u8]) -> Answer {
        let (id, word) = (u32::from_le_bytes(number(command, 4)), u32::from_le_bytes(number(command, 40)));
        match command[0] {
            // Log pages, with nothing in them.
            0x02 => Answer::bytes(vec![0; u32::from_le_bytes(number(command, 32)) as usize]),
            0x06 => self.identify(id, word & 0xff),
            // Features: one queue is what a host gets if it asks how many.
            0x09 | 0x0a => Answer::of(0),
            // Abort, keep alive.
            0x08 | 0x18 => Answer::of(0),
            0x0d => self.manage(id, word & 0xf, data),
            0x15 => self.attach(id, word & 0xf, data),
            0x80 => self.format(id, word),
            _ => Answer::refused(INVALID_OPCODE),
        }
    }

    fn identify(&self, id: u32, what: u32) -> Answer {
        let mut data = vec![0; IDENTITY];
        let list = |numbers: &mut dyn Iterator<Item = u32>| {
            let mut data: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
            data.resize(IDENTITY, 0);
            Answer::bytes(data)
        };
        let attached = |one: &&Namespace| one.attached;
        match what {
            // A namespace, which must be attached, or may be not.
            0x00 | 0x11 => {
                let found = self.namespaces.get(&id).filter(|one| one.attached || what == 0x11);
                if let Some(one) = found {
                    [0, 8, 16].into_iter().for_each(|at| put(&mut data, at, &one.blocks.to_le_bytes()));
                    put(&mut data, 104, &self.identity_of(one));
                }
                if found.is_some() || id == ALL {
                    // One format: blocks of 2^12 bytes.
                    data[130] = 12;
                }
                Answer::bytes(data)
            }
            0x01 => Answer::bytes(self.controller()),
            0x02 => list(&mut self.namespaces.iter().filter(|(n, one)| **n > id && attached(one)).map(|(n, _)| *n)),
            0x10 => list(&mut self.namespaces.keys().copied().filter(|n| *n > id)),
            0x03 => match self.namespaces.get(&id).filter(attached) {
                Some(one) => {
                    put(&mut data, 0, &[2, 16]);
                    put(&mut data, 4, &self.identity_of(one));
                    Answer::bytes(data)
                }
                None => Answer::refused(INVALID_NAMESPACE),
            },
            _ => Answer::refused(INVALID_FIELD),
        }
    }

    fn identity_of(&self, one: &Namespace) -> [u8; 16] {
        (0x4e61_6372_6500_0000_u128 << 64 | u128::from(one.identity)).to_le_bytes()
    }

    fn controller(&self) -> Vec<u8> {
        let mut data = vec![0; IDENTITY];
        put(&mut data, 4, b"nacre-test          ");
        put(&mut data, 24, b"Drive of a test                         ");
        put(&mut data, 64, b"1       ");
        // At most 128 KiB a command.
        data[77] = 5;
        put(&mut data, 78, &NvmeDrive::CONTROLLER.to_le_bytes());
        put(&mut data, 80, &0x0001_0400_u32.to_le_bytes());
        data[111] = 1;
        // Formats, and manages namespaces.
        put(&mut data, 256, &(1u16 << 1 | 1 << 3).to_le_bytes());
        put(&mut data, 280, &u128::from(self.bytes).to_le_bytes());
        let used: u64 = self.namespaces.values().map(|one| one.blocks * BLOCK).sum();
        put(&mut data, 296, &u128::from(self.bytes - used).to_le_bytes());
        // Keep alive in seconds.
        put(&mut data, 320, &10u16.to_le_bytes());
        put(&mut data, 512, &[0x66, 0x44]);
        put(&mut data, 514, &128u16.to_le_bytes());
        put(&mut data, 516, &NAMESPACES_MAX.to_le_bytes());
        // Scatter lists, also with offsets.
        put(&mut data, 536, &(1u32 | 1 << 20).to_le_bytes());
        put(&mut data, 768, self.name.as_bytes());
        // A command's capsule has no data, an answer's is one entry.
        put(&mut data, 1792, &4u32.to_le_bytes());
        put(&mut data, 1796, &1u32.to_le_bytes());
        data[1803] = 1;
        data
    }

    /// Namespaces are made and deleted.
    fn manage(&mut self, id: u32, what: u32, data: &[u8]) -> Answer {
        match what {
            0 if data.len() >= IDENTITY => {
                let (size, capacity) = (u64::from_le_bytes(number(data, 0)), u64::from_le_bytes(number(data, 8)));
                // The one format, and no space that is shared out later.
                if size != capacity || data[26] & 0xf != 0 {
                    return Answer::refused(INVALID_FIELD);
                }
                self.make(size)
            }
            1 if id == ALL => {
                self.namespaces.clear();
                Answer::of(0)
            }
            1 => match self.namespaces.remove(&id) {
                Some(_) => Answer::of(0),
                None => Answer::refused(INVALID_NAMESPACE),
            },
            _ => Answer::refused(INVALID_FIELD),
        }
    }

    /// Namespaces are attached to controllers and detached from them.
    fn attach(&mut self, id: u32, what: u32, data: &[u8]) -> Answer {
        let named = if data.len() >= 4 { [0, 2].map(|at| u16::from_le_bytes(number(data, at))) } else { [0; 2] };
        if named != [1, NvmeDrive::CONTROLLER] {
            return Answer::refused(WRONG_CONTROLLERS);
        }
        let Some(one) = self.namespaces.get_mut(&id) else { return Answer::refused(INVALID_NAMESPACE) };
        match (what, one.attached) {
            (0, true) => Answer::refused(ALREADY_ATTACHED),
            (1, false) => Answer::refused(NOT_ATTACHED),
            (0 | 1, _) => {
                one.attached = what == 0;
                Answer::of(0)
            }
            _ => Answer::refused(INVALID_FIELD),
        }
    }

    fn format(&mut self, id: u32, word: u32) -> Answer {
        let (format, secure) = (word & 0xf, word >> 9 & 7);
        if format != 0 || secure > 1 {
            return Answer::refused(INVALID_FIELD);
        }
        let Some(one) = self.namespaces.get_mut(&id).filter(|one| one.attached) else {
            return Answer::refused(INVALID_NAMESPACE);
        };
        one.written.clear();
        if secure == 1 {
            self.erased.push(id);
        }
        Answer::of(0)
    }

    /// Carries out a command on blocks.
    pub(crate) fn transfer(&mut self, command: &[u8; 64], data: &[u8]) -> Answer {
        let id = u32::from_le_bytes(number(command, 4));
        let (first, count) = (u64::from_le_bytes(number(command, 40)), u16::from_le_bytes(number(command, 48)));
        let (opcode, count) = (command[0], u64::from(count) + 1);
        let Some(one) = self.namespaces.get_mut(&id).filter(|one| one.attached) else {
            return Answer::refused(INVALID_NAMESPACE);
        };
        let is_within = first.checked_add(count).is_some_and(|end| end <= one.blocks);
        match opcode {
            // A flush: all is as durable as it gets.
            0x00 => Answer::of(0),
            0x01 | 0x02 if !is_within => Answer::refused(OUT_OF_RANGE),
            0x01 if data.len() as u64 == count * BLOCK => {
                one.written.extend((first..).zip(data.chunks(BLOCK as usize).map(<[u8]>::to_vec)));
                Answer::of(0)
            }
            0x02 => {
                let block = |at: u64| one.written.get(&at).cloned().unwrap_or_else(|| vec![0; BLOCK as usize]);
                Answer::bytes((first..first + count).flat_map(block).collect())
            }
            0x01 => Answer::refused(INVALID_FIELD),
            _ => Answer::refused(INVALID_OPCODE),
        }
    }
}
