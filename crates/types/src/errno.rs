//! Linux error numbers as Ceph's replies carry them (negative on the wire).

use std::fmt;
use thiserror::Error;

/// A Linux errno. Replies carry its negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Errno {
            $(
                #[doc = concat!("`E", stringify!($name), "`: ", $text, ".")]
                pub const $name: Errno = Errno($value);
            )*

            /// The symbolic name, `ENOENT`; `None` for a number that is not in the table.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(concat!("E", stringify!($name))),)*
                    _ => None,
                }
            }

            /// The meaning in lower case, as for a message to a user.
            pub fn text(self) -> &'static str {
                match self.0 {
                    $($value => $text,)*
                    _ => "unknown error",
                }
            }
        }
    };
}

errnos! {
    PERM = 1, "operation not permitted";
    NOENT = 2, "no such file or directory";
    INTR = 4, "interrupted system call";
    IO = 5, "input/output error";
    NXIO = 6, "no such device or address";
    TOOBIG = 7, "argument list too long";
    NOEXEC = 8, "exec format error";
    BADF = 9, "bad file descriptor";
    AGAIN = 11, "resource temporarily unavailable";
    NOMEM = 12, "cannot allocate memory";
    ACCES = 13, "permission denied";
    BUSY = 16, "device or resource busy";
    EXIST = 17, "file exists";
    XDEV = 18, "invalid cross-device link";
    NODEV = 19, "no such device";
    NOTDIR = 20, "not a directory";
    ISDIR = 21, "is a directory";
    INVAL = 22, "invalid argument";
    FBIG = 27, "file too large";
    NOSPC = 28, "no space left on device";
    ROFS = 30, "read-only file system";
    MLINK = 31, "too many links";
    DOM = 33, "numerical argument out of domain";
    RANGE = 34, "numerical result out of range";
    DEADLK = 35, "resource deadlock avoided";
    NAMETOOLONG = 36, "file name too long";
    NOLCK = 37, "no locks available";
    NOSYS = 38, "function not implemented";
    NOTEMPTY = 39, "directory not empty";
    NODATA = 61, "no data available";
    TIME = 62, "timer expired";
    PROTO = 71, "protocol error";
    BADMSG = 74, "bad message";
    OVERFLOW = 75, "value too large for defined data type";
    ILSEQ = 84, "invalid or incomplete multibyte or wide character";
    NOTSUPP = 95, "operation not supported";
    NOTCONN = 107, "transport endpoint is not connected";
    TIMEDOUT = 110, "connection timed out";
    CONNREFUSED = 111, "connection refused";
    ALREADY = 114, "operation already in progress";
    INPROGRESS = 115, "operation now in progress";
    STALE = 116, "stale file handle";
    DQUOT = 122, "disk quota exceeded";
    CANCELED = 125, "operation canceled";
    KEYREJECTED = 129, "key was rejected by service";
    BLOCKLISTED = 108, "client is blocklisted";
}

impl Errno {
    /// The value in replies.
    pub fn negative(self) -> i32 {
        -self.0
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name}: {}", self.text()),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}
