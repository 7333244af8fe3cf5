//! Making erasure-coded pools: profile, rule, shape.

use crate::MonState;
use crate::pools::{PoolError, UnfitProfile};
use crush::{CrushMap, RuleKind};
use ec::{Profile, STRIPE_UNIT_DEFAULT_BYTES};
use osdmap::{Incremental, OsdMap, PgPool, PoolFlags, PoolKind};

/// Profile of a pool whose operator names none.
pub const DEFAULT_PROFILE: &str = "default";
/// Rule of pools with [`DEFAULT_PROFILE`]; a pool with another profile has one of its own, with the pool's name.
const DEFAULT_RULE: &str = "erasure-code";

/// Shape of a pool that follows from a profile.
pub struct ErasureShape {
    pub size: u8,
    pub min_size: u8,
    pub stripe_width: u32,
    pub rule: u8,
}

/// Returns shape and rule of a new pool. A rule that is not there yet is added to `incremental`, as is the default
/// profile.
///
/// `rule`: the rule's name; without one, Ceph's choice.
pub fn shape(
    state: &MonState,
    pool: &str,
    profile_name: &str,
    rule: Option<&str>,
    incremental: &mut Incremental,
) -> Result<ErasureShape, PoolError> {
    let map = state.osdmap();
    let profile = match map.erasure_code_profiles.get(profile_name) {
        Some(settings) => Profile::from_settings(settings.clone()),
        None if profile_name == DEFAULT_PROFILE => Profile::from_words([]).inspect(|profile| {
            let settings = profile.settings().clone();
            incremental.new_erasure_code_profiles.insert(profile_name.to_owned(), settings);
        }),
        None => return Err(PoolError::NoProfile(profile_name.to_owned())),
    };
    let unfit = |why: UnfitProfile| PoolError::Profile(profile_name.to_owned(), why);
    let profile = profile.map_err(|e| unfit(e.into()))?;
    let layout = profile.layout(STRIPE_UNIT_DEFAULT_BYTES).map_err(|e| unfit(e.into()))?;
    let size = u8::try_from(profile.k() + profile.m()).map_err(|_| unfit(UnfitProfile::Shards))?;
    // `min_size` is one more than reads need, where there is one more.
    let min_size = profile.k() + 1.min(profile.m() - 1);
    let name = rule.unwrap_or(if profile_name == DEFAULT_PROFILE { DEFAULT_RULE } else { pool });
    let rule = match map.crush.rule_by_name(name) {
        Some(rule) => rule,
        // A named rule must be there, unless it is the one that would be made.
        None if rule.is_some_and(|rule| rule != pool && rule != DEFAULT_RULE) => {
            return Err(PoolError::NoRule(name.to_owned()));
        }
        None => {
            let mut crush = CrushMap::clone(&map.crush);
            let class = Some(profile.setting("crush-device-class")).filter(|class| !class.is_empty());
            let (root, domain) = (profile.setting("crush-root"), profile.setting("crush-failure-domain"));
            let made = crush.create_erasure_rule(name, root, domain, class, size);
            let made = made.map_err(|e| unfit(e.into()))?;
            incremental.set_crush(&crush);
            return Ok(ErasureShape {
                size,
                min_size: min_size as u8,
                stripe_width: layout.stripe_bytes() as u32,
                rule: made as u8,
            });
        }
    };
    if map.crush.find_rule(rule as u8, RuleKind::ERASURE, size.into()).is_none() {
        return Err(PoolError::UnfitErasureRule(name.to_owned(), size));
    }
    let (min_size, stripe_width) = (min_size as u8, layout.stripe_bytes() as u32);
    Ok(ErasureShape { size, min_size, stripe_width, rule: rule as u8 })
}

/// Returns the number of data shards of a pool's objects; 1 for replicated pools.
pub fn data_shards(map: &OsdMap, pool: &PgPool) -> u64 {
    if !pool.is_erasure() {
        return 1;
    }
    let profile = map.erasure_code_profiles.get(&pool.erasure_code_profile);
    let k = profile.and_then(|profile| profile.get("k")?.parse().ok());
    k.filter(|k| (1..=u64::from(pool.size)).contains(k)).unwrap_or(1)
}

impl ErasureShape {
    /// Returns the pool as it is made. It takes overwrites (`allow_ec_overwrites`).
    pub fn pool(&self, profile: &str, pg_num: u32) -> PgPool {
        PgPool {
            kind: PoolKind::ERASURE,
            flags: PoolFlags::HASHPSPOOL | PoolFlags::EC_OVERWRITES,
            min_size: self.min_size,
            stripe_width: self.stripe_width,
            erasure_code_profile: profile.to_owned(),
            ..PgPool::replicated(self.size, pg_num, self.rule)
        }
    }
}
