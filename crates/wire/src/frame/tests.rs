//! Frames out, frames in: every cut, every bit, both modes.

use super::layout::{EPILOGUE_CRC_LENGTH, STATUS_ABORTED};
use super::*;
use bytes::{Bytes, BytesMut};
use codec::encode_to_bytes;
use proptest::prelude::*;
use types::{EntityAddr, EntityAddrVec, EntityType, UTime};

/// A stand-in for AES-GCM that notices every change and every change of order.
struct Masking {
    counter: u8,
}

impl Masking {
    fn boxed() -> Box<dyn FrameCipher> {
        Box::new(Masking { counter: 7 })
    }

    fn tag(&mut self, plain: &[u8]) -> [u8; CIPHER_TAG_LENGTH] {
        self.counter = self.counter.wrapping_add(1);
        let mut tag = [self.counter; CIPHER_TAG_LENGTH];
        tag[..4].copy_from_slice(&crc32c(plain).to_le_bytes());
        tag
    }
}

impl FrameCipher for Masking {
    fn seal(&mut self, unit: &mut [u8]) -> [u8; CIPHER_TAG_LENGTH] {
        let tag = self.tag(unit);
        unit.iter_mut().for_each(|byte| *byte ^= 0x55);
        tag
    }

    fn open(&mut self, unit: &mut [u8], tag: &[u8; CIPHER_TAG_LENGTH]) -> bool {
        unit.iter_mut().for_each(|byte| *byte ^= 0x55);
        self.tag(unit) == *tag
    }
}

fn encoder(secure: bool) -> Encoder {
    let mut encoder = Encoder::default();
    if secure {
        encoder.secure(Masking::boxed());
    }
    encoder
}

fn decoder(secure: bool) -> Decoder {
    let mut decoder = Decoder::default();
    decoder.allow_messages();
    if secure {
        decoder.secure(Masking::boxed());
    }
    decoder
}

fn encode(frames: &[Frame], secure: bool) -> Vec<Bytes> {
    let (mut encoder, mut pieces) = (encoder(secure), Vec::new());
    for frame in frames {
        match frame {
            Frame::Control(control) => encoder.control(control),
            Frame::Message { header, front, middle, data } => {
                encoder.message(header, [front, middle, data], &mut pieces);
            }
        }
    }
    encoder.flush(&mut pieces);
    pieces
}

fn decode(decoder: &mut Decoder, mut chunk: Bytes) -> Result<Vec<Frame>, FrameError> {
    let mut frames = Vec::new();
    while let Some(frame) = decoder.decode(&mut chunk)? {
        frames.push(frame);
    }
    assert!(chunk.is_empty());
    Ok(frames)
}

fn message(front: usize, middle: usize, data: usize) -> Frame {
    let header = MessageHeader { seq: 3, tid: 9, kind: 42, priority: 127, ..Default::default() };
    let fill = |length: usize, byte: u8| Bytes::from(vec![byte; length]);
    Frame::Message { header, front: fill(front, 1), middle: fill(middle, 2), data: fill(data, 3) }
}

