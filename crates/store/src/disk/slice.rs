//! A store on a part of its devices: each shard of an OSD has one of its own.

/// Which of how many equal parts of its devices a store is on. Part `i` begins at `i` times the bytes that the store's
/// superblock tells, on each device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    pub index: u32,
    pub count: u32,
}

impl Slice {
    /// All of the devices.
    pub const WHOLE: Slice = Slice { index: 0, count: 1 };
    /// Parts that devices are divided into at most.
    pub const COUNT_MAX: u32 = 1 << 10;

    pub fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Whether there can be such a part.
    pub(crate) fn is_possible(self) -> bool {
        self.index < self.count && self.count <= Slice::COUNT_MAX
    }
}

impl Default for Slice {
    fn default() -> Slice {
        Slice::WHOLE
    }
}
