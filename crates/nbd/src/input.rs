//! Received bytes that have not been parsed: a queue of slices.

use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Input {
    chunks: VecDeque<Bytes>,
    length: usize,
}

impl Input {
    /// Number of bytes in the queue.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Appends bytes; empty ones are dropped.
    pub fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.length += bytes.len();
            self.chunks.push_back(bytes);
        }
    }

    /// The next `length` bytes, if they have arrived: a slice of a received buffer, or a copy where they came
    /// in pieces.
    pub fn take(&mut self, length: usize) -> Option<Bytes> {
        if length > self.length {
            return None;
        }
        let first = match self.chunks.front_mut() {
            Some(first) if first.len() > length => Some(first.split_to(length)),
            Some(first) if first.len() == length => self.chunks.pop_front(),
            _ => None,
        };
        self.length -= length;
        Some(first.unwrap_or_else(|| self.gather(length)))
    }

    fn gather(&mut self, mut length: usize) -> Bytes {
        let mut gathered = BytesMut::with_capacity(length);
        while length > 0
            && let Some(first) = self.chunks.front_mut()
        {
            let part = length.min(first.len());
            gathered.extend_from_slice(&first[..part]);
            first.advance(part);
            length -= part;
            if first.is_empty() {
                self.chunks.pop_front();
            }
        }
        gathered.freeze()
    }

    /// A fixed number of bytes, which stay in the queue.
    pub fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        if self.length < N {
            return None;
        }
        let mut found = [0; N];
        let bytes = self.chunks.iter().flatten();
        found.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        Some(found)
    }

    /// Discards at most `length` bytes; returns the number discarded.
    pub fn discard(&mut self, length: u64) -> u64 {
        let now = length.min(self.length as u64);
        self.take(now as usize);
        now
    }

    /// Moves everything into a buffer with room for `length` bytes.
    pub fn drain_into_buffer(&mut self, length: usize) -> BytesMut {
        let mut buffer = BytesMut::with_capacity(length);
        for chunk in self.chunks.drain(..) {
            buffer.extend_from_slice(&chunk);
        }
        self.length = 0;
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_in_one_piece_is_not_copied() {
        let mut input = Input::default();
        let chunk = Bytes::from(vec![7; 100]);
        input.push(chunk.clone());
        assert_eq!(input.take(40).unwrap().as_ptr(), chunk.as_ptr());
        assert_eq!(input.take(60).unwrap().as_ptr(), chunk[40..].as_ptr());
        assert_eq!((input.len(), input.take(1)), (0, None));
    }

    #[test]
    fn what_came_in_pieces_is_put_together() {
        let mut input = Input::default();
        for piece in [&b"ab"[..], b"", b"c", b"def"] {
            input.push(Bytes::copy_from_slice(piece));
        }
        assert_eq!(input.peek::<4>(), Some(*b"abcd"));
        assert_eq!(input.take(4).unwrap(), "abcd");
        assert_eq!((input.discard(1), input.discard(5)), (1, 1));
        assert_eq!(input.peek::<1>(), None);
    }
}
