//! Numbers of object operations (Ceph `src/include/rados.h`): codes, names, modes and flags.

use std::fmt;

/// `CEPH_OSD_OP_*`: code of an operation in a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OpCode(pub u16);

const MODE_READ: u16 = 0x1000;
const MODE_WRITE: u16 = 0x2000;
const MODE_CACHE: u16 = 0x8000;
const TYPE_MASK: u16 = 0x0f00;
const TYPE_ATTR: u16 = 0x0300;
const TYPE_EXEC: u16 = 0x0400;
const TYPE_PG: u16 = 0x0500;

macro_rules! codes {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl OpCode {
            $(
                #[doc = concat!("Code of the operation `", $text, "`.")]
                pub const $name: OpCode = OpCode($value);
            )*

            /// Ceph's name of the operation.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    READ = 0x1201, "read";
    STAT = 0x1202, "stat";
    MAPEXT = 0x1203, "mapext";
    CHECKSUM = 0x121f, "checksum";
    MASKTRUNC = 0x1204, "masktrunc";
    SPARSE_READ = 0x1205, "sparse-read";
    NOTIFY = 0x1206, "notify";
    NOTIFY_ACK = 0x1207, "notify-ack";
    ASSERT_VER = 0x1208, "assert-version";
    LIST_WATCHERS = 0x1209, "list-watchers";
    LIST_SNAPS = 0x120a, "list-snaps";
    SYNC_READ = 0x120b, "sync_read";
    WRITE = 0x2201, "write";
    WRITEFULL = 0x2202, "writefull";
    TRUNCATE = 0x2203, "truncate";
    ZERO = 0x2204, "zero";
    DELETE = 0x2205, "delete";
    APPEND = 0x2206, "append";
    STARTSYNC = 0x2207, "startsync";
    SETTRUNC = 0x2208, "settrunc";
    TRIMTRUNC = 0x2209, "trimtrunc";
    TMAPUP = 0x320a, "tmapup";
    TMAPPUT = 0x220b, "tmapput";
    TMAPGET = 0x120c, "tmapget";
    CREATE = 0x220d, "create";
    ROLLBACK = 0x220e, "rollback";
    WATCH = 0x220f, "watch";
    OMAPGETKEYS = 0x1211, "omap-get-keys";
    OMAPGETVALS = 0x1212, "omap-get-vals";
    OMAPGETHEADER = 0x1213, "omap-get-header";
    OMAPGETVALSBYKEYS = 0x1214, "omap-get-vals-by-keys";
    OMAPSETVALS = 0x2215, "omap-set-vals";
    OMAPSETHEADER = 0x2216, "omap-set-header";
    OMAPCLEAR = 0x2217, "omap-clear";
    OMAPRMKEYS = 0x2218, "omap-rm-keys";
    OMAPRMKEYRANGE = 0x222c, "omap-rm-key-range";
    OMAP_CMP = 0x1219, "omap-cmp";
    COPY_FROM = 0x221a, "copy-from";
    COPY_FROM2 = 0x222d, "copy-from2";
    UNDIRTY = 0x221c, "undirty";
    ISDIRTY = 0x121d, "isdirty";
    COPY_GET = 0x121e, "copy-get";
    CACHE_FLUSH = 0x821f, "cache-flush";
    CACHE_EVICT = 0x8220, "cache-evict";
    CACHE_TRY_FLUSH = 0x8221, "cache-try-flush";
    TMAP2OMAP = 0x3222, "tmap2omap";
    SETALLOCHINT = 0x2223, "set-alloc-hint";
    CACHE_PIN = 0x2224, "cache-pin";
    CACHE_UNPIN = 0x2225, "cache-unpin";
    WRITESAME = 0x2226, "write-same";
    CMPEXT = 0x1220, "cmpext";
    SET_REDIRECT = 0x2227, "set-redirect";
    SET_CHUNK = 0x8228, "set-chunk";
    TIER_PROMOTE = 0x2229, "tier-promote";
    UNSET_MANIFEST = 0x222a, "unset-manifest";
    TIER_FLUSH = 0x822b, "tier-flush";
    TIER_EVICT = 0x822c, "tier-evict";
    GETXATTR = 0x1301, "getxattr";
    GETXATTRS = 0x1302, "getxattrs";
    CMPXATTR = 0x1303, "cmpxattr";
    SETXATTR = 0x2301, "setxattr";
    SETXATTRS = 0x2302, "setxattrs";
    RESETXATTRS = 0x2303, "resetxattrs";
    RMXATTR = 0x2304, "rmxattr";
    CALL = 0x1401, "call";
    PGLS = 0x1501, "pgls";
    PGLS_FILTER = 0x1502, "pgls-filter";
    PG_HITSET_LS = 0x1503, "pg-hitset-ls";
    PG_HITSET_GET = 0x1504, "pg-hitset-get";
    PGNLS = 0x1505, "pgnls";
    PGNLS_FILTER = 0x1506, "pgnls-filter";
    SCRUBLS = 0x1507, "scrubls";
}

impl OpCode {
    /// True if the operation only reads. Class calls may read or write: their method decides.
    pub fn reads(self) -> bool {
        self.0 & MODE_READ != 0 && !self.is_call()
    }

    /// True if the operation may write. False for class calls, whose method decides.
    pub fn writes(self) -> bool {
        self.0 & MODE_WRITE != 0
    }

    /// True for operations of cache tiering.
    pub fn is_cache(self) -> bool {
        self.0 & MODE_CACHE != 0
    }

    /// True for calls of object classes.
    pub fn is_call(self) -> bool {
        self.0 & TYPE_MASK == TYPE_EXEC
    }

    /// True for operations on attributes.
    pub fn is_attr(self) -> bool {
        self.0 & TYPE_MASK == TYPE_ATTR
    }

    /// True for operations on the placement group instead of an object.
    pub fn is_pg(self) -> bool {
        self.0 & TYPE_MASK == TYPE_PG
    }

    /// True if the arguments are an extent.
    pub fn uses_extent(self) -> bool {
        matches!(
            self,
            Self::READ
                | Self::MAPEXT
                | Self::MASKTRUNC
                | Self::SPARSE_READ
                | Self::SYNC_READ
                | Self::WRITE
                | Self::WRITEFULL
                | Self::TRUNCATE
                | Self::ZERO
                | Self::APPEND
                | Self::TRIMTRUNC
                | Self::CMPEXT
        )
    }
}

impl fmt::Display for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "operation {:#06x}", self.0),
        }
    }
}

