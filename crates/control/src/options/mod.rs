//! Options of the cluster: the names that Ceph 16.2 knows, the form of their values, and what Nacre makes of each.
//!
//! * `facts.tsv`: a line per option, in Ceph's order. `tests/python/option_facts.py` makes it from a running Ceph.
//!   Fields are separated by tabs, empty ones at the end are left out: name, type, level, flags (`live`: a change has
//!   effect without a restart; `unlisted`: `config ls`
//!   passes it over), default, default of daemons, least value, greatest value, permitted values, services,
//!   tags, related options. Lists have commas. The default of `container_image` lacks the host that Ceph's has.
//! * [`value`]: from a text to the form in which a value is kept.
//! * [`use_of`] (`uses.rs`): which options have an effect here, and which.
//!
//! Ceph's descriptions of options are not here. Options that have an effect are described in words of our own.

mod describe;
mod uses;
pub mod value;

pub use describe::typed;
pub use uses::{Use, honoured, honoured_by_osds, honoured_in_logs, use_of};

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The form of an option's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionKind {
    Int,
    Uint,
    Text,
    Float,
    Bool,
    /// One address.
    Addr,
    /// Several addresses.
    AddrVec,
    Uuid,
    /// Bytes.
    Size,
    /// Seconds.
    Secs,
    Millisecs,
}

impl OptionKind {
    const WORDS: [(&'static str, OptionKind); 11] = [
        ("int", OptionKind::Int),
        ("uint", OptionKind::Uint),
        ("str", OptionKind::Text),
        ("float", OptionKind::Float),
        ("bool", OptionKind::Bool),
        ("addr", OptionKind::Addr),
        ("addrvec", OptionKind::AddrVec),
        ("uuid", OptionKind::Uuid),
        ("size", OptionKind::Size),
        ("secs", OptionKind::Secs),
        ("millisecs", OptionKind::Millisecs),
    ];

    /// Returns Ceph's word for it.
    pub fn word(self) -> &'static str {
        let entry = Self::WORDS.iter().find(|(_, kind)| *kind == self);
        entry.expect("every kind has a word").0
    }
}

/// One option as Ceph 16.2 declares it. Texts of values are as short as they can be: `0.97`, `true`, `4096`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionFacts {
    pub name: &'static str,
    pub kind: OptionKind,
    /// `basic`, `advanced`, `dev`.
    pub level: &'static str,
    /// True if a change has effect without a restart.
    pub at_runtime: bool,
    /// False for debug levels of Ceph's subsystems, which its listings pass over.
    pub listed: bool,
    /// `runtime`, `startup`, `create`, `cluster_create`, `no_mon_update`.
    pub flags: Vec<&'static str>,
    pub default: &'static str,
    /// The default of daemons, where it is another one.
    pub daemon_default: Option<&'static str>,
    pub min: Option<&'static str>,
    pub max: Option<&'static str>,
    /// The permitted values; empty: any.
    pub choices: Vec<&'static str>,
    pub services: Vec<&'static str>,
    pub tags: Vec<&'static str>,
    pub see_also: Vec<&'static str>,
}

impl OptionFacts {
    fn from_line(line: &'static str) -> Option<OptionFacts> {
        let mut fields = line.split('\t');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let word = fields.next()?;
        let kind = OptionKind::WORDS.iter().find(|(text, _)| *text == word)?.1;
        let level = fields.next()?;
        let mut field = || fields.next().unwrap_or_default();
        let list = |text: &'static str| if text.is_empty() { Vec::new() } else { text.split(',').collect::<Vec<_>>() };
        let some = |text: &'static str| (!text.is_empty()).then_some(text);
        let flags = list(field());
        Some(OptionFacts {
            name,
            kind,
            level,
            at_runtime: flags.contains(&"live"),
            listed: !flags.contains(&"unlisted"),
            flags: flags.into_iter().filter(|flag| !["live", "unlisted"].contains(flag)).collect(),
            default: field(),
            daemon_default: some(field()),
            min: some(field()),
            max: some(field()),
            choices: list(field()),
            services: list(field()),
            tags: list(field()),
            see_also: list(field()),
        })
    }