fn controls() -> Vec<Control> {
    let addr: EntityAddr = "v2:10.0.0.1:6800/77".parse().unwrap();
    let addrs = EntityAddrVec(vec![addr, "v1:10.0.0.1:6801/77".parse().unwrap()]);
    let payload = Bytes::from_static(b"some authentication payload that is longer than inline");
    let stamp = UTime { seconds: 5, nanoseconds: 6 };
    vec![
        Control::Hello { kind: EntityType::OSD, peer_addr: addr },
        Control::AuthRequest { method: 2, preferred_modes: vec![2, 1], payload: payload.clone() },
        Control::AuthBadMethod {
            method: 1,
            result: -95,
            allowed_methods: vec![2],
            allowed_modes: vec![1, 2],
        },
        Control::AuthReplyMore { payload: payload.clone() },
        Control::AuthRequestMore { payload: Bytes::new() },
        Control::AuthDone { global_id: 4123, mode: 2, payload },
        Control::AuthSignature { signature: [9; SIGNATURE_LENGTH] },
        Control::ClientIdent(ClientIdent {
            addrs: addrs.clone(),
            target: addr,
            number: -1,
            global_seq: 2,
            supported_features: 3,
            required_features: 4,
            flags: CONNECT_FLAG_LOSSY,
            cookie: 5,
        }),
        Control::ServerIdent(ServerIdent {
            addrs: addrs.clone(),
            number: 0,
            global_seq: 2,
            supported_features: 3,
            required_features: 4,
            flags: 0,
            cookie: 5,
        }),
        Control::IdentMissingFeatures { features: 1 << 59 },
        Control::SessionReconnect(Reconnect {
            addrs,
            client_cookie: 1,
            server_cookie: 2,
            global_seq: 3,
            connect_seq: 4,
            message_seq: 5,
        }),
        Control::SessionReset { full: true },
        Control::SessionRetry { connect_seq: 1 },
        Control::SessionRetryGlobal { global_seq: 2 },
        Control::SessionReconnectOk { message_seq: 3 },
        Control::Wait,
        Control::Keepalive2 { stamp },
        Control::Keepalive2Ack { stamp },
        Control::Ack { seq: 8 },
        Control::CompressionRequest { wanted: true, methods: vec![1] },
        Control::CompressionDone { agreed: false, method: 0 },
    ]
}

/// All control frames, and messages with every combination of empty and long segments.
fn samples() -> Vec<Frame> {
    let mut frames: Vec<Frame> = controls().into_iter().map(Frame::Control).collect();
    for lengths in 0..8 {
        let length = |bit: usize, length: usize| if lengths & bit == 0 { 0 } else { length };
        frames.push(message(length(1, 70), length(2, 5), length(4, 2000)));
    }
    frames
}

#[test]
fn frames_survive_any_cut() {
    for secure in [false, true] {
        let frames = samples();
        let bytes = Bytes::from(encode(&frames, secure).concat());
        for step in [1, 7, 32, 97, 1000, bytes.len()] {
            let mut decoder = decoder(secure);
            let chunks = (0..bytes.len()).step_by(step);
            let decoded: Vec<Frame> = chunks
                .flat_map(|at| {
                    let chunk = bytes.slice(at..bytes.len().min(at + step));
                    decode(&mut decoder, chunk).unwrap()
                })
                .collect();
            assert_eq!(decoded, frames, "secure {secure}, chunks of {step}");
        }
    }
}

#[test]
fn every_flipped_bit_is_an_error_or_a_wait() {
    for secure in [false, true] {
        let frames = [message(70, 0, 300), Frame::Control(controls()[5].clone())];
        let bytes = encode(&frames, secure).concat();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match decode(&mut decoder(secure), Bytes::from(flipped)) {
                Err(_) => {}
                // The reserved half of the status byte and the crcs of absent segments.
                Ok(decoded) => assert!(!secure && decoded == frames, "bit {bit}"),
            }
        }
    }
}

#[test]
fn data_in_one_chunk_is_a_slice_of_it() {
    let bytes = Bytes::from(encode(&[message(100, 0, 9000)], false).concat());
    let frame = decode(&mut decoder(false), bytes.clone()).unwrap().remove(0);
    let Frame::Message { data, .. } = frame else { panic!("a message was sent") };
    assert!(bytes.as_ptr_range().contains(&data.as_ptr()));
}

#[test]
fn long_data_is_sent_by_reference_and_short_data_beside_the_header() {
    let long = message(100, 0, 9000);
    let Frame::Message { data, .. } = &long else { panic!("a message") };
    let pieces = encode(std::slice::from_ref(&long), false);
    assert_eq!(pieces.len(), 3);
    assert_eq!(pieces[1].as_ptr(), data.as_ptr());
    let short: Vec<Frame> = (0..40).map(|_| message(100, 0, 50)).collect();
    assert_eq!(encode(&short, false).len(), 1);
}