impl fmt::Debug for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Flags of a request and of its reply (`CEPH_OSD_FLAG_*`).
pub mod request_flags {
    /// The sender wants (or the message is) an acknowledgement.
    pub const ACK: u32 = 0x1;
    /// `CEPH_OSD_FLAG_ONNVRAM`: obsolete.
    pub const ONNVRAM: u32 = 0x2;
    /// The effect is durable.
    pub const ONDISK: u32 = 0x4;
    /// The request is a resend.
    pub const RETRY: u32 = 0x8;
    /// May read.
    pub const READ: u32 = 0x10;
    /// May write.
    pub const WRITE: u32 = 0x20;
    /// Fails if the snapshot context is older than the object's.
    pub const ORDERSNAP: u32 = 0x40;
    /// May be read from any replica.
    pub const BALANCE_READS: u32 = 0x100;
    /// `CEPH_OSD_FLAG_PARALLELEXEC`: obsolete.
    pub const PARALLELEXEC: u32 = 0x200;
    /// Is about the placement group, not an object.
    pub const PGOP: u32 = 0x400;
    /// May call classes.
    pub const EXEC: u32 = 0x800;
    /// May be read from a near replica.
    pub const LOCALIZE_READS: u32 = 0x2000;
    /// The request waits for earlier reads as writes do.
    pub const RWORDERED: u32 = 0x4000;
    /// `CEPH_OSD_FLAG_IGNORE_CACHE`: for cache tiering; ignored.
    pub const IGNORE_CACHE: u32 = 0x8000;
    /// `CEPH_OSD_FLAG_SKIPRWLOCKS`: does not wait for other requests on the object.
    pub const SKIPRWLOCKS: u32 = 0x10000;
    /// `CEPH_OSD_FLAG_IGNORE_OVERLAY`: the client ignores cache tiers.
    pub const IGNORE_OVERLAY: u32 = 0x20000;
    /// `CEPH_OSD_FLAG_FLUSH`: for cache tiering; ignored.
    pub const FLUSH: u32 = 0x40000;
    /// `CEPH_OSD_FLAG_MAP_SNAP_CLONE`: the snapshot names a clone.
    pub const MAP_SNAP_CLONE: u32 = 0x80000;
    /// The given snapshot context is used even in pools with pool snapshots.
    pub const ENFORCE_SNAPC: u32 = 0x100000;
    /// `CEPH_OSD_FLAG_REDIRECTED`: the client follows a redirect.
    pub const REDIRECTED: u32 = 0x200000;
    /// `CEPH_OSD_FLAG_KNOWN_REDIR`: the client knows that the target is a redirect's.
    pub const KNOWN_REDIR: u32 = 0x400000;
    /// The request is tried although the cluster or pool is full.
    pub const FULL_TRY: u32 = 0x800000;
    /// The request is executed although the cluster or pool is full.
    pub const FULL_FORCE: u32 = 0x1000000;
    /// `CEPH_OSD_FLAG_IGNORE_REDIRECT`: the object is used itself, not what it redirects to.
    pub const IGNORE_REDIRECT: u32 = 0x2000000;
    /// Writes may return data, and positive results.
    pub const RETURNVEC: u32 = 0x4000000;
    /// The client understands pools that answer EIO.
    pub const SUPPORTSPOOLEIO: u32 = 0x8000000;
}

