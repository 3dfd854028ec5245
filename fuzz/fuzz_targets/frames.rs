//! Frames in chunks of any length: never a panic, and the chunks do not matter.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::frame::{Decoder, Frame, FrameError};

fn decode(bytes: &[u8], chunk: usize) -> (usize, Option<FrameError>) {
    let mut decoder = Decoder::default();
    decoder.allow_messages();
    let mut frames: Vec<Frame> = Vec::new();
    for piece in bytes.chunks(chunk.max(1)) {
        let mut piece = Bytes::copy_from_slice(piece);
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames.len(), Some(error)),
            }
        }
    }
    (frames.len(), None)
}

fuzz_target!(|input: &[u8]| {
    let Some((chunk, bytes)) = input.split_first() else { return };
    let whole = decode(bytes, bytes.len());
    assert_eq!(decode(bytes, usize::from(*chunk)), whole);
    // Checksums hide what lies behind them, so frames are tried with the right ones too.
    if let Some(frame) = valid_frame(bytes) {
        decode(&frame, usize::from(*chunk));
    }
});

/// A frame of one segment with correct checksums: its first byte is the tag.
fn valid_frame(bytes: &[u8]) -> Option<Vec<u8>> {
    let (tag, segment) = bytes.split_first()?;
    let mut preamble = vec![*tag, 1];
    preamble.extend((segment.len() as u32).to_le_bytes());
    preamble.extend(8u16.to_le_bytes());
    preamble.resize(28, 0);
    preamble.extend(crc32c(0, &preamble).to_le_bytes());
    preamble.extend(segment);
    preamble.extend(crc32c(u32::MAX, segment).to_le_bytes());
    Some(preamble)
}

/// Ceph's crc32c: no final inversion.
fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}
