//! The hash of object names that decides placement (`ceph_str_hash`).

/// `CEPH_STR_HASH_LINUX`
pub const LINUX: u8 = 1;
/// `CEPH_STR_HASH_RJENKINS`, the hash of all pools of the last decade.
pub const RJENKINS: u8 = 2;

/// Separates a namespace from the name behind it.
const NAMESPACE_SEPARATOR: u8 = 0x1f;

/// Hashes with a pool's kind of hash; an unknown kind maps everything to one value, as in Ceph.
pub fn name_hash(kind: u8, bytes: &[u8]) -> u32 {
    match kind {
        LINUX => linux(bytes),
        RJENKINS => rjenkins(bytes),
        _ => u32::MAX,
    }
}

/// Hashes a locator key or object name within its namespace.
pub fn object_hash(kind: u8, namespace: &[u8], key: &[u8]) -> u32 {
    if namespace.is_empty() {
        return name_hash(kind, key);
    }
    let mut full = Vec::with_capacity(namespace.len() + 1 + key.len());
    full.extend_from_slice(namespace);
    full.push(NAMESPACE_SEPARATOR);
    full.extend_from_slice(key);
    name_hash(kind, &full)
}

/// Robert Jenkins' 1996 hash (<http://burtleburtle.net/bob/hash/evahash.html>).
pub fn rjenkins(bytes: &[u8]) -> u32 {
    const GOLDEN_RATIO: u32 = 0x9e37_79b9;
    let mut state = [GOLDEN_RATIO, GOLDEN_RATIO, 0];
    let mut blocks = bytes.chunks_exact(12);
    for block in &mut blocks {
        add_words(&mut state, block);
        mix(&mut state);
    }
    // The lowest byte of the last word holds the length; the tail follows behind it.
    let tail = blocks.remainder();
    let mut last = [0; 12];
    let head = tail.len().min(8);
    last[..head].copy_from_slice(&tail[..head]);
    if tail.len() > 8 {
        last[9..tail.len() + 1].copy_from_slice(&tail[8..]);
    }
    add_words(&mut state, &last);
    state[2] = state[2].wrapping_add(bytes.len() as u32);
    mix(&mut state);
    state[2]
}

fn add_words(state: &mut [u32; 3], block: &[u8]) {
    for (word, raw) in state.iter_mut().zip(block.chunks_exact(4)) {
        *word = word.wrapping_add(u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]));
    }
}

fn mix(state: &mut [u32; 3]) {
    let [a, b, c] = state;
    for (x, y, z) in [(13, 8, 13), (12, 16, 5), (3, 10, 15)] {
        *a = a.wrapping_sub(*b).wrapping_sub(*c) ^ (*c >> x);
        *b = b.wrapping_sub(*c).wrapping_sub(*a) ^ (*a << y);
        *c = c.wrapping_sub(*a).wrapping_sub(*b) ^ (*b >> z);
    }
}

/// The Linux directory cache's former hash.
fn linux(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |hash: u32, byte| {
        // Ceph hashes `char`s into `unsigned char`: no sign extension.
        let c = u32::from(*byte);
        hash.wrapping_add(c << 4).wrapping_add(c >> 4).wrapping_mul(11)
    })
}
