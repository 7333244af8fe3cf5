//! Parameters of the mapping algorithm that changed over Ceph's releases.

/// The map's parameters; rules may override some of them with SET steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tunables {
    pub choose_local_tries: u32,
    pub choose_local_fallback_tries: u32,
    pub choose_total_tries: u32,
    pub chooseleaf_descend_once: u32,
    pub chooseleaf_vary_r: u8,
    /// Version of straw lengths' computation; matters to straw buckets only.
    pub straw_calc_version: u8,
    /// One bit for the number of each bucket algorithm.
    pub allowed_bucket_algs: u32,
    pub chooseleaf_stable: u8,
    /// Attempts of MSR rules: descents and collision tries. `None` in maps from before Squid, which do not carry
    /// them.
    pub msr_tries: Option<(u32, u32)>,
}

/// A named set of tunables, from Firefly on. Older ones need features that nothing here supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    Firefly,
    Hammer,
    Jewel,
}

impl Profile {
    /// Returns the profile of a name of `ceph osd crush tunables`; `optimal` and `default` mean Jewel.
    pub fn from_name(name: &str) -> Option<Profile> {
        Some(match name {
            "firefly" => Profile::Firefly,
            "hammer" => Profile::Hammer,
            "jewel" | "default" | "optimal" => Profile::Jewel,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Profile::Firefly => "firefly",
            Profile::Hammer => "hammer",
            Profile::Jewel => "jewel",
        }
    }

    pub fn tunables(self) -> Tunables {
        Tunables {
            choose_local_tries: 0,
            choose_local_fallback_tries: 0,
            choose_total_tries: 50,
            chooseleaf_descend_once: 1,
            chooseleaf_vary_r: 1,
            straw_calc_version: u8::from(self != Profile::Firefly),
            allowed_bucket_algs: if self == Profile::Firefly { 0x16 } else { 0x36 },
            chooseleaf_stable: u8::from(self == Profile::Jewel),
            msr_tries: None,
        }
    }
}

impl Tunables {
    /// Tunables of maps that end before they name any.
    pub(crate) const ARGONAUT: Tunables = Tunables {
        choose_local_tries: 2,
        choose_local_fallback_tries: 5,
        choose_total_tries: 19,
        chooseleaf_descend_once: 0,
        chooseleaf_vary_r: 0,
        straw_calc_version: 0,
        allowed_bucket_algs: 0x16,
        chooseleaf_stable: 0,
        msr_tries: None,
    };

    /// Returns the name of the profile that these tunables are, `unknown` if none.
    pub fn profile_name(&self) -> &'static str {
        // Bucket algorithms and MSR attempts do not tell profiles apart.
        let same = |other: Tunables| {
            (Tunables { allowed_bucket_algs: self.allowed_bucket_algs, msr_tries: self.msr_tries, ..other }) == *self
        };
        let bobtail = Tunables { chooseleaf_vary_r: 0, ..Profile::Firefly.tunables() };
        match () {
            () if same(Profile::Jewel.tunables()) => "jewel",
            () if same(Profile::Hammer.tunables()) => "hammer",
            () if same(Profile::Firefly.tunables()) => "firefly",
            () if same(bobtail) => "bobtail",
            () if same(Tunables::ARGONAUT) => "argonaut",
            () => "unknown",
        }
    }
}

impl Default for Tunables {
    fn default() -> Tunables {
        Profile::Jewel.tunables()
    }
}
