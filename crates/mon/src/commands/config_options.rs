//! The options that `ceph config` knows: each declared once, with its type, default and help.

use serde_json::{Value, json};

/// The form of an option's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OptionKind {
    Bool,
    /// At most [`UINT_MAX`].
    Uint,
    /// Bytes; `2G`, `512Mi` and plain numbers. At most [`SIZE_MAX`].
    Size,
    /// Not more than [`FLOAT_MAX`] from zero.
    Float,
    /// Seconds, at most [`SECS_MAX`].
    Secs,
    Choice(&'static [&'static str]),
}

/// Largest numbers of options: sums and products of some, and times that far from now, can still be represented.
pub(super) const UINT_MAX: u64 = u32::MAX as u64;
pub(super) const SECS_MAX: u64 = (u32::MAX / 2) as u64;
pub(super) const SIZE_MAX: u64 = 1 << 60;
pub(super) const FLOAT_MAX: f64 = 1e9;

impl OptionKind {
    fn name(self) -> &'static str {
        match self {
            OptionKind::Bool => "bool",
            OptionKind::Uint => "uint",
            OptionKind::Size => "size",
            OptionKind::Float => "float",
            OptionKind::Secs => "secs",
            OptionKind::Choice(_) => "str",
        }
    }
}

/// One option.
#[derive(Debug)]
pub(super) struct ConfigOption {
    pub name: &'static str,
    pub kind: OptionKind,
    pub default: &'static str,
    pub help: &'static str,
}

const fn option(name: &'static str, kind: OptionKind, default: &'static str, help: &'static str) -> ConfigOption {
    ConfigOption { name, kind, default, help }
}

/// Options that something here acts on, and options of Ceph that scripts set and that are kept for later use.
const OPTIONS: &[ConfigOption] = &[
    option("mon_allow_pool_delete", OptionKind::Bool, "true", "Whether pools may be deleted"),
    option("mon_max_pg_per_osd", OptionKind::Uint, "250", "Most copies of placement groups per OSD, on average"),
    option("mon_osd_down_out_interval", OptionKind::Secs, "600", "How long an OSD is down before it is marked out"),
    option("mon_osd_min_in_ratio", OptionKind::Float, "0.75", "Share of OSDs that stays in whatever goes down"),
    option("mon_warn_on_pool_no_app", OptionKind::Bool, "true", "Whether POOL_APP_NOT_ENABLED is raised"),
    option("mon_warn_on_pool_no_redundancy", OptionKind::Bool, "true", "Whether POOL_NO_REDUNDANCY is raised"),
    option(
        "mon_warn_on_pool_pg_num_not_power_of_two",
        OptionKind::Bool,
        "true",
        "Whether POOL_PG_NUM_NOT_POWER_OF_TWO is raised",
    ),
    option("mon_warn_on_too_few_osds", OptionKind::Bool, "true", "Whether TOO_FEW_OSDS is raised"),
    option(
        "mon_warn_pg_not_scrubbed_ratio",
        OptionKind::Float,
        "0.5",
        "How late scrubs are at PG_NOT_SCRUBBED; 0: never",
    ),
    option(
        "mon_warn_pg_not_deep_scrubbed_ratio",
        OptionKind::Float,
        "0.75",
        "How late deep scrubs are at PG_NOT_DEEP_SCRUBBED; 0: never",
    ),
    option("osd_pool_default_min_size", OptionKind::Uint, "0", "Replicas a pool needs to serve; 0: more than half"),
    option("osd_pool_default_pg_num", OptionKind::Uint, "32", "Placement groups of a new pool"),
    option("osd_pool_default_size", OptionKind::Uint, "3", "Replicas of a new pool"),
    option("mgr/balancer/active", OptionKind::Bool, "true", "Whether the balancer moves copies of placement groups"),
    option("mgr/balancer/mode", OptionKind::Choice(&["none", "upmap"]), "upmap", "How the balancer works"),
    option("mgr/balancer/sleep_interval", OptionKind::Secs, "60", "Time between two rounds of the balancer"),
    option("mgr/balancer/upmap_max_optimizations", OptionKind::Uint, "10", "Most copies that a round moves"),
    option(
        "target_max_misplaced_ratio",
        OptionKind::Float,
        "0.05",
        "Share of copies that may be on their way at a time",
    ),
    option("mgr/pg_numbers/careful", OptionKind::Bool, "true", "Whether pg_num and pgp_num change in small steps only"),
    option("mgr/pg_autoscaler/threshold", OptionKind::Float, "3", "By how much pg_num is wrong before it is changed"),
    option("mon_target_pg_per_osd", OptionKind::Uint, "100", "Copies of placement groups per OSD that are aimed at"),
    option("mon_max_pool_pg_num", OptionKind::Uint, "65536", "Kept; nothing acts on it"),
    option(
        "osd_pool_default_pg_autoscale_mode",
        OptionKind::Choice(&["off", "warn", "on"]),
        "off",
        "Whether the number of groups of new pools is left to the cluster",
    ),
    option("osd_max_backfills", OptionKind::Uint, "1", "Kept; nothing acts on it"),
    option("osd_recovery_max_active", OptionKind::Uint, "0", "Kept; nothing acts on it"),
    option("osd_recovery_sleep", OptionKind::Float, "0", "Kept; nothing acts on it"),
    option("osd_recovery_op_priority", OptionKind::Uint, "3", "Kept; nothing acts on it"),
    option("osd_memory_target", OptionKind::Size, "117440512", "Kept; nothing acts on it"),
    option("osd_scrub_begin_hour", OptionKind::Uint, "0", "Kept; nothing acts on it"),
    option("osd_scrub_end_hour", OptionKind::Uint, "0", "Kept; nothing acts on it"),
];

