//! Objects in a stream of bytes, for export and import.
//!
//! ```text
//! stream      "sepiola objects 1\n", then frames
//! frame       kind (u8), length of the payload (u32), payload, CRC-32C of all before (u32)
//! ```
//!
//! | kind | payload |
//! |---|---|
//! | 1 collection | the collection; the objects that follow are in it |
//! | 2 object | name, size (u64), attributes; data and omap that follow are its |
//! | 3 data | offset (u64), bytes; what is in no such frame is holes |
//! | 4 omap header | bytes |
//! | 5 omap pairs | pairs, in key order from frame to frame |
//! | 6 end | number of objects (u64); a stream without it is cut off |
//! | 7 shard | as 1, of a shard: versions that do not know shards refuse it, and would misread 1 |
//! | 8 held change | version, blob with the list of changes, data of its writes one after another |
//!
//! Numbers are little-endian; names, maps and blobs are encoded as on the wire.

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Writer};
use crc_fast::crc32_iscsi;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use store::{Change, Collection, join_held, split_held};
use types::{EVersion, HObject};

const MAGIC: &[u8; 18] = b"sepiola objects 1\n";
/// Kind and length.
const HEAD_LEN: usize = 5;
const CRC_LEN: usize = 4;
/// No frame is larger: data and omap come in pages, but one value may be large.
const PAYLOAD_LEN_MAX: u32 = 256 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Collection(Collection),
    Object { name: HObject, size: u64, attrs: BTreeMap<Bytes, Bytes> },
    Data { offset: u64, data: Bytes },
    OmapHeader(Bytes),
    OmapPairs(BTreeMap<Bytes, Bytes>),
    End { objects: u64 },
    Held { version: EVersion, changes: Vec<Change> },
}

impl Encode for Frame {
    fn encode(&self, w: &mut Writer) {
        match self {
            Frame::Collection(collection) => w.value(collection),
            Frame::Object { name, size, attrs } => {
                w.value(name);
                w.u64(*size);
                w.value(attrs);
            }
            Frame::Data { offset, data } => {
                w.u64(*offset);
                w.raw(data);
            }
            Frame::OmapHeader(header) => w.raw(header),
            Frame::OmapPairs(pairs) => w.value(pairs),
            Frame::End { objects } => w.u64(*objects),
            Frame::Held { version, changes } => {
                w.value(version);
                let mut fields = Writer::new();
                let data = split_held(changes, &mut fields);
                w.blob(fields.as_slice());
                data.iter().for_each(|data| w.raw(data));
            }
        }
    }
}

impl Frame {
    fn kind(&self) -> u8 {
        match self {
            Frame::Collection(collection) if collection.is_shard() => 7,
            Frame::Collection(_) => 1,
            Frame::Object { .. } => 2,
            Frame::Data { .. } => 3,
            Frame::OmapHeader(_) => 4,
            Frame::OmapPairs(_) => 5,
            Frame::End { .. } => 6,
            Frame::Held { .. } => 8,
        }
    }

    fn decode(kind: u8, payload: &Bytes) -> codec::Result<Frame> {
        let mut r = Reader::new(payload);
        let frame = match kind {
            1 | 7 => Frame::Collection(decode_collection(&mut r, kind == 7)?),
            2 => {
                let (name, size) = (r.value()?, r.u64("size")?);
                Frame::Object { name, size, attrs: BTreeMap::decode(&mut r)? }
            }
            3 => {
                let offset = r.u64("offset")?;
                let data = payload.slice(r.offset()..);
                r.rest();
                Frame::Data { offset, data }
            }
            4 => {
                r.rest();
                Frame::OmapHeader(payload.clone())
            }
            5 => Frame::OmapPairs(BTreeMap::decode(&mut r)?),
            6 => Frame::End { objects: r.u64("objects")? },
            8 => {
                let version = r.value()?;
                let mut fields = Reader::new(r.blob("held changes")?);
                let data = payload.slice(r.offset()..);
                let changes = join_held(&mut fields, &data)?;
                fields.finish("held changes")?;
                let used: u64 = changes.iter().map(Change::data_len).sum();
                r.skip("held data", used as usize)?;
                Frame::Held { version, changes }
            }
            other => return Err(r.invalid("frame", other.into())),
        };
        r.finish("frame")?;
        Ok(frame)
    }
}

fn decode_collection(r: &mut Reader<'_>, is_shard: bool) -> codec::Result<Collection> {
    let at = *r;
    let collection: Collection = r.value()?;
    match collection.is_shard() == is_shard {
        true => Ok(collection),
        false => Err(at.invalid("collection", collection.0.shard.number() as u64)),
    }
}

pub(crate) struct StreamWriter<W> {
    output: W,
}

impl<W: Write> StreamWriter<W> {
    pub(crate) fn new(mut output: W) -> io::Result<Self> {
        output.write_all(MAGIC)?;
        Ok(StreamWriter { output })
    }

    pub(crate) fn write(&mut self, frame: &Frame) -> Result<()> {
        let mut w = Writer::new();
        w.u8(frame.kind());
        w.u32(0);
        w.value(frame);
        let length = w.len() - HEAD_LEN;
        let fits = u32::try_from(length).ok().filter(|length| *length <= PAYLOAD_LEN_MAX);
        w.patch_u32(1, fits.with_context(|| format!("{length} bytes are too much for a frame"))?);
        w.u32(crc32_iscsi(w.as_slice()));
        Ok(self.output.write_all(w.as_slice())?)
    }