/// Flags of one operation (`CEPH_OSD_OP_FLAG_*`).
pub mod op_flags {
    /// `CREATE` fails if the object exists.
    pub const EXCL: u32 = 0x1;
    /// The request continues although this operation failed.
    pub const FAILOK: u32 = 0x2;
    /// Hint: access is random.
    pub const FADVISE_RANDOM: u32 = 0x4;
    /// Hint: access is sequential.
    pub const FADVISE_SEQUENTIAL: u32 = 0x8;
    /// Hint: the data is needed soon.
    pub const FADVISE_WILLNEED: u32 = 0x10;
    /// Hint: the data is not needed soon.
    pub const FADVISE_DONTNEED: u32 = 0x20;
    /// Hint: the data is not to be cached.
    pub const FADVISE_NOCACHE: u32 = 0x40;
    /// `CEPH_OSD_OP_FLAG_WITH_REFERENCE`: for deduplication; ignored.
    pub const WITH_REFERENCE: u32 = 0x80;
    /// `CEPH_OSD_OP_FLAG_BYPASS_CLEAN_CACHE`: reads data from the disk.
    pub const BYPASS_CLEAN_CACHE: u32 = 0x100;
}

/// Comparison of `CMPXATTR` and `OMAP_CMP` (`CEPH_OSD_CMPXATTR_OP_*`).
pub mod compare {
    /// Equal. `CMPXATTR` compares the given value with the stored one, `OMAP_CMP` the stored one with the
    /// given one.
    pub const EQ: u8 = 1;
    /// Not equal.
    pub const NE: u8 = 2;
    /// Greater.
    pub const GT: u8 = 3;
    /// Greater or equal.
    pub const GTE: u8 = 4;
    /// Less.
    pub const LT: u8 = 5;
    /// Less or equal.
    pub const LTE: u8 = 6;

    /// Type of the compared values (`CEPH_OSD_CMPXATTR_MODE_*`).
    pub const MODE_STRING: u8 = 1;
    /// Values are numbers: 64 bits in the operation, decimal text in the object.
    pub const MODE_U64: u8 = 2;
}

/// Actions of `WATCH` (`CEPH_OSD_WATCH_OP_*`).
pub mod watch_op {
    /// Ends a watch.
    pub const UNWATCH: u8 = 0;
    /// Begins a watch, as clients before Firefly do.
    pub const LEGACY_WATCH: u8 = 1;
    /// Begins a watch.
    pub const WATCH: u8 = 3;
    /// Continues a watch on a new session.
    pub const RECONNECT: u8 = 5;
    /// Shows that the watcher is alive.
    pub const PING: u8 = 7;
}

/// Flags of `COPY_FROM` (`CEPH_OSD_COPY_FROM_FLAG_*`).
pub mod copy_from_flags {
    /// Flushes the source from a cache tier first.
    pub const FLUSH: u8 = 1;
    /// The source's cache tiers are ignored.
    pub const IGNORE_OVERLAY: u8 = 2;
    /// The source's cache is ignored.
    pub const IGNORE_CACHE: u8 = 4;
    /// The snapshot names a clone.
    pub const MAP_SNAP_CLONE: u8 = 8;
    /// The read of the source waits for writes.
    pub const RWORDERED: u8 = 16;
    /// The input has a truncate sequence and size (`COPY_FROM2` only).
    pub const TRUNCATE_SEQ: u8 = 32;
}

/// Kinds of checksum that `CHECKSUM` computes (`CEPH_OSD_CHECKSUM_OP_TYPE_*`).
pub mod checksum_kind {
    /// xxHash, 32 bits.
    pub const XXHASH32: u8 = 0;
    /// xxHash, 64 bits.
    pub const XXHASH64: u8 = 1;
    /// crc32c, without inversions.
    pub const CRC32C: u8 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_modes() {
        assert_eq!(OpCode::READ.to_string(), "read");
        assert_eq!(OpCode(0x7777).to_string(), "operation 0x7777");
        assert!(OpCode::READ.reads() && !OpCode::READ.writes());
        assert!(OpCode::WRITEFULL.writes() && !OpCode::WRITEFULL.reads());
        assert!(OpCode::TMAPUP.writes() && OpCode::TMAPUP.reads());
        assert!(!OpCode::CALL.reads() && !OpCode::CALL.writes() && OpCode::CALL.is_call());
        assert!(OpCode::PGNLS.is_pg() && OpCode::GETXATTR.is_attr());
        assert!(OpCode::WRITE.uses_extent() && !OpCode::STAT.uses_extent());
    }
}
