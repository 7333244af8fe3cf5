//! A store on a part of its devices, as each shard of an OSD has.

/// One of several equal parts of a store's devices. Part `i` begins at `i` times the bytes that the store's superblock
/// states, on each device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    pub index: u32,
    pub count: u32,
}

impl Slice {
    /// The slice that is all of the devices.
    pub const WHOLE: Slice = Slice { index: 0, count: 1 };
    /// Maximum number of parts that devices are divided into.
    pub const COUNT_MAX: u32 = 1 << 10;

    pub fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Returns true if such a part can exist.
    pub(crate) fn is_possible(self) -> bool {
        self.index < self.count && self.count <= Slice::COUNT_MAX
    }
}

impl Default for Slice {
    fn default() -> Slice {
        Slice::WHOLE
    }
}
