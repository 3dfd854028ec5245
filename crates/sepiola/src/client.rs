//! `sepiola status | put | get | ls | rm | stat`: the native client, one request at a time.

use crate::cli::{GetArgs, ObjectArgs, ObjectsArgs, PutArgs};
use access::{ClusterArgs, Connection, PoolArgs, progress};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use rados::{ListRequest, Operation, OperationReply, Place};
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use types::UTime;
use wire::OsdOp;

/// How much of an object one operation carries.
const CHUNK_LEN: usize = 4 << 20;
const LIST_PAGE: u64 = 1000;

/// `sepiola status`
pub fn status(args: &ClusterArgs) -> Result<()> {
    let mut connection = Connection::open(args)?;
    let output = connection.command(&json!({"prefix": "status"}))?;
    io::stdout().write_all(&output.output)?;
    Ok(())
}

fn place(connection: &mut Connection, args: &PoolArgs, object: &str) -> Result<Place> {
    let mut place = Place::new(connection.pool(&args.pool)?, object.to_owned());
    place.namespace = Bytes::from(args.namespace.clone());
    Ok(place)
}

/// `sepiola put`
pub fn put(args: &PutArgs) -> Result<()> {
    let mut connection = Connection::open(&args.object.pool.cluster)?;
    let place = place(&mut connection, &args.object.pool, &args.object.object)?;
    let (mut input, length) = open_input(&args.file)?;
    let progress = progress(length);
    let mut offset = 0;
    loop {
        let chunk = read_chunk(&mut input).context("reading the input")?;
        let length = chunk.len();
        // The first chunk replaces the object, so that nothing of an older one is left.
        let op = match offset {
            0 => OsdOp::write_full(chunk),
            _ if length == 0 => break,
            _ => OsdOp::write(offset, chunk),
        };
        connection
            .operate(Operation::new(place.clone(), vec![op]))
            .with_context(|| format!("writing {} at {offset}", args.object.object))?;
        offset += length as u64;
        progress.inc(length as u64);
        if length < CHUNK_LEN {
            break;
        }
    }
    progress.finish_and_clear();
    Ok(())
}

/// `sepiola get`
pub fn get(args: &GetArgs) -> Result<()> {
    let mut connection = Connection::open(&args.object.pool.cluster)?;
    let place = place(&mut connection, &args.object.pool, &args.object.object)?;
    let (size, _) = stat_object(&mut connection, &place)?;
    let mut output = open_output(&args.file)?;
    let progress = progress(Some(size));
    let mut offset = 0;
    loop {
        let op = OsdOp::read(offset, CHUNK_LEN as u64);
        let reply = connection
            .operate(Operation::new(place.clone(), vec![op]))
            .with_context(|| format!("reading {} at {offset}", args.object.object))?;
        let data = first_output(reply);
        output.write_all(&data).context("writing the output")?;
        offset += data.len() as u64;
        progress.inc(data.len() as u64);
        if data.len() < CHUNK_LEN {
            break;
        }
    }
    output.flush().context("writing the output")?;
    progress.finish_and_clear();
    Ok(())
}

/// `sepiola ls`
pub fn list(args: &PoolArgs) -> Result<()> {
    let mut connection = Connection::open(&args.cluster)?;
    let pool = connection.pool(&args.pool)?;
    let namespace = Some(Bytes::from(args.namespace.clone()));
    let mut request = ListRequest { pool, namespace, cursor: None, entries_max: LIST_PAGE };
    let mut output = io::BufWriter::new(io::stdout().lock());
    loop {
        let page = connection.list(request.clone())?;
        for object in &page.objects {
            output.write_all(&object.name)?;
            output.write_all(b"\n")?;
        }
        if page.cursor.is_none() {
            return Ok(output.flush()?);
        }
        request.cursor = page.cursor;
    }
}

/// `sepiola rm`
pub fn remove(args: &ObjectsArgs) -> Result<()> {
    let mut connection = Connection::open(&args.pool.cluster)?;
    for object in &args.objects {
        let place = place(&mut connection, &args.pool, object)?;
        connection
            .operate(Operation::new(place, vec![OsdOp::remove()]))
            .with_context(|| format!("removing {object}"))?;
    }
    Ok(())
}

/// `sepiola stat`
pub fn stat(args: &ObjectArgs) -> Result<()> {
    let mut connection = Connection::open(&args.pool.cluster)?;
    let place = place(&mut connection, &args.pool, &args.object)?;
    let (size, modified) = stat_object(&mut connection, &place)?;
    println!("{}/{} modified {}, size {size}", args.pool.pool, args.object, modified.to_iso());
    Ok(())
}

fn stat_object(connection: &mut Connection, place: &Place) -> Result<(u64, UTime)> {
    let reply = connection
        .operate(Operation::new(place.clone(), vec![OsdOp::stat()]))
        .with_context(|| format!("looking for {}", String::from_utf8_lossy(&place.object)))?;
    let data = first_output(reply);
    let (size, modified) = codec::decode_all("stat", &data)?;
    Ok((size, modified))
}

fn first_output(reply: OperationReply) -> Bytes {
    reply.ops.into_iter().next().map(|op| op.output).unwrap_or_default()
}

fn open_input(path: &Path) -> Result<(Box<dyn Read>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    if file.metadata()?.is_dir() {
        bail!("{} is a directory; an object is made from one file", path.display());
    }
    let length = file.metadata()?.len();
    Ok((Box::new(file), Some(length)))
}

fn open_output(path: &Path) -> Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    Ok(Box::new(file))
}

fn read_chunk(input: &mut dyn Read) -> io::Result<Bytes> {
    let mut chunk = Vec::with_capacity(CHUNK_LEN);
    input.take(CHUNK_LEN as u64).read_to_end(&mut chunk)?;
    Ok(Bytes::from(chunk))
}
