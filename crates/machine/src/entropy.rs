//! Randomness from the kernel.

use anyhow::{Result, bail};

/// Fills a buffer with the kernel's entropy. At most 256 bytes are certain to be given at once.
fn fill_random(bytes: &mut [u8]) -> Result<()> {
    let got = rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty())?;
    if got < bytes.len() {
        bail!("the kernel gave {got} of {} random bytes", bytes.len());
    }
    Ok(())
}

/// Random bytes, such as a seed or a key.
pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    const { assert!(N <= 256, "more may be interrupted") }
    let mut bytes = [0; N];
    fill_random(&mut bytes)?;
    Ok(bytes)
}

/// A random number, such as a nonce.
pub fn random_u64() -> Result<u64> {
    Ok(u64::from_le_bytes(random_bytes()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_seeds_differ() {
        assert_ne!(random_bytes::<32>().unwrap(), random_bytes::<32>().unwrap());
        assert_ne!(random_u64().unwrap(), random_u64().unwrap());
    }
}
