//! Codes of operations on objects.

use std::fmt;

/// Code of one part of an [`super::OsdOp`]. Mode, operand and number are parts of the value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpCode(pub u16);

const MODE_READ: u16 = 0x1000;
const MODE_WRITE: u16 = 0x2000;
const TYPE_MASK: u16 = 0x0f00;
const TYPE_ATTR: u16 = 0x0300;
const TYPE_EXEC: u16 = 0x0400;
const TYPE_PG: u16 = 0x0500;

macro_rules! op_codes {
    ($($name:ident = $value:literal $label:literal;)*) => {
        impl OpCode {
            $(pub const $name: OpCode = OpCode($value);)*

            /// All codes, ascending within mode and kind.
            pub const ALL: &[OpCode] = &[$(OpCode::$name),*];

            /// Ceph's name in logs, `unknown` for codes that are not in the table.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($value => $label,)*
                    _ => "unknown",
                }
            }
        }
    };
}

op_codes! {
    READ = 0x1201 "read";
    STAT = 0x1202 "stat";
    MAPEXT = 0x1203 "mapext";
    MASKTRUNC = 0x1204 "masktrunc";
    SPARSE_READ = 0x1205 "sparse-read";
    NOTIFY = 0x1206 "notify";
    NOTIFY_ACK = 0x1207 "notify-ack";
    ASSERT_VER = 0x1208 "assert-version";
    LIST_WATCHERS = 0x1209 "list-watchers";
    LIST_SNAPS = 0x120a "list-snaps";
    SYNC_READ = 0x120b "sync_read";
    TMAPGET = 0x120c "tmapget";
    OMAPGETKEYS = 0x1211 "omap-get-keys";
    OMAPGETVALS = 0x1212 "omap-get-vals";
    OMAPGETHEADER = 0x1213 "omap-get-header";
    OMAPGETVALSBYKEYS = 0x1214 "omap-get-vals-by-keys";
    OMAP_CMP = 0x1219 "omap-cmp";
    ISDIRTY = 0x121d "isdirty";
    COPY_GET = 0x121e "copy-get";
    CHECKSUM = 0x121f "checksum";
    CMPEXT = 0x1220 "cmpext";
    WRITE = 0x2201 "write";
    WRITEFULL = 0x2202 "writefull";
    TRUNCATE = 0x2203 "truncate";
    ZERO = 0x2204 "zero";
    DELETE = 0x2205 "delete";
    APPEND = 0x2206 "append";
    STARTSYNC = 0x2207 "startsync";
    SETTRUNC = 0x2208 "settrunc";
    TRIMTRUNC = 0x2209 "trimtrunc";
    TMAPPUT = 0x220b "tmapput";
    CREATE = 0x220d "create";
    ROLLBACK = 0x220e "rollback";
    WATCH = 0x220f "watch";
    OMAPSETVALS = 0x2215 "omap-set-vals";
    OMAPSETHEADER = 0x2216 "omap-set-header";
    OMAPCLEAR = 0x2217 "omap-clear";
    OMAPRMKEYS = 0x2218 "omap-rm-keys";
    COPY_FROM = 0x221a "copy-from";
    UNDIRTY = 0x221c "undirty";
    SETALLOCHINT = 0x2223 "set-alloc-hint";
    CACHE_PIN = 0x2224 "cache-pin";
    CACHE_UNPIN = 0x2225 "cache-unpin";
    WRITESAME = 0x2226 "writesame";
    SET_REDIRECT = 0x2227 "set-redirect";
    TIER_PROMOTE = 0x2229 "tier-promote";
    UNSET_MANIFEST = 0x222a "unset-manifest";
    OMAPRMKEYRANGE = 0x222c "omap-rm-key-range";
    COPY_FROM2 = 0x222d "copy-from2";
    TMAPUP = 0x320a "tmapup";
    TMAP2OMAP = 0x3222 "tmap2omap";
    CACHE_FLUSH = 0x821f "cache-flush";
    CACHE_EVICT = 0x8220 "cache-evict";
    CACHE_TRY_FLUSH = 0x8221 "cache-try-flush";
    SET_CHUNK = 0x8228 "set-chunk";
    TIER_FLUSH = 0x822b "tier-flush";
    TIER_EVICT = 0x822c "tier-evict";
    GETXATTR = 0x1301 "getxattr";
    GETXATTRS = 0x1302 "getxattrs";
    CMPXATTR = 0x1303 "cmpxattr";
    SETXATTR = 0x2301 "setxattr";
    SETXATTRS = 0x2302 "setxattrs";
    RESETXATTRS = 0x2303 "resetxattrs";
    RMXATTR = 0x2304 "rmxattr";
    CALL = 0x1401 "call";
    PGLS = 0x1501 "pgls";
    PGLS_FILTER = 0x1502 "pgls-filter";
    PG_HITSET_LS = 0x1503 "pg-hitset-ls";
    PG_HITSET_GET = 0x1504 "pg-hitset-get";
    PGNLS = 0x1505 "pgnls";
    PGNLS_FILTER = 0x1506 "pgnls-filter";
    SCRUBLS = 0x1507 "scrubls";
}

impl OpCode {
    /// True if the table has the code.
    pub fn is_known(self) -> bool {
        self.name() != "unknown"
    }

    /// True if the operation may read the object.
    pub const fn is_read(self) -> bool {
        self.0 & MODE_READ != 0
    }

    /// True if the operation may change the object. A [`OpCode::CALL`] writes if its method does, which only the
    /// registry of methods knows.
    pub const fn is_write(self) -> bool {
        self.0 & MODE_WRITE != 0
    }

    /// True if the operation concerns attributes.
    pub const fn is_attr(self) -> bool {
        self.0 & TYPE_MASK == TYPE_ATTR
    }

    /// True if the operation runs a method of an object class.
    pub const fn is_exec(self) -> bool {
        self.0 & TYPE_MASK == TYPE_EXEC
    }

    /// True if the operation concerns a placement group instead of an object.
    pub const fn is_pg(self) -> bool {
        self.0 & TYPE_MASK == TYPE_PG
    }
}

impl fmt::Display for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_known() { f.write_str(self.name()) } else { write!(f, "op {:#06x}", self.0) }
    }
}

impl fmt::Debug for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_operands_are_in_the_code() {
        assert!(OpCode::READ.is_read() && !OpCode::READ.is_write());
        assert!(OpCode::WRITE.is_write() && !OpCode::WRITE.is_read());
        assert!(OpCode::TMAPUP.is_write() && OpCode::TMAPUP.is_read());
        assert!(OpCode::SETXATTR.is_attr() && OpCode::CALL.is_exec() && OpCode::PGNLS.is_pg());
        assert_eq!(OpCode(0x1777).to_string(), "op 0x1777");
    }

    #[test]
    fn no_code_and_no_name_is_there_twice() {
        let codes: std::collections::BTreeSet<_> = OpCode::ALL.iter().collect();
        let names: std::collections::BTreeSet<_> = OpCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!((codes.len(), names.len()), (OpCode::ALL.len(), OpCode::ALL.len()));
    }
}
