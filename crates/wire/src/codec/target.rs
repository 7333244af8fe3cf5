//! The peer that an encoding is made for.

/// A Ceph release, by its number in maps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Release(pub u8);

impl Release {
    pub const UNKNOWN: Release = Release(0);
    pub const JEWEL: Release = Release(10);
    pub const LUMINOUS: Release = Release(12);
    pub const MIMIC: Release = Release(13);
    pub const NAUTILUS: Release = Release(14);
    pub const OCTOPUS: Release = Release(15);
    pub const PACIFIC: Release = Release(16);
    pub const QUINCY: Release = Release(17);
    pub const REEF: Release = Release(18);
    pub const SQUID: Release = Release(19);
    pub const TENTACLE: Release = Release(20);

    const NAMES: [&'static str; 21] = [
        "unknown",
        "argonaut",
        "bobtail",
        "cuttlefish",
        "dumpling",
        "emperor",
        "firefly",
        "giant",
        "hammer",
        "infernalis",
        "jewel",
        "kraken",
        "luminous",
        "mimic",
        "nautilus",
        "octopus",
        "pacific",
        "quincy",
        "reef",
        "squid",
        "tentacle",
    ];

    /// The release's name, `unknown` for numbers without one.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }

    /// The release called `name`.
    pub fn from_name(name: &str) -> Option<Release> {
        let index = Self::NAMES.iter().skip(1).position(|n| *n == name)?;
        Some(Release(index as u8 + 1))
    }
}

/// Feature bits, each with the incarnation bits that its present meaning needs.
pub mod features {
    const INCARNATION_2: u64 = 1 << 57;
    const INCARNATION_3: u64 = 1 << 57 | 1 << 28;

    pub const OSDREPLYMUX: u64 = 1 << 12;
    pub const MSG_ADDR2: u64 = 1 << 59;
    pub const SERVER_LUMINOUS: u64 = 1 << 21 | INCARNATION_2;
    /// Clients with these bits can be asked to hold operations back.
    pub const RADOS_BACKOFF: u64 = SERVER_LUMINOUS;
    pub const SERVER_MIMIC: u64 = 1 << 28 | INCARNATION_2;
    pub const SERVER_NAUTILUS: u64 = 1 << 2 | INCARNATION_3;
    pub const SERVER_OCTOPUS: u64 = 1 << 16 | INCARNATION_3;
    pub const SERVER_PACIFIC: u64 = 1 << 20 | INCARNATION_3;
    pub const SERVER_QUINCY: u64 = 1 << 33 | INCARNATION_3;
    pub const SERVER_REEF: u64 = 1 << 31 | INCARNATION_3;
    pub const SERVER_SQUID: u64 = 1 << 49 | INCARNATION_2;
    pub const RANGE_BLOCKLIST: u64 = 1 << 34 | INCARNATION_3;
    pub const STRETCH_MODE: u64 = 1 << 32 | INCARNATION_3;
    pub const CRUSH_MSR: u64 = 1 << 38 | INCARNATION_2;

    /// Features that Nacre advertises: Pacific's set. Newer clients then use Pacific's encodings, which all of them
    /// know.
    pub const PACIFIC: u64 = 0x3f01_cfb9_7ffd_ffff;
    pub const QUINCY: u64 = 0x3f01_cfbb_7ffd_ffff;
    pub const TENTACLE: u64 = 0x3f03_dfff_fffd_ffff;

    /// Features that decide how an OSD map is encoded, as of Pacific.
    pub const OSDMAP_SIGNIFICANT: u64 = 0x0f00_0880_1021_2a04;
}

/// The peer that an encoding is made for: its negotiated features, and the release whose layouts apply where a layout
/// grew without a feature bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    pub features: u64,
    pub release: Release,
}

impl Target {
    /// The target that Nacre writes for by default.
    pub const PACIFIC: Target = Target { features: features::PACIFIC, release: Release::PACIFIC };

    /// True if the peer has all bits of `feature` (one of [`features`]).
    pub const fn has(self, feature: u64) -> bool {
        self.features & feature == feature
    }
}

impl Default for Target {
    fn default() -> Target {
        Target::PACIFIC
    }
}
