//! Names of the states of placement groups.

use super::mon::pg_state as bits;

/// Bits with their names, in the order in which Ceph prints them.
const NAMES: &[(u64, &str)] = &[
    (bits::STALE, "stale"),
    (bits::CREATING, "creating"),
    (bits::ACTIVE, "active"),
    (bits::CLEAN, "clean"),
    (bits::RECOVERY_WAIT, "recovery_wait"),
    (bits::RECOVERY_TOOFULL, "recovery_toofull"),
    (bits::RECOVERING, "recovering"),
    (bits::FORCED_RECOVERY, "forced_recovery"),
    (bits::DOWN, "down"),
    (bits::RECOVERY_UNFOUND, "recovery_unfound"),
    (bits::UNDERSIZED, "undersized"),
    (bits::DEGRADED, "degraded"),
    (bits::REMAPPED, "remapped"),
    (bits::SCRUBBING, "scrubbing"),
    (bits::DEEP_SCRUB, "deep"),
    (bits::INCONSISTENT, "inconsistent"),
    (bits::PEERING, "peering"),
    (bits::REPAIR, "repair"),
    (bits::BACKFILL_WAIT, "backfill_wait"),
    (bits::BACKFILLING, "backfilling"),
    (bits::FORCED_BACKFILL, "forced_backfill"),
    (bits::BACKFILL_TOOFULL, "backfill_toofull"),
    (bits::BACKFILL_UNFOUND, "backfill_unfound"),
    (bits::INCOMPLETE, "incomplete"),
    (bits::PREMERGE, "premerge"),
    (bits::PEERED, "peered"),
    (bits::SNAPTRIM, "snaptrim"),
    (bits::SNAPTRIM_WAIT, "snaptrim_wait"),
];

/// A state as Ceph prints it: `active+clean`; no bit at all is `unknown`.
pub fn pg_state_text(state: u64) -> String {
    let names: Vec<_> = NAMES.iter().filter(|(bit, _)| state & bit != 0).map(|(_, name)| *name).collect();
    if names.is_empty() { "unknown".to_owned() } else { names.join("+") }
}

/// The bit called `name` (0 for `unknown`), or `None` for a name that is no state.
pub fn pg_state_bit(name: &str) -> Option<u64> {
    if name == "unknown" {
        return Some(0);
    }
    NAMES.iter().find(|(_, text)| *text == name).map(|(bit, _)| *bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_print_in_cephs_order() {
        assert_eq!(pg_state_text(bits::CLEAN | bits::ACTIVE), "active+clean");
        assert_eq!(pg_state_text(bits::DEGRADED | bits::ACTIVE | bits::UNDERSIZED), "active+undersized+degraded");
        assert_eq!(pg_state_text(0), "unknown");
        assert_eq!(pg_state_bit("peering"), Some(bits::PEERING));
    }
}
