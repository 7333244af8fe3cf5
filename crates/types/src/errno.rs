//! Error numbers as the protocol carries them: negative Linux `errno` values.

use std::fmt;

/// A positive Linux error number. It is negated on the wire (see [`Errno::as_result`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno($value);)*
        }
        impl fmt::Display for Errno {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $($value => write!(f, concat!(stringify!($name), " (", $text, ")")),)*
                    n => write!(f, "errno {n}"),
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file, object or pool";
    EIO = 5, "input/output error";
    ENXIO = 6, "no such device or address";
    E2BIG = 7, "argument list too long";
    ENOEXEC = 8, "it cannot be carried out";
    EAGAIN = 11, "try again";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "permission denied";
    EBUSY = 16, "busy";
    EEXIST = 17, "exists already";
    ENOTDIR = 20, "not a directory";
    EINVAL = 22, "invalid argument";
    EFBIG = 27, "too big";
    ENOSPC = 28, "no space left";
    ERANGE = 34, "out of range";
    ENAMETOOLONG = 36, "name too long";
    ENOTEMPTY = 39, "not empty";
    ENODATA = 61, "no data";
    EOVERFLOW = 75, "value too large";
    EOLDSNAPC = 85, "old snapshot context";
    EMSGSIZE = 90, "message too long";
    EOPNOTSUPP = 95, "operation not supported";
    ENOTCONN = 107, "not connected";
    EBLOCKLISTED = 108, "client is blocklisted";
    ETIMEDOUT = 110, "timed out";
    EALREADY = 114, "already in progress";
    EDQUOT = 122, "quota exceeded";
    ECANCELED = 125, "comparison failed";
}

impl Errno {
    /// The negative value that replies carry.
    pub const fn as_result(self) -> i32 {
        -self.0
    }

    /// The error in a reply's result, or `None` for zero and positive results.
    pub const fn from_result(result: i32) -> Option<Errno> {
        if result < 0 { Some(Errno(result.wrapping_neg())) } else { None }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Errno {}
