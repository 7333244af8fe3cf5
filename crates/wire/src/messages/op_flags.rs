//! Flags of operations.

use std::fmt;

/// Flags of a whole [`super::OsdOp`], and (as 64 bits) of its reply.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct OpFlags(pub u32);

macro_rules! op_flags {
    ($($name:ident = $value:literal $label:literal;)*) => {
        impl OpFlags {
            $(pub const $name: OpFlags = OpFlags($value);)*

            const TABLE: &[(OpFlags, &str)] = &[$((OpFlags::$name, $label)),*];
        }
    };
}

op_flags! {
    ACK = 0x1 "ack";
    ONNVRAM = 0x2 "onnvram";
    ONDISK = 0x4 "ondisk";
    RETRY = 0x8 "retry";
    READ = 0x10 "read";
    WRITE = 0x20 "write";
    ORDERSNAP = 0x40 "ordersnap";
    PEERSTAT_OLD = 0x80 "peerstat_old";
    BALANCE_READS = 0x100 "balance_reads";
    PARALLELEXEC = 0x200 "parallelexec";
    PGOP = 0x400 "pgop";
    EXEC = 0x800 "exec";
    EXEC_PUBLIC = 0x1000 "exec_public";
    LOCALIZE_READS = 0x2000 "localize_reads";
    RWORDERED = 0x4000 "rwordered";
    IGNORE_CACHE = 0x8000 "ignore_cache";
    SKIPRWLOCKS = 0x1_0000 "skiprwlocks";
    IGNORE_OVERLAY = 0x2_0000 "ignore_overlay";
    FLUSH = 0x4_0000 "flush";
    MAP_SNAP_CLONE = 0x8_0000 "map_snap_clone";
    ENFORCE_SNAPC = 0x10_0000 "enforce_snapc";
    REDIRECTED = 0x20_0000 "redirected";
    KNOWN_REDIR = 0x40_0000 "known_if_redirected";
    FULL_TRY = 0x80_0000 "full_try";
    FULL_FORCE = 0x100_0000 "full_force";
    IGNORE_REDIRECT = 0x200_0000 "ignore_redirect";
    RETURNVEC = 0x400_0000 "returnvec";
}

impl OpFlags {
    /// True if all bits of `flags` are set.
    pub const fn has(self, flags: OpFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    pub const fn with(self, flags: OpFlags) -> OpFlags {
        OpFlags(self.0 | flags.0)
    }

    pub const fn without(self, flags: OpFlags) -> OpFlags {
        OpFlags(self.0 & !flags.0)
    }
}

impl std::ops::BitOr for OpFlags {
    type Output = OpFlags;

    fn bitor(self, other: OpFlags) -> OpFlags {
        self.with(other)
    }
}

/// Formats as in Ceph's logs: `ondisk+write+known_if_redirected`.
impl fmt::Display for OpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        for (flag, name) in Self::TABLE {
            if self.has(*flag) {
                write!(f, "{}{name}", if rest == self.0 { "" } else { "+" })?;
                rest &= !flag.0;
            }
        }
        if rest != 0 {
            write!(f, "{}{rest:#x}", if rest == self.0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for OpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Flags of one part of an operation ([`super::Op::flags`]).
pub mod op_flag {
    /// The part creates the object only if it does not exist.
    pub const EXCL: u32 = 0x1;
    /// The whole operation goes on if this part fails.
    pub const FAILOK: u32 = 0x2;
    pub const FADVISE_RANDOM: u32 = 0x4;
    pub const FADVISE_SEQUENTIAL: u32 = 0x8;
    pub const FADVISE_WILLNEED: u32 = 0x10;
    pub const FADVISE_DONTNEED: u32 = 0x20;
    pub const FADVISE_NOCACHE: u32 = 0x40;
    pub const WITH_REFERENCE: u32 = 0x80;
    pub const BYPASS_CLEAN_CACHE: u32 = 0x100;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_print_as_in_ceph() {
        let flags = OpFlags::WRITE | OpFlags::ONDISK | OpFlags::KNOWN_REDIR;
        assert_eq!(flags, OpFlags(0x40_0024), "what librados sets for writes");
        assert_eq!(flags.to_string(), "ondisk+write+known_if_redirected");
        assert_eq!(OpFlags(0x8000_0001).to_string(), "ack+0x80000000");
        assert_eq!(OpFlags(0x4000_0000).to_string(), "0x40000000");
        assert!(!flags.without(OpFlags::WRITE).has(OpFlags::WRITE));
    }
}
