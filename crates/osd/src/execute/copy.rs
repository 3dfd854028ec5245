//! Copies of whole objects: reading pieces (`COPY_GET`), and becoming a copy (`COPY_FROM`).

use super::context::{AttrDelta, Context, Stop};
use super::view::pairs_cost;
use super::view::{Answer, CopiedObject, CopyRequest, Need};
use super::{omap, read, xattr};
use crate::limits;
use bytes::Bytes;
use codec::{Reader, Writer};
use pg::user_attr;
use store::Change;
use types::{Errno, HObject};
use wire::OsdOp;
use wire::copy::{CopyCursor, CopyData, CopySource};
use wire::op::{OpCode, copy_from_flags, request_flags};

/// Flags of `COPY_FROM2` that are known.
const COPY_FROM_FLAGS: u8 = copy_from_flags::FLUSH
    | copy_from_flags::IGNORE_OVERLAY
    | copy_from_flags::IGNORE_CACHE
    | copy_from_flags::MAP_SNAP_CLONE
    | copy_from_flags::RWORDERED
    | copy_from_flags::TRUNCATE_SEQ;

/// The source of a copy. The caller, which knows the pool, must compute its hash.
pub(crate) fn copy_source(op: &OsdOp) -> codec::Result<HObject> {
    let CopySource { object, locator, .. } = Reader::new(&op.input).value()?;
    let source = HObject::head(locator.pool, locator.namespace, locator.key, object, 0);
    Ok(HObject { snap: op.copy_from_arguments().snap, ..source })
}

pub(super) fn copy_get(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let mut r = Reader::new(&op.input);
    let mut cursor: CopyCursor = r.value()?;
    let mut left = r.u64("copy length")?.min(limits::COPY_CHUNK_MAX);
    let info = context.info.clone();
    let mut piece = CopyData {
        size: info.size,
        mtime: info.mtime,
        truncate_seq: info.truncate_seq.into(),
        truncate_size: info.truncate_size,
        ..CopyData::default()
    };
    if !cursor.attrs_complete {
        piece.attrs = xattr::stored_xattrs(context)?.clone();
        context.count_built(pairs_cost(&piece.attrs));
        cursor.attrs_complete = true;
    }
    if !cursor.data_complete {
        let length = left.min(info.size.saturating_sub(cursor.data_offset));
        if length > 0 {
            context.count_built(length);
            piece.data = read::load_data(context, cursor.data_offset, length)?.data.clone();
        }
        cursor.data_offset += length;
        cursor.data_complete = cursor.data_offset >= info.size;
        left -= length;
    }
    if !info.has_omap {
        cursor.omap_complete = true;
    } else if left > 0 && cursor.data_complete && !cursor.omap_complete {
        copy_omap(context, &mut piece, &mut cursor)?;
    }
    context.check_allowance()?;
    piece.cursor = cursor;
    context.output = codec::encode_to_bytes(&piece);
    Ok(context.result)
}

fn copy_omap(
    context: &mut Context<'_>,
    piece: &mut CopyData,
    cursor: &mut CopyCursor,
) -> Result<(), Stop> {
    if cursor.omap_offset.is_empty() {
        piece.omap_header = omap::stored_omap_header(context)?;
    }
    let after = cursor.omap_offset.clone();
    let page = omap::omap_page(context, after, Bytes::new(), limits::OMAP_ENTRIES_PER_REQUEST_MAX)?;
    let Some(page) = page else {
        cursor.omap_complete = true;
        return Ok(());
    };
    if let Some((last, _)) = page.pairs.last_key_value() {
        let mut w = Writer::new();
        w.value(&page.pairs);
        piece.omap = w.into_bytes();
        cursor.omap_offset = last.clone();
    }
    cursor.omap_complete = !page.more;
    Ok(())
}

pub(super) fn copy_from(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let arguments = op.copy_from_arguments();
    if op.code == OpCode::COPY_FROM2 && arguments.flags & !COPY_FROM_FLAGS != 0 {
        return Err(Errno::INVAL.into());
    }
    let source: CopySource = Reader::new(&op.input).value()?;
    let truncate = match op.code == OpCode::COPY_FROM2
        && arguments.flags & copy_from_flags::TRUNCATE_SEQ != 0
    {
        true => Some(source.truncate.ok_or(Stop::from(Errno::INVAL))?),
        false => None,
    };
    let rwordered = arguments.flags & copy_from_flags::RWORDERED != 0;
    let name = copy_source(op)?;
    let own = context.input.object;
    if (name.pool, &name.namespace, &name.key, &name.name, name.snap)
        == (own.pool, &own.namespace, &own.key, &own.name, own.snap)
    {
        return Err(Errno::INVAL.into());
    }
    let request = CopyRequest {
        source: name,
        version: arguments.source_version,
        request_flags: if rwordered { request_flags::RWORDERED } else { 0 },
    };
    match context.load(Need::Copy(Box::new(request)))? {
        Answer::Copied(copied) => become_copy(context, copied, truncate),
        other => unreachable!("a copy was answered by {other:?}"),
    }
}

fn become_copy(
    context: &mut Context<'_>,
    copied: &CopiedObject,
    truncate: Option<(u32, u64)>,
) -> Result<i32, Stop> {
    if !copied.omap_header.is_empty() || !copied.omap.is_empty() {
        context.input.pool.check_omap()?;
    }
    let object = context.input.object;
    if context.exists {
        context.changes.push(Change::Remove { object: object.clone() });
        context.stored_attrs.clear();
        context.attrs.push(AttrDelta::Clear);
    }
    context.exists = true;
    context.changes.push(Change::Touch { object: object.clone() });
    let mut offset = 0;
    for data in copied.data.iter().filter(|data| !data.is_empty()) {
        context.changes.push(Change::Write { object: object.clone(), offset, data: data.clone() });
        offset += data.len() as u64;
    }
    context.info.size = offset;
    for (name, value) in &copied.xattrs {
        context.stored_attrs.insert(user_attr(name), value.clone());
        context.attrs.push(AttrDelta::Set(name.clone(), value.clone()));
    }
    context.info.has_omap = !copied.omap_header.is_empty() || !copied.omap.is_empty();
    if !copied.omap_header.is_empty() {
        let header = copied.omap_header.clone();
        context.changes.push(Change::OmapSetHeader { object: object.clone(), header });
    }
    if !copied.omap.is_empty() {
        let pairs = copied.omap.clone();
        context.changes.push(Change::OmapSet { object: object.clone(), pairs });
    }
    let (seq, size) = truncate.unwrap_or((copied.truncate_seq, copied.truncate_size));
    context.info.truncate_seq = seq;
    context.info.truncate_size = size;
    context.info.user_version = copied.user_version;
    context.info.mtime = copied.mtime;
    context.keep_mtime = true;
    Ok(0)
}
