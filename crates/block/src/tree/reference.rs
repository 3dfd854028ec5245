//! References to pages, always with the expected checksum.

use codec::{Decode, Encode, Reader, Writer};

/// A page of the tree. Its checksum is stored here and not in the page, so that a stale or
/// misdirected page is detected, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRef {
    /// Number of the page: its block on the device of the metadata.
    pub page: u64,
    /// CRC-32C of the whole page.
    pub crc: u32,
}

impl PageRef {
    pub(super) const BYTES: usize = 12;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut raw = [0; Self::BYTES];
        raw[..8].copy_from_slice(&self.page.to_le_bytes());
        raw[8..].copy_from_slice(&self.crc.to_le_bytes());
        raw
    }

    /// Decodes the first [`PageRef::BYTES`] bytes, which the caller knows to be there.
    pub(super) fn from_bytes(raw: &[u8]) -> Self {
        let page = u64::from_le_bytes(raw[..8].try_into().expect("eight bytes"));
        let crc = u32::from_le_bytes(raw[8..12].try_into().expect("four bytes"));
        PageRef { page, crc }
    }
}

/// The top of a tree: of the whole one, or of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Top {
    /// The topmost page.
    pub page: PageRef,
    /// Levels of pages; one if the top is a leaf.
    pub height: u8,
}

impl Top {
    pub(super) const BYTES: usize = PageRef::BYTES + 1;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut raw = [0; Self::BYTES];
        raw[..PageRef::BYTES].copy_from_slice(&self.page.to_bytes());
        raw[PageRef::BYTES] = self.height;
        raw
    }

    pub(super) fn from_bytes(raw: &[u8]) -> Self {
        Top { page: PageRef::from_bytes(raw), height: raw[PageRef::BYTES] }
    }
}

/// The whole tree, as the superblock names it. An empty tree has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// The topmost page.
    pub page: PageRef,
    /// Levels of pages; one if the root is a leaf.
    pub height: u8,
    /// Maximum height that any layer below the first ever had.
    pub height_below: u8,
    /// Number of pairs in all layers.
    pub pairs: u64,
    /// Bytes of all keys and values.
    pub bytes: u64,
    /// Pages in use by the tree, overflow pages included.
    pub pages: u64,
    /// Inner pages among them.
    pub inner_pages: u64,
    /// Maximum length that a key in a page ever had, in bytes.
    pub longest: u16,
}

impl Root {
    pub(super) fn top(&self) -> Top {
        Top { page: self.page, height: self.height }
    }
}

impl Encode for Root {
    fn encode(&self, w: &mut Writer) {
        w.raw(&self.page.to_bytes());
        w.u8(self.height);
        w.u8(self.height_below);
        w.u64(self.pairs);
        w.u64(self.bytes);
        w.u64(self.pages);
        w.u64(self.inner_pages);
        w.u16(self.longest);
    }
}

impl Decode for Root {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        let page = PageRef { page: r.u64("root page")?, crc: r.u32("root crc")? };
        let at = *r;
        let height = r.u8("root height")?;
        if height == 0 {
            return Err(at.invalid("root height", 0));
        }
        Ok(Root {
            page,
            height,
            height_below: r.u8("height below")?,
            pairs: r.u64("root pairs")?,
            bytes: r.u64("root bytes")?,
            pages: r.u64("root pages")?,
            inner_pages: r.u64("root inner pages")?,
            longest: r.u16("longest key")?,
        })
    }
}

/// Place of a value that does not fit beside its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// First page.
    pub page: u64,
    /// Number of adjacent pages.
    pub pages: u32,
    /// CRC-32C of all of its pages.
    pub crc: u32,
}

impl Run {
    pub(super) const BYTES: usize = 16;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut raw = [0; Self::BYTES];
        raw[..8].copy_from_slice(&self.page.to_le_bytes());
        raw[8..12].copy_from_slice(&self.pages.to_le_bytes());
        raw[12..].copy_from_slice(&self.crc.to_le_bytes());
        raw
    }

    pub(super) fn from_bytes(raw: &[u8]) -> Self {
        Run {
            page: u64::from_le_bytes(raw[..8].try_into().expect("eight bytes")),
            pages: u32::from_le_bytes(raw[8..12].try_into().expect("four bytes")),
            crc: u32::from_le_bytes(raw[12..16].try_into().expect("four bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_survives_its_bytes_and_not_their_truncation() {
        let root = Root {
            page: PageRef { page: 77, crc: 0xfeed },
            height: 3,
            height_below: 2,
            pairs: 1000,
            bytes: 1 << 40,
            pages: 99,
            inner_pages: 7,
            longest: 60,
        };
        let mut w = Writer::new();
        root.encode(&mut w);
        assert_eq!(Root::decode(&mut Reader::new(w.as_slice())), Ok(root));
        for length in 0..w.len() {
            assert!(Root::decode(&mut Reader::new(&w.as_slice()[..length])).is_err());
        }
    }
}
