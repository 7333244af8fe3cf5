//! Ids of daemons, pools, placement groups and requests, each its own type.

use std::fmt;
use std::str::FromStr;

/// Number of one OSD map (or of another map that counts up); 0 means "none yet".
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch that follows this one.
    pub const fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

/// Number of an OSD, 0 or above. In placements [`OsdId::NONE`] marks a hole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OsdId(pub i32);

impl OsdId {
    /// CRUSH's "no item": a shard that could not be placed.
    pub const NONE: OsdId = OsdId(0x7fff_ffff);

    /// True if this is the id of a real OSD.
    pub const fn is_some(self) -> bool {
        self.0 >= 0 && self.0 != Self::NONE.0
    }

    /// Index into the per-OSD vectors of a map. Panics for [`OsdId::NONE`].
    pub fn index(self) -> usize {
        assert!(self.is_some(), "index of a missing OSD");
        self.0 as usize
    }
}

impl fmt::Display for OsdId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_some() { write!(f, "osd.{}", self.0) } else { f.write_str("osd.none") }
    }
}

/// Number of a pool. Pools are numbered from 1, and numbers are never reused.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId(pub i64);

impl PoolId {
    /// Number of bits of the pools that clients know.
    const BITS: u32 = 48;
    const NUMBER: i64 = (1 << Self::BITS) - 1;
    const KEPT_BACK: i64 = 1 << 60;
    const IN_PART: i64 = 1 << 61;

    /// The pool under which an OSD keeps one shard of an erasure-coded pool's groups. An OSD may hold two shards of one
    /// group, whose objects and tables must not collide. Clients, maps and monitors never see such a number.
    pub const fn of_shard(self, shard: u8) -> PoolId {
        PoolId((self.0 & Self::NUMBER) | (shard as i64 + 1) << Self::BITS)
    }

    /// The pool under which a shard keeps objects' former states, for updates that may still be undone.
    pub const fn kept_back(self) -> PoolId {
        PoolId(self.0 | Self::KEPT_BACK)
    }

    /// True if this was made by [`PoolId::kept_back`].
    pub const fn is_kept_back(self) -> bool {
        self.0 > 0 && self.0 & Self::KEPT_BACK != 0
    }

    /// The pool under which an OSD keeps objects that have only partly arrived from another OSD.
    pub const fn in_part(self) -> PoolId {
        PoolId(self.0 | Self::IN_PART)
    }

    /// True if this was made by [`PoolId::in_part`].
    pub const fn is_in_part(self) -> bool {
        self.0 > 0 && self.0 & Self::IN_PART != 0
    }

    /// True if the pool's objects do not belong to a group, but lie beside its objects.
    pub const fn is_beside(self) -> bool {
        self.is_kept_back() || self.is_in_part()
    }

    /// The shard, if this was made by [`PoolId::of_shard`].
    pub const fn shard(self) -> Option<u8> {
        let shard = self.0 >> Self::BITS & 0xff;
        if self.0 > 0 && shard > 0 { Some(shard as u8 - 1) } else { None }
    }

    /// The pool that clients know.
    pub const fn base(self) -> PoolId {
        if self.0 > 0 { PoolId(self.0 & Self::NUMBER) } else { self }
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beside = match (self.is_kept_back(), self.is_in_part()) {
            (true, _) => "u",
            (_, true) => "r",
            _ => "",
        };
        match self.shard() {
            None => write!(f, "{}{beside}", self.base().0),
            Some(shard) => write!(f, "{}s{shard}{beside}", self.base().0),
        }
    }
}

/// A placement group: a pool and the group's number (its *seed*) within the pool. Written `1.2f` (seed in hex).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PgId {
    pub pool: PoolId,
    pub seed: u32,
}

impl PgId {
    pub const fn new(pool: i64, seed: u32) -> PgId {
        PgId { pool: PoolId(pool), seed }
    }

    /// One shard of an erasure-coded pool's group; see [`PoolId::of_shard`].
    pub const fn of_shard(self, shard: u8) -> PgId {
        PgId { pool: self.pool.of_shard(shard), seed: self.seed }
    }

    /// The group that clients know.
    pub const fn base(self) -> PgId {
        PgId { pool: self.pool.base(), seed: self.seed }
    }
}

/// Formats a group as `1.2f`, and one shard of an erasure-coded group as `1.2fs3`.
impl fmt::Display for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.pool.base().0, self.seed)?;
        match self.pool.shard() {
            None => Ok(()),
            Some(shard) => write!(f, "s{shard}"),
        }
    }
}

