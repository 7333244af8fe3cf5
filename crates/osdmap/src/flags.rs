//! Bit sets with names.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, BitXor, Not};

macro_rules! flags {
    ($(#[$doc:meta])* $ty:ident($int:ty) { $($(#[$flag_doc:meta])* $flag:ident = $bit:literal, $name:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $ty(pub $int);

        impl $ty {
            $($(#[$flag_doc])* pub const $flag: $ty = $ty(1 << $bit);)*

            /// Flags with their names, in the order in which Ceph prints them.
            pub const ALL: &'static [($ty, &'static str)] = &[$(($ty::$flag, $name)),*];

            pub const fn contains(self, flag: $ty) -> bool {
                self.0 & flag.0 == flag.0
            }

            pub const fn intersects(self, flags: $ty) -> bool {
                self.0 & flags.0 != 0
            }

            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            #[must_use]
            pub const fn with(self, flag: $ty) -> $ty {
                $ty(self.0 | flag.0)
            }

            #[must_use]
            pub const fn without(self, flag: $ty) -> $ty {
                $ty(self.0 & !flag.0)
            }

            pub fn insert(&mut self, flag: $ty) {
                self.0 |= flag.0;
            }

            pub fn remove(&mut self, flag: $ty) {
                self.0 &= !flag.0;
            }

            pub fn set(&mut self, flag: $ty, on: bool) {
                if on { self.insert(flag) } else { self.remove(flag) }
            }

            /// Returns the flag called `name`.
            pub fn from_name(name: &str) -> Option<$ty> {
                Self::ALL.iter().find(|(_, n)| *n == name).map(|(flag, _)| *flag)
            }

            /// Returns the names of the flags that are set.
            pub fn iter_names(self) -> impl Iterator<Item = &'static str> {
                Self::ALL.iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| *name)
            }

            /// Returns the names of the flags that are set, in alphabetical order, as Ceph prints the states of OSDs.
            pub fn sorted_names(self) -> Vec<&'static str> {
                let mut names: Vec<_> = self.iter_names().collect();
                names.sort_unstable();
                names
            }

            /// Returns the names joined by commas, in the order of [`Self::ALL`], as Ceph prints flags of maps and
            /// pools.
            pub fn names(self) -> String {
                self.iter_names().collect::<Vec<_>>().join(",")
            }
        }

        impl BitOr for $ty {
            type Output = $ty;
            fn bitor(self, other: $ty) -> $ty { $ty(self.0 | other.0) }
        }
        impl BitOrAssign for $ty {
            fn bitor_assign(&mut self, other: $ty) { self.0 |= other.0 }
        }
        impl BitAnd for $ty {
            type Output = $ty;
            fn bitand(self, other: $ty) -> $ty { $ty(self.0 & other.0) }
        }
        impl BitXor for $ty {
            type Output = $ty;
            fn bitxor(self, other: $ty) -> $ty { $ty(self.0 ^ other.0) }
        }
        impl Not for $ty {
            type Output = $ty;
            fn not(self) -> $ty { $ty(!self.0) }
        }
        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.names()) }
        }
        impl fmt::Debug for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:#x}: {})", stringify!($ty), self.0, self.names())
            }
        }
    };
}

flags! {
    /// Cluster-wide flags of an OSD map.
    OsdMapFlags(u32) {
        PAUSERD = 2, "pauserd";
        PAUSEWR = 3, "pausewr";
        PAUSEREC = 4, "pauserec";
        NOUP = 5, "noup";
        NODOWN = 6, "nodown";
        NOOUT = 7, "noout";
        NOIN = 8, "noin";
        NOBACKFILL = 9, "nobackfill";
        NOREBALANCE = 14, "norebalance";
        NORECOVER = 10, "norecover";
        NOSCRUB = 11, "noscrub";
        NODEEP_SCRUB = 12, "nodeep-scrub";
        NOTIERAGENT = 13, "notieragent";
        NOSNAPTRIM = 21, "nosnaptrim";
        /// Objects sort by bit-reversed hash. Set in every map since Jewel.
        SORTBITWISE = 15, "sortbitwise";
        REQUIRE_JEWEL = 16, "require_jewel_osds";
        REQUIRE_KRAKEN = 17, "require_kraken_osds";
        REQUIRE_LUMINOUS = 18, "require_luminous_osds";
        RECOVERY_DELETES = 19, "recovery_deletes";
        PURGED_SNAPDIRS = 20, "purged_snapdirs";
        PGLOG_HARDLIMIT = 22, "pglog_hardlimit";
    }
}

impl OsdMapFlags {
    /// A flag that monitors before Luminous set; fullness is a matter of pools and OSDs since. Ceph prints neither this
    /// one nor [`Self::FULL`].
    pub const NEARFULL: OsdMapFlags = OsdMapFlags(1);
    pub const FULL: OsdMapFlags = OsdMapFlags(1 << 1);
    /// Flags of every new map.
    pub const NEW_MAP: OsdMapFlags =
        OsdMapFlags(Self::SORTBITWISE.0 | Self::RECOVERY_DELETES.0 | Self::PURGED_SNAPDIRS.0 | Self::PGLOG_HARDLIMIT.0);
    /// Flags that `require_osd_release` has replaced.
    pub(crate) const LEGACY_REQUIRE: OsdMapFlags =
        OsdMapFlags(Self::REQUIRE_JEWEL.0 | Self::REQUIRE_KRAKEN.0 | Self::REQUIRE_LUMINOUS.0);
}

flags! {
    /// State of one OSD.
    OsdState(u32) {
        EXISTS = 0, "exists";
        UP = 1, "up";
        /// The OSD was marked out automatically and comes back in when it starts.
        AUTOOUT = 2, "autoout";
        /// The OSD was never in.
        NEW = 3, "new";
        FULL = 4, "full";
        NEARFULL = 5, "nearfull";
        BACKFILLFULL = 6, "backfillfull";
        DESTROYED = 7, "destroyed";
        NOUP = 8, "noup";
        NODOWN = 9, "nodown";
        NOIN = 10, "noin";
        NOOUT = 11, "noout";
        STOP = 12, "stop";
    }
}

flags! {
    /// Flags of one pool.
    PoolFlags(u64) {
        /// Placement groups of different pools are placed independently. Set on every pool.
        HASHPSPOOL = 0, "hashpspool";
        FULL = 1, "full";
        EC_OVERWRITES = 2, "ec_overwrites";
        INCOMPLETE_CLONES = 3, "incomplete_clones";
        NODELETE = 4, "nodelete";
        NOPGCHANGE = 5, "nopgchange";
        NOSIZECHANGE = 6, "nosizechange";
        WRITE_FADVISE_DONTNEED = 7, "write_fadvise_dontneed";
        NOSCRUB = 8, "noscrub";
        NODEEP_SCRUB = 9, "nodeep-scrub";
        FULL_QUOTA = 10, "full_quota";
        NEARFULL = 11, "nearfull";
        BACKFILLFULL = 12, "backfillfull";
        SELFMANAGED_SNAPS = 13, "selfmanaged_snaps";
        POOL_SNAPS = 14, "pool_snaps";
        CREATING = 15, "creating";
        EIO = 16, "eio";
        BULK = 17, "bulk";
        CRIMSON = 18, "crimson";
    }
}
