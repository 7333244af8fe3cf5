//! Ceph's erasure code profiles: maps of strings that name a plugin, a technique and its numbers.

use crate::code::Code;
use crate::stripe::StripeLayout;
use crate::technique::{ShardCountError, Technique};
use std::collections::BTreeMap;
use thiserror::Error;

/// Stripe unit of a pool whose profile has none: `osd_pool_erasure_code_stripe_unit`.
pub const STRIPE_UNIT_DEFAULT_BYTES: u32 = 4096;

/// Settings that Ceph fills in if the operator names no plugin: `osd_pool_default_erasure_code_profile`.
const OPERATOR_DEFAULTS: [(&str, &str); 4] =
    [("plugin", "jerasure"), ("technique", "reed_sol_van"), ("k", "2"), ("m", "2")];

/// Settings that both plugins fill in for the placement rule.
const CRUSH_DEFAULTS: [(&str, &str); 3] =
    [("crush-root", "default"), ("crush-failure-domain", "host"), ("crush-device-class", "")];

/// Rounding of shards by the `isa` plugin.
const ISA_ALIGNMENT_BYTES: u32 = 32;
/// Rounding of shards by the `jerasure` plugin, and with `jerasure-per-chunk-alignment`; for w = 8.
const JERASURE_ALIGNMENT_BYTES: u32 = 32;
const JERASURE_CHUNK_ALIGNMENT_BYTES: u32 = 128;

/// A usable profile, checked and with Ceph's defaults filled in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    technique: Technique,
    k: usize,
    m: usize,
    per_chunk_alignment: bool,
    stripe_unit_bytes: Option<u32>,
    settings: BTreeMap<String, String>,
}

/// The reason why a profile cannot be used. Each message names usable values.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ProfileError {
    #[error("erasure code plugin '{0}' is not supported; use plugin=jerasure or plugin=isa")]
    Plugin(String),
    #[error("an erasure code profile needs a plugin: plugin=jerasure or plugin=isa")]
    NoPlugin,
    #[error("technique '{technique}' of plugin {plugin} is not supported; use technique={possible}")]
    Technique { plugin: &'static str, technique: String, possible: &'static str },
    #[error("w={0} is not supported; use w=8, which every k and m here can have")]
    WordBits(String),
    #[error("{key}={value} is not a whole number")]
    Number { key: &'static str, value: String },
    #[error("a profile with 'mapping' is not supported; data shards come first, then parity shards")]
    Mapping,
    #[error(
        "property '{0}' is no longer supported; try 'crush-{suffix}' instead",
        suffix = .0.trim_start_matches("ruleset-")
    )]
    Ruleset(String),
    #[error("'{0}' is not of the form key=value")]
    NoKey(String),
    #[error(transparent)]
    ShardCount(#[from] ShardCountError),
    #[error("could not parse stripe_unit '{0}': give bytes, or a number with K or M")]
    StripeUnit(String),
    #[error("stripe_unit {given} does not match ec profile alignment. Would be padded to {padded}")]
    StripeUnitAlignment { given: u32, padded: u64 },
    #[error("stripe_unit {unit_bytes} is too large for k={k}: a stripe must be shorter than 4 GiB")]
    StripeUnitTooLarge { unit_bytes: u32, k: usize },
}