    /// Returns true if monitors do not keep it: it belongs into `ceph.conf`.
    pub fn is_local(&self) -> bool {
        self.flags.contains(&"no_mon_update")
    }

    /// Returns the value that holds where nobody sets one, in the form in which values are kept.
    pub fn default_for(&self, daemon: bool) -> String {
        let own = match use_of(self.name) {
            Use::Honoured { default, .. } => default,
            _ => None,
        };
        let default = own.or(self.daemon_default.filter(|_| daemon)).unwrap_or(self.default);
        value::written(self.kind, default)
    }
}

/// Options that Ceph 16.2 does not have, in the form of the facts.
const OWN: &str = "auth_allowed_ciphers\tstr\tadvanced\tlive,runtime\taes,aes256k
auth_preferred_cipher\tstr\tadvanced\tlive,runtime\taes
auth_service_cipher\tstr\tadvanced\tlive,runtime\taes256k
mgr/pg_numbers/careful\tbool\tadvanced\tlive,runtime\ttrue
mgr/pg_autoscaler/threshold\tfloat\tadvanced\tlive,runtime\t3\t\t1
osd_ec_hedged_reads\tbool\tadvanced\tlive,runtime\ttrue";

struct OptionTable {
    in_order: Vec<OptionFacts>,
    by_name: BTreeMap<&'static str, usize>,
}

fn table() -> &'static OptionTable {
    static TABLE: OnceLock<OptionTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        let lines = include_str!("facts.tsv").lines().chain(OWN.lines());
        let facts = |line| OptionFacts::from_line(line).unwrap_or_else(|| panic!("'{line}' describes no option"));
        let in_order: Vec<OptionFacts> = lines.map(facts).collect();
        let by_name = in_order.iter().enumerate().map(|(at, option)| (option.name, at)).collect();
        OptionTable { in_order, by_name }
    })
}

/// Returns the option of this name.
pub fn find(name: &str) -> Option<&'static OptionFacts> {
    let table = table();
    table.by_name.get(name).map(|at| &table.in_order[*at])
}

/// Returns all options, in Ceph's order; those of Nacre come last.
pub fn all() -> impl Iterator<Item = &'static OptionFacts> {
    table().in_order.iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_there_once_and_refers_to_others() {
        let table = table();
        assert_eq!(table.in_order.len(), table.by_name.len(), "a name is there twice");
        assert!(table.in_order.len() > 1900);
        for option in all() {
            assert!(["basic", "advanced", "dev"].contains(&option.level), "{option:?}");
        }
    }

    /// Options whose defaults no Ceph takes as values: empty addresses, and bounds that are mistaken. The empty text
    /// where others are permitted is passed over, too.
    const ODD: [&str; 5] = [
        "public_addrv",
        "rbd_default_features",
        "rgw_rados_pool_recovery_priority",
        "cephsqlite_lock_renewal_interval",
        "cephsqlite_lock_renewal_timeout",
    ];

    #[test]
    fn defaults_are_values() {
        for option in all().filter(|option| !ODD.contains(&option.name)) {
            for default in [Some(option.default), option.daemon_default].into_iter().flatten() {
                if default.is_empty() && !option.choices.is_empty() {
                    continue;
                }
                let written = value::written(option.kind, default);
                assert_eq!(value::normalize(option, &written).as_deref(), Ok(written.as_str()), "{}", option.name);
            }
        }
    }

    #[test]
    fn the_documentation_names_each_option_with_an_effect() {
        let text = include_str!("../../../../docs/compatibility.md");
        for used in honoured().chain(honoured_by_osds()).chain(honoured_in_logs()) {
            assert!(text.contains(&format!("| `{used}` |")), "docs/compatibility.md lacks {used}");
        }
    }

    #[test]
    fn options_with_an_effect_exist_and_their_defaults_are_values() {
        for used in honoured().chain(honoured_by_osds()).chain(honoured_in_logs()) {
            let option = find(used).unwrap_or_else(|| panic!("'{used}' is no option"));
            let default = option.default_for(true);
            assert_eq!(value::normalize(option, &default).as_deref(), Ok(default.as_str()), "{used}");
        }
    }
}
