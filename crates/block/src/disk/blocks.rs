//! Contents of blocks, sparse and shared between clones.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

const CHUNK: u64 = 64;

type Chunk = [Option<Bytes>; CHUNK as usize];

/// Written blocks by number. A clone costs one pointer per 64 blocks.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    chunks: BTreeMap<u64, Arc<Chunk>>,
}

impl Blocks {
    /// Content of a written block; `None` if it was never written.
    pub fn get(&self, block: u64) -> Option<&Bytes> {
        self.chunks.get(&(block / CHUNK))?[(block % CHUNK) as usize].as_ref()
    }

    /// Replaces the content, which must have [`BLOCK`](crate::device::BLOCK) bytes.
    pub fn set(&mut self, block: u64, content: Bytes) {
        let chunk = self.chunks.entry(block / CHUNK);
        let chunk = chunk.or_insert_with(|| Arc::new([const { None }; CHUNK as usize]));
        Arc::make_mut(chunk)[(block % CHUNK) as usize] = Some(content);
    }

    /// Written blocks of `start..end`, ascending.
    pub fn range(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &Bytes)> {
        let chunks = self.chunks.range(start / CHUNK..end.div_ceil(CHUNK));
        let blocks = chunks.flat_map(|(number, chunk)| {
            let contents = chunk.iter().enumerate();
            contents.filter_map(move |(at, content)| {
                Some((number * CHUNK + at as u64, content.as_ref()?))
            })
        });
        blocks.filter(move |(block, _)| (start..end).contains(block))
    }
}