impl Profile {
    /// Parses the arguments of `ceph osd erasure-code-profile set`: words of the form key=value. As in Ceph, a profile
    /// that names no other plugin starts from the cluster's default, 2 + 2 of jerasure.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Profile, ProfileError> {
        let mut settings = BTreeMap::new();
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            if key.is_empty() {
                return Err(ProfileError::NoKey(word.to_owned()));
            }
            if key.starts_with("ruleset-") {
                return Err(ProfileError::Ruleset(key.to_owned()));
            }
            settings.insert(key.to_owned(), value.to_owned());
        }
        if settings.get("plugin").is_none_or(|plugin| plugin == OPERATOR_DEFAULTS[0].1) {
            fill_in(&mut settings, &OPERATOR_DEFAULTS);
        }
        Profile::from_settings(settings)
    }

    /// Checks a profile from an OSD map. Missing or empty settings get the plugin's defaults.
    pub fn from_settings(mut settings: BTreeMap<String, String>) -> Result<Profile, ProfileError> {
        let plugin = settings.get("plugin").ok_or(ProfileError::NoPlugin)?;
        if plugin != "jerasure" && plugin != "isa" {
            return Err(ProfileError::Plugin(plugin.clone()));
        }
        if settings.contains_key("mapping") {
            return Err(ProfileError::Mapping);
        }
        let jerasure = plugin == "jerasure";
        let technique = technique_of(jerasure, settings.get("technique").map(String::as_str))?;
        settings.insert("technique".to_owned(), technique.name().to_owned());
        fill_in(&mut settings, &CRUSH_DEFAULTS);
        fill_in_empty(&mut settings, "k", "7");
        fill_in_empty(&mut settings, "m", if technique == Technique::JerasureRaid6 { "2" } else { "3" });
        if jerasure {
            fill_in_empty(&mut settings, "w", "8");
            if settings["w"] != "8" {
                return Err(ProfileError::WordBits(settings["w"].clone()));
            }
        }

        let mut per_chunk_alignment = false;
        if technique == Technique::JerasureVandermonde {
            fill_in_empty(&mut settings, "jerasure-per-chunk-alignment", "false");
            per_chunk_alignment = ["yes", "true"].contains(&settings["jerasure-per-chunk-alignment"].as_str());
        }

        let k = number(&settings, "k")?;
        let m = number(&settings, "m")?;
        technique.check_shard_counts(k, m)?;
        let stripe_unit = settings.get("stripe_unit");
        let stripe_unit_bytes = stripe_unit.map(|text| {
            size_of_text(text).filter(|&bytes| bytes > 0).ok_or_else(|| ProfileError::StripeUnit(text.clone()))
        });
        let stripe_unit_bytes = stripe_unit_bytes.transpose()?;
        let profile = Profile { technique, k, m, per_chunk_alignment, stripe_unit_bytes, settings };
        if let Some(given) = stripe_unit_bytes {
            let padded = profile.shard_bytes_for(u64::from(given) * k as u64);
            if padded != u64::from(given) {
                return Err(ProfileError::StripeUnitAlignment { given, padded });
            }
        }
        profile.layout(STRIPE_UNIT_DEFAULT_BYTES)?;
        Ok(profile)
    }

    pub fn technique(&self) -> Technique {
        self.technique
    }

    /// Number of data shards.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Number of parity shards.
    pub fn m(&self) -> usize {
        self.m
    }

    /// `stripe_unit`, if the profile has it.
    pub fn stripe_unit_bytes(&self) -> Option<u32> {
        self.stripe_unit_bytes
    }

    /// All settings of the profile, defaults included, as in the OSD map. Settings that concern neither plugin nor
    /// technique, such as those for the placement rule, are unchanged.
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// One setting; empty if there is none.
    pub fn setting(&self, key: &str) -> &str {
        self.settings.get(key).map_or("", String::as_str)
    }

    /// The code, on the fastest kernel of this processor.
    pub fn code(&self) -> Code {
        Code::new(self.technique, self.k, self.m).expect("the profile's numbers have been checked")
    }

    /// Length of each shard if an object of `object_bytes` were one stripe: the chunk size of Ceph's plugins.
    pub fn shard_bytes_for(&self, object_bytes: u64) -> u64 {
        let k = self.k as u64;
        if self.technique.plugin() == "isa" {
            object_bytes.div_ceil(k).next_multiple_of(ISA_ALIGNMENT_BYTES.into())
        } else if self.per_chunk_alignment {
            object_bytes.div_ceil(k).next_multiple_of(JERASURE_CHUNK_ALIGNMENT_BYTES.into())
        } else {
            object_bytes.next_multiple_of(k * u64::from(JERASURE_ALIGNMENT_BYTES)) / k
        }
    }

    /// The layout of objects of a pool made with this profile, in a cluster whose default stripe unit is
    /// `default_unit_bytes`.
    pub fn layout(&self, default_unit_bytes: u32) -> Result<StripeLayout, ProfileError> {
        let unit_bytes = self.stripe_unit_bytes.unwrap_or(default_unit_bytes);
        let padded = self.shard_bytes_for(u64::from(unit_bytes) * self.k as u64);
        let padded = u32::try_from(padded).ok();
        let too_large = ProfileError::StripeUnitTooLarge { unit_bytes, k: self.k };
        padded.and_then(|unit_bytes| StripeLayout::new(self.k, unit_bytes)).ok_or(too_large)
    }
}

fn technique_of(jerasure: bool, given: Option<&str>) -> Result<Technique, ProfileError> {
    match (jerasure, given) {
        // Ceph's isa plugin has a default technique, its jerasure plugin has none; the monitors add it for jerasure.
        (true, Some("reed_sol_van")) => Ok(Technique::JerasureVandermonde),
        (true, Some("reed_sol_r6_op")) => Ok(Technique::JerasureRaid6),
        (true, other) => Err(ProfileError::Technique {
            plugin: "jerasure",
            technique: other.unwrap_or_default().to_owned(),
            possible: "reed_sol_van, or technique=reed_sol_r6_op",
        }),
        (false, None | Some("reed_sol_van")) => Ok(Technique::IsaVandermonde),
        (false, Some("cauchy")) => Ok(Technique::IsaCauchy),
        (false, Some(other)) => Err(ProfileError::Technique {
            plugin: "isa",
            technique: other.to_owned(),
            possible: "reed_sol_van, or technique=cauchy",
        }),
    }
}

fn fill_in(settings: &mut BTreeMap<String, String>, defaults: &[(&str, &str)]) {
    for (key, value) in defaults {
        settings.entry((*key).to_owned()).or_insert_with(|| (*value).to_owned());
    }
}

fn fill_in_empty(settings: &mut BTreeMap<String, String>, key: &str, default: &str) {
    let value = settings.entry(key.to_owned()).or_default();
    if value.is_empty() {
        default.clone_into(value);
    }
}

fn number(settings: &BTreeMap<String, String>, key: &'static str) -> Result<usize, ProfileError> {
    let value = &settings[key];
    value.parse().map_err(|_| ProfileError::Number { key, value: value.clone() })
}

/// Parses a number of bytes with an optional unit: B, K, M or G, also as Ki or KB and so on; all are powers of 1024, as
/// in Ceph.
fn size_of_text(text: &str) -> Option<u32> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" | "B" => 0,
        "K" | "Ki" | "KB" => 10,
        "M" | "Mi" | "MB" => 20,
        "G" | "Gi" | "GB" => 30,
        _ => return None,
    };
    number.parse::<u32>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests;
