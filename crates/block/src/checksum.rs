//! CRC-32C, the only checksum of the format.

/// CRC-32C as iSCSI and Ceph define it, initial value and final inversion included.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}
