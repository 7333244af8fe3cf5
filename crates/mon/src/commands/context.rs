//! The context in which a handler works.

use super::{Answer, Arguments, Format, Outcome, Reply, Request, refuse, xml};
use crate::{MonState, Update, Volatile};
use crush::{BuildError, CrushMap};
use osdmap::{Incremental, OsdMap, PgPool};
use serde_json::{Value, json};
use std::time::Duration;
use types::{Errno, OsdId, PoolId, Utime};
use wire::{EntityAddr, EntityAddrVec};

/// A command whose arguments fit its signature, and the state that it is about.
pub(super) struct Context<'a> {
    pub state: &'a MonState,
    pub volatile: &'a Volatile,
    pub request: &'a Request<'a>,
    /// The command's words.
    pub prefix: &'a str,
    pub args: Arguments,
    pub format: Format,
}

impl<'a> Context<'a> {
    // --- lookups ---

    pub fn map(&self) -> &'a OsdMap {
        self.state.osdmap()
    }

    pub fn crush(&self) -> &'a CrushMap {
        &self.map().crush
    }

    /// Returns the pool that the argument names.
    pub fn pool(&self, argument: &str) -> Result<(PoolId, &'a str, &'a PgPool), Reply> {
        let name = self.args.word(argument);
        let found = self.map().pool_by_name(name).and_then(|id| {
            let map = self.map();
            Some((id, map.pool_name(id)?, map.pool(id)?))
        });
        found.ok_or_else(|| Reply::error(Errno::ENOENT, format!("unrecognized pool '{name}'")))
    }

    /// Returns the OSD that the argument names. Error: it does not exist.
    pub fn existing_osd(&self, argument: &str) -> Result<OsdId, Reply> {
        let osd = self.args.osd(argument).expect("an OSD is required by the signature");
        if self.map().exists(osd) { Ok(osd) } else { refuse(Errno::ENOENT, format!("{osd} does not exist")) }
    }

    /// Returns the OSDs that the argument names. Error: one does not exist.
    pub fn existing_osds(&self, argument: &str) -> Result<Vec<OsdId>, Reply> {
        let osds = self.args.osds(argument);
        match osds.iter().find(|osd| !self.map().exists(**osd)) {
            Some(osd) => refuse(Errno::ENOENT, format!("{osd} does not exist")),
            None => Ok(osds),
        }
    }

    /// Returns the name that the host of an OSD gives itself.
    pub fn host_name(&self, osd: OsdId) -> Option<&'a str> {
        self.state.osd_metadata.get(&osd)?.get("hostname").map(String::as_str)
    }

    /// Returns the monitors' addresses as `mon_host` in `ceph.conf` takes them.
    pub fn mon_host(&self) -> String {
        let monmap = &self.state.monmap;
        let addrs = monmap.ranks.iter().filter_map(|name| monmap.mons.get(name));
        addrs.map(|mon| mon.addrs.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the time since `stamp`, by the monitor's clock.
    pub fn since(&self, stamp: Utime) -> Duration {
        self.request.now.to_unix().saturating_sub(stamp.to_unix())
    }

    // --- answers ---

    /// Answers with a value; indented where the client asked for no particular format.
    pub fn value(&self, value: Value) -> Answer {
        Ok(Outcome::Reply(Reply::output(self.rendered(&value))))
    }

    /// Returns a value as text in the format that was asked for.
    pub fn rendered(&self, value: &Value) -> String {
        match self.format.is_xml() {
            true => xml::render(self.prefix, value, self.format == Format::XmlPretty),
            false => self.format.render(value),
        }
    }

    /// Answers with text for people or with a value for programs.
    pub fn either(&self, text: impl FnOnce() -> String, value: impl FnOnce() -> Value) -> Answer {
        match self.format {
            Format::Plain => self.text(text()),
            _ => self.value(value()),
        }
    }

    /// Answers with text, whatever the format.
    pub fn text(&self, text: impl Into<String>) -> Answer {
        Ok(Outcome::Reply(Reply::output(text.into())))
    }

    // --- changes ---

    /// Proposes updates; without any, answers at once.
    pub fn propose(&self, updates: Vec<Update>, reply: Reply) -> Answer {
        Ok(if updates.is_empty() { Outcome::Reply(reply) } else { Outcome::Propose { updates, reply } })
    }

    /// Proposes the changes that `edit` makes to the OSD map.
    pub fn change_map(&self, status: impl Into<String>, edit: impl FnOnce(&mut Incremental)) -> Answer {
        let mut incremental = self.state.next_incremental(self.request.now);
        edit(&mut incremental);
        self.propose(self.state.osd_update(incremental).into_iter().collect(), Reply::status(status))
    }

    /// Proposes the changes that `edit` makes to a pool.
    pub fn change_pool(&self, id: PoolId, status: impl Into<String>, edit: impl FnOnce(&mut PgPool)) -> Answer {
        let old = self.map().pool(id).expect("the pool was looked up in this map");
        let mut pool = old.clone();
        edit(&mut pool);
        let changed = pool != *old;
        self.change_map(status, |incremental| {
            if changed {
                pool.last_change = incremental.epoch;
                incremental.new_pools.insert(id, pool);
            }
        })
    }

    /// Proposes the changes that `edit` makes to the CRUSH hierarchy.
    pub fn change_crush(
        &self,
        status: impl Into<String>,
        edit: impl FnOnce(&mut CrushMap) -> Result<(), BuildError>,
    ) -> Answer {
        let mut crush = self.crush().clone();
        edit(&mut crush).map_err(|e| build_error(&e))?;
        let changed = crush != *self.crush();
        self.change_map(status, |incremental| {
            if changed {
                incremental.set_crush(&crush);
            }
        })
    }
}

/// Adds a sentence for stderr to an answer with output.
pub(super) fn with_status(answer: Answer, status: impl Into<String>) -> Answer {
    answer.map(|outcome| match outcome {
        Outcome::Reply(reply) => Outcome::Reply(Reply { status: status.into(), ..reply }),
        propose => propose,
    })
}

/// Returns the answer for a refused change of the hierarchy, with the error number that Ceph gives.
pub(super) fn build_error(error: &BuildError) -> Reply {
    let errno = match error {
        BuildError::NoItem(_) | BuildError::NoItemId(_) | BuildError::NoRule(_) => Errno::ENOENT,
        BuildError::NameExists(_) | BuildError::ItemExists(_) | BuildError::RuleExists(_) => Errno::EEXIST,
        BuildError::NotEmpty(_) => Errno::ENOTEMPTY,
        BuildError::InUse(_) | BuildError::ClassInUse(_) | BuildError::ClassSet { .. } => Errno::EBUSY,
        BuildError::UnsupportedBucket { .. } => Errno::EOPNOTSUPP,
        _ => Errno::EINVAL,
    };
    Reply::error(errno, error.to_string())
}

/// Returns addresses as values: `{"addrvec": [{"type": "v2", "addr": "127.0.0.1:6800", "nonce": 1}]}`.
pub(super) fn addrs_value(addrs: &EntityAddrVec) -> Value {
    let one = |addr: &EntityAddr| {
        let text = addr.sockaddr.map_or_else(|| "-".to_owned(), |sockaddr| sockaddr.to_string());
        json!({"type": kind_name(addr), "addr": text, "nonce": addr.nonce})
    };
    json!({"addrvec": addrs.0.iter().map(one).collect::<Vec<_>>()})
}

fn kind_name(addr: &EntityAddr) -> &'static str {
    use wire::addr::AddrKind;
    match addr.kind {
        AddrKind::NONE => "none",
        AddrKind::LEGACY => "v1",
        AddrKind::MSGR2 => "v2",
        AddrKind::CIDR => "cidr",
        _ => "any",
    }
}