/// Prefixes of clients' options. They are handed to clients as they are; their meaning only clients know.
const CLIENT_PREFIXES: &[&str] = &["client_", "debug_", "librados_", "log_", "ms_", "objecter_", "rados_", "rbd_"];

/// The party that knows an option's name.
pub(super) enum OptionOwner {
    Ours(&'static ConfigOption),
    Clients,
    Unknown,
}

impl OptionOwner {
    /// Returns Ceph's word for the people who should touch the option.
    pub fn level(&self) -> &'static str {
        match self {
            OptionOwner::Ours(_) | OptionOwner::Clients => "advanced",
            OptionOwner::Unknown => "unknown",
        }
    }

    /// Returns true if a change has effect without a restart.
    pub fn at_runtime(&self) -> bool {
        !matches!(self, OptionOwner::Unknown)
    }
}

pub(super) fn find(name: &str) -> OptionOwner {
    match OPTIONS.iter().find(|option| option.name == name) {
        Some(option) => OptionOwner::Ours(option),
        None if CLIENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) => OptionOwner::Clients,
        None => OptionOwner::Unknown,
    }
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().map(|option| option.name)
}

impl ConfigOption {
    /// Returns the value as it is kept. Error: a sentence with the reason why it is none.
    pub fn normalize(&self, value: &str) -> Result<String, String> {
        let not = |wanted: &str| format!("error parsing value: '{value}' is not {wanted}");
        match self.kind {
            OptionKind::Bool => match value {
                "true" | "yes" | "on" | "1" => Ok("true".to_owned()),
                "false" | "no" | "off" | "0" => Ok("false".to_owned()),
                _ => Err(not("true or false")),
            },
            OptionKind::Uint => match value.parse::<u64>() {
                Ok(n) if n <= UINT_MAX => Ok(n.to_string()),
                _ => Err(not(&format!("a whole number up to {UINT_MAX}"))),
            },
            OptionKind::Secs => match value.strip_suffix('s').unwrap_or(value).parse::<u64>() {
                Ok(n) if n <= SECS_MAX => Ok(n.to_string()),
                _ => Err(not(&format!("a whole number of seconds up to {SECS_MAX}"))),
            },
            OptionKind::Size => match parse_size(value) {
                Some(n) if n <= SIZE_MAX => Ok(n.to_string()),
                _ => Err(not("a size such as 512M, up to 1E")),
            },
            OptionKind::Float => match value.parse::<f64>() {
                Ok(n) if n.abs() <= FLOAT_MAX => Ok(n.to_string()),
                _ => Err(not(&format!("a number between -{FLOAT_MAX} and {FLOAT_MAX}"))),
            },
            OptionKind::Choice(choices) if choices.contains(&value) => Ok(value.to_owned()),
            OptionKind::Choice(choices) => Err(not(&format!("one of {}", choices.join(", ")))),
        }
    }