#[test]
fn a_large_body_is_received_into_one_aligned_buffer() {
    for secure in [false, true] {
        let frames = [message(133, 3, 1 << 20), message(1, 0, 0)];
        let bytes = Bytes::from(encode(&frames, secure).concat());
        let mut decoder = decoder(secure);
        assert!(decode(&mut decoder, bytes.slice(..5000)).unwrap().is_empty());
        let lacking = decoder.direct_length().unwrap();
        let mut buffer = decoder.take_gathered();
        assert!(buffer.capacity() - buffer.len() >= lacking);
        let address = buffer.as_ptr();
        // A host may have received more than the hint.
        buffer.extend_from_slice(&bytes[5000..]);
        let surplus = decoder.put_gathered(buffer);
        assert_eq!(surplus.len(), bytes.len() - 5000 - lacking);
        let mut decoded = decode(&mut decoder, Bytes::new()).unwrap();
        let Frame::Message { data, .. } = &decoded[0] else { panic!("a message") };
        assert_eq!(data.as_ptr() as usize % 4096, 0);
        assert!((data.as_ptr() as usize).abs_diff(address as usize) < 8192);
        decoded.extend(decode(&mut decoder, surplus).unwrap());
        assert_eq!(decoded, frames);
    }
}

#[test]
fn an_aborted_frame_is_skipped() {
    let frames = [message(70, 0, 300), message(1, 0, 2)];
    let first_length = encode(&frames[..1], false).concat().len();
    let mut bytes = encode(&frames, false).concat();
    bytes[first_length - EPILOGUE_CRC_LENGTH] = 0xe0 | STATUS_ABORTED;
    assert_eq!(decode(&mut decoder(false), Bytes::from(bytes)).unwrap(), frames[1..]);
}

#[test]
fn a_message_before_its_time_is_refused_at_its_preamble() {
    let bytes = encode(&[message(70, 0, 1 << 20)], false).concat();
    let mut chunk = Bytes::from(bytes).slice(..PREAMBLE_LENGTH);
    assert_eq!(Decoder::default().decode(&mut chunk), Err(FrameError::EarlyMessage));
}

#[test]
fn payloads_reject_every_truncation() {
    for control in controls() {
        let mut w = codec::Writer::new();
        control.encode_payload(&mut w);
        let bytes = w.as_slice();
        assert_eq!(Control::decode(control.tag(), bytes).unwrap(), control);
        for end in 0..bytes.len() {
            assert!(Control::decode(control.tag(), &bytes[..end]).is_err(), "{control:?} {end}");
        }
    }
    let header = encode_to_bytes(&MessageHeader::default());
    assert_eq!(header.len(), MESSAGE_HEADER_LENGTH);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>, tag in 0..30u8, secure: bool) {
        let _ = decode(&mut decoder(secure), Bytes::from(bytes.clone()));
        let mut head = [0; PREAMBLE_LENGTH];
        head[..2].copy_from_slice(&[tag, 1]);
        if let Ok(preamble) = Preamble::decode(&head) {
            let _ = Control::decode(preamble.tag, &bytes);
        }
    }

    #[test]
    fn random_payloads_never_panic(bytes: Vec<u8>, index in 0..21usize) {
        let tag = controls()[index].tag();
        let _ = Control::decode(tag, &bytes);
    }

    #[test]
    fn messages_round_trip(
        front in 0..3000usize, middle in 0..40usize, data in 0..70_000usize,
        cut in 0..80_000usize, secure: bool,
    ) {
        let frames = [message(front, middle, data), message(0, 0, front)];
        let bytes = Bytes::from(encode(&frames, secure).concat());
        let cut = cut.min(bytes.len());
        let mut decoder = decoder(secure);
        let mut decoded = decode(&mut decoder, bytes.slice(..cut)).unwrap();
        decoded.extend(decode(&mut decoder, BytesMut::from(&bytes[cut..]).freeze()).unwrap());
        prop_assert_eq!(&decoded[..], &frames[..]);
    }
}