/// Returns the one address that older output formats print: the legacy one, else the first.
pub(super) fn legacy_addr(addrs: &EntityAddrVec) -> String {
    use wire::addr::AddrKind;
    let legacy = addrs.0.iter().find(|addr| addr.kind == AddrKind::LEGACY).or(addrs.0.first());
    legacy.map_or_else(|| "(unrecognized address family 0)/0".to_owned(), EntityAddr::legacy_str)
}

/// Converts 16.16 fixed point to a fraction.
pub(super) fn weight(fixed: u32) -> f64 {
    // The way over 32 bits is Ceph's: people then see 0.79999 and not 0.79998779296875.
    f64::from(fixed as f32 / 65_536.0)
}

/// Returns a weight for a table: five digits, `0` for none, `-` for "not applicable".
pub(super) fn weight_text(weight: f64) -> String {
    if weight < -0.01 {
        "-".to_owned()
    } else if weight < 0.000_001 {
        "0".to_owned()
    } else {
        format!("{weight:.5}")
    }
}

/// Returns a fraction with six significant digits, as C++ streams print it: `0.95`, `0.799988`, `1`.
pub(super) fn short_float(f: f64) -> String {
    if f == 0.0 {
        return "0".to_owned();
    }
    let exponent = f.abs().log10().floor() as i32;
    let digits = (5 - exponent).clamp(0, 17) as usize;
    let text = format!("{f:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Returns OSDs as `[1,0,NONE]`.
pub(super) fn osds_text(osds: &[OsdId]) -> String {
    let name = |osd: &OsdId| if osd.is_some() { osd.0.to_string() } else { "NONE".to_owned() };
    format!("[{}]", osds.iter().map(name).collect::<Vec<_>>().join(","))
}

/// Returns OSDs as numbers; a hole is CRUSH's 2147483647.
pub(super) fn osds_value(osds: &[OsdId]) -> Value {
    osds.iter().map(|osd| json!(osd.0)).collect()
}

/// Returns an OSD's number, -1 for none.
pub(super) fn primary_number(osd: Option<OsdId>) -> i32 {
    osd.filter(|osd| osd.is_some()).map_or(-1, |osd| osd.0)
}

/// Returns a stamp as JSON carries it; Ceph prints "never" as `0.000000`.
pub(super) fn stamp(t: Utime) -> String {
    if t.is_zero() { "0.000000".to_owned() } else { t.to_string() }
}