    /// Returns the text of `ceph config help`.
    pub fn help_text(&self) -> String {
        let possible = match self.kind {
            OptionKind::Choice(choices) => format!("  Possible values:  {}\n", choices.join(" ")),
            _ => String::new(),
        };
        let (name, kind) = (self.name, self.kind.name());
        let default = self.default;
        format!(
            "{name} - {}\n  ({kind}, advanced)\n  Default: {default}\n{possible}  Can update at runtime: true\n",
            self.help
        )
    }

    /// Returns the default as a number or truth value where it is one.
    fn default_value(&self) -> Value {
        match self.kind {
            OptionKind::Choice(_) => json!(self.default),
            _ => serde_json::from_str(self.default).unwrap_or_else(|_| json!(self.default)),
        }
    }

    pub fn help_value(&self) -> Value {
        let mut value = json!({
            "name": self.name,
            "type": self.kind.name(),
            "level": "advanced",
            "desc": self.help,
            "long_desc": "",
            "default": self.default_value(),
            "daemon_default": "",
            "tags": [],
            "services": [],
            "see_also": [],
            "min": "",
            "max": "",
            "can_update_at_runtime": true,
            "flags": ["runtime"],
        });
        if let OptionKind::Choice(choices) = self.kind {
            value["enum_values"] = json!(choices);
        }
        value
    }
}

/// Parses bytes from `4096`, `2G`, `2Gi`, `2GiB`; units are powers of 1024.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start().trim_end_matches('B').trim_end_matches('i');
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        "P" | "p" => 50,
        "E" | "e" => 60,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_values() {
        for option in OPTIONS {
            assert_eq!(option.normalize(option.default).as_deref(), Ok(option.default), "{}", option.name);
        }
    }

    #[test]
    fn numbers_that_nobody_means_are_refused() {
        let refused = |kind, value: &str| option("x", kind, "", "").normalize(value).unwrap_err();
        let check = |kind, most: String, beyond: &[&str]| {
            assert!(option("x", kind, "", "").normalize(&most).is_ok(), "{kind:?} {most}");
            beyond.iter().for_each(|value| assert!(refused(kind, value).starts_with("error parsing value"), "{value}"));
        };
        check(
            OptionKind::Secs,
            SECS_MAX.to_string(),
            &["2147483648", "18446744073709551615", "18446744073709551615s", "-1"],
        );
        check(OptionKind::Uint, UINT_MAX.to_string(), &["4294967296", "18446744073709551615", "-1", "1e3"]);
        check(OptionKind::Size, "1E".to_owned(), &["2E", "18446744073709551615"]);
        check(OptionKind::Float, "-1000000000".to_owned(), &["inf", "nan", "1e10", "-1e300"]);
        let why = refused(OptionKind::Secs, "18446744073709551615");
        assert_eq!(
            why,
            "error parsing value: '18446744073709551615' is not a whole number of seconds up to 2147483647"
        );
    }

    #[test]
    fn sizes_have_binary_units() {
        let check = |text, expect| assert_eq!(parse_size(text), expect, "{text}");
        check("4096", Some(4096));
        check("10Ki", Some(10_240));
        check("2G", Some(2 << 30));
        check("1 TiB", Some(1 << 40));
        check("", None);
        check("x", None);
        check("99999999999999999999", None);
        check("16E", None);
    }
}