/// A text that is not in the form of its type; the field holds the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseIdError(pub String);

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read '{}'", self.0)
    }
}

impl std::error::Error for ParseIdError {}

impl FromStr for PgId {
    type Err = ParseIdError;

    fn from_str(s: &str) -> Result<PgId, ParseIdError> {
        let parse = || {
            let (pool, seed) = s.split_once('.')?;
            Some(PgId { pool: PoolId(pool.parse().ok()?), seed: u32::from_str_radix(seed, 16).ok()? })
        };
        parse().ok_or_else(|| ParseIdError(s.to_owned()))
    }
}

/// The cluster's id, a UUID.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fsid(pub [u8; 16]);

impl Fsid {
    /// A version-4 UUID from 16 random bytes.
    pub const fn from_random(mut bytes: [u8; 16]) -> Fsid {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Fsid(bytes)
    }

    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for Fsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fsid {
    type Err = ParseIdError;

    fn from_str(s: &str) -> Result<Fsid, ParseIdError> {
        let hex: Vec<u8> = s.bytes().filter(|b| *b != b'-').collect();
        let mut out = [0u8; 16];
        let well_formed = hex.len() == 32 && (s.len() == 36 || s.len() == 32) && hex.iter().all(u8::is_ascii_hexdigit);
        if !well_formed {
            return Err(ParseIdError(s.to_owned()));
        }
        for (byte, pair) in out.iter_mut().zip(hex.chunks_exact(2)) {
            let digit = |c: u8| (c as char).to_digit(16).expect("checked above") as u8;
            *byte = digit(pair[0]) << 4 | digit(pair[1]);
        }
        Ok(Fsid(out))
    }
}

/// The kind of a party on the wire. The numbers are the protocol's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EntityType(pub u8);

impl EntityType {
    pub const MON: EntityType = EntityType(1);
    pub const MDS: EntityType = EntityType(2);
    pub const OSD: EntityType = EntityType(4);
    pub const CLIENT: EntityType = EntityType(8);
    pub const MGR: EntityType = EntityType(16);
    pub const AUTH: EntityType = EntityType(32);
    pub const ANY: EntityType = EntityType(255);

    /// The word before the dot in `osd.3`.
    pub const fn word(self) -> &'static str {
        match self {
            EntityType::MON => "mon",
            EntityType::MDS => "mds",
            EntityType::OSD => "osd",
            EntityType::CLIENT => "client",
            EntityType::MGR => "mgr",
            EntityType::AUTH => "auth",
            _ => "unknown",
        }
    }
}

/// A party on the wire: `client.4123`, `osd.0`, `mon.0`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EntityName {
    pub kind: EntityType,
    /// OSD number, monitor rank, or a client's global id.
    pub num: i64,
}

impl EntityName {
    pub const fn osd(id: OsdId) -> EntityName {
        EntityName { kind: EntityType::OSD, num: id.0 as i64 }
    }

    pub const fn client(global_id: u64) -> EntityName {
        EntityName { kind: EntityType::CLIENT, num: global_id as i64 }
    }

    pub const fn mon(rank: i64) -> EntityName {
        EntityName { kind: EntityType::MON, num: rank }
    }
}

impl Default for EntityName {
    fn default() -> EntityName {
        EntityName { kind: EntityType(0), num: 0 }
    }
}

impl fmt::Display for EntityName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.num < 0 { write!(f, "{}.?", self.kind.word()) } else { write!(f, "{}.{}", self.kind.word(), self.num) }
    }
}

/// Identity of one client request, the key of duplicate detection: resends keep it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReqId {
    pub name: EntityName,
    pub tid: u64,
    pub inc: i32,
}

impl fmt::Display for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}:{}", self.name, self.inc, self.tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pg_ids_read_back() {
        assert_eq!("3.1f".parse(), Ok(PgId::new(3, 0x1f)));
        assert_eq!(PgId::new(3, 0x1f).to_string(), "3.1f");
        assert!("3".parse::<PgId>().is_err());
        assert!("a.1".parse::<PgId>().is_err());
    }

    #[test]
    fn fsids_read_back() {
        let text = "6f7c1e0a-52f0-4c9a-9d68-0123456789ab";
        assert_eq!(text.parse::<Fsid>().unwrap().to_string(), text);
        assert!("6f7c".parse::<Fsid>().is_err());
        assert!("zf7c1e0a-52f0-4c9a-9d68-0123456789ab".parse::<Fsid>().is_err());
    }
}
