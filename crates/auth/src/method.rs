//! Numbers of authentication methods and connection modes, as both ends of a connection exchange them.

/// `CEPH_AUTH_NONE`: names are believed.
pub const METHOD_NONE: u32 = 1;
/// `CEPH_AUTH_CEPHX`: names are proven by keys or tickets.
pub const METHOD_CEPHX: u32 = 2;

/// `CEPH_CON_MODE_CRC`: frames carry checksums.
pub const MODE_CRC: u32 = 1;
/// `CEPH_CON_MODE_SECURE`: frames are encrypted.
pub const MODE_SECURE: u32 = 2;