    pub(crate) fn finish(mut self, objects: u64) -> Result<()> {
        self.write(&Frame::End { objects })?;
        Ok(self.output.flush()?)
    }
}

pub(crate) struct StreamReader<R> {
    input: R,
    /// Where the next frame begins, for errors.
    offset: u64,
}

impl<R: Read> StreamReader<R> {
    pub(crate) fn new(mut input: R) -> Result<Self> {
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic).context("reading the begin of the stream")?;
        ensure!(magic == *MAGIC, "this is not a stream of exported objects");
        Ok(StreamReader { input, offset: MAGIC.len() as u64 })
    }

    pub(crate) fn read(&mut self) -> Result<Frame> {
        let at = self.offset;
        self.read_frame().with_context(|| format!("the frame at {at}"))
    }

    fn read_frame(&mut self) -> Result<Frame> {
        let mut head = [0; HEAD_LEN];
        self.input.read_exact(&mut head).context("the stream is cut off")?;
        let length = u32::from_le_bytes(head[1..].try_into().expect("four bytes"));
        ensure!(length <= PAYLOAD_LEN_MAX, "a length of {length} bytes");
        let rest = u64::from(length) + CRC_LEN as u64;
        // Memory is taken as bytes arrive: a wrong length costs nothing.
        let mut raw = head.to_vec();
        let got = self.input.by_ref().take(rest).read_to_end(&mut raw)?;
        ensure!(got as u64 == rest, "the stream is cut off");
        let (frame, crc) = raw.split_at(raw.len() - CRC_LEN);
        if crc32_iscsi(frame).to_le_bytes() != crc {
            bail!("wrong checksum");
        }
        self.offset += raw.len() as u64;
        let end = raw.len() - CRC_LEN;
        Ok(Frame::decode(head[0], &Bytes::from(raw).slice(HEAD_LEN..end))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<Frame> {
        let pair = (Bytes::from("key"), Bytes::from("value"));
        vec![
            Frame::Collection(Collection::default()),
            Frame::Object {
                name: HObject { name: Bytes::from("object"), ..HObject::default() },
                size: 9000,
                attrs: BTreeMap::from([pair.clone()]),
            },
            Frame::Data { offset: 4096, data: Bytes::from(vec![7; 100]) },
            Frame::OmapHeader(Bytes::from("header")),
            Frame::OmapPairs(BTreeMap::from([pair])),
            Frame::Collection(Collection("2.1fs3".parse().unwrap())),
        ]
    }

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::new(&mut bytes).unwrap();
        frames().iter().for_each(|frame| writer.write(frame).unwrap());
        writer.finish(1).unwrap();
        bytes
    }

    fn read_all(bytes: &[u8]) -> Result<Vec<Frame>> {
        let mut reader = StreamReader::new(bytes)?;
        let mut frames = Vec::new();
        loop {
            match reader.read()? {
                Frame::End { .. } => return Ok(frames),
                frame => frames.push(frame),
            }
        }
    }

    #[test]
    fn a_shard_is_no_frame_that_older_versions_take_for_a_replicated_group() {
        let (replicated, shard) = (&frames()[0], &frames()[5]);
        assert_eq!((replicated.kind(), shard.kind()), (1, 7));
        for (frame, wrong) in [(replicated, 7), (shard, 1)] {
            let payload = codec::encode_to_bytes(frame);
            assert_eq!(&Frame::decode(frame.kind(), &payload).unwrap(), frame);
            assert!(Frame::decode(wrong, &payload).is_err());
        }
    }

    /// Streams of earlier versions have these frames.
    #[test]
    fn the_frame_of_a_held_change_stays_what_it_is() {
        let object = HObject { name: "rows".into(), hash: 0x1234_5678, ..HObject::default() };
        let write = Change::Write { object: object.clone(), offset: 8192, data: "data".into() };
        let changes = vec![write, Change::Truncate { object, size: 4096 }];
        let frame = Frame::Held { version: EVersion::new(3, 9), changes };
        let payload = codec::encode_to_bytes(&frame);
        let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            concat!(
                "0900000000000000030000007000000002000000030403250000000000000004000000726f7773000000",
                "000000000078563412000000000000000000000000000020000000000000040000000504032500000000",
                "00000004000000726f777300000000000000007856341200000000000000000000000000001000000000",
                "000064617461"
            )
        );
        assert_eq!(Frame::decode(8, &payload).unwrap(), frame);
        assert!(Frame::decode(8, &[&payload[..], &[0]].concat().into()).is_err(), "more data");
    }

    #[test]
    fn a_stream_reads_back() {
        assert_eq!(read_all(&written()).unwrap(), frames());
    }

    #[test]
    fn a_stream_that_is_cut_off_or_changed_anywhere_is_an_error() {
        let bytes = written();
        for at in 0..bytes.len() {
            assert!(read_all(&bytes[..at]).is_err(), "cut off at {at}");
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(read_all(&changed).is_err(), "changed at {at}");
        }
    }
}
