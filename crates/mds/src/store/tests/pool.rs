//! A model of the pools.

use super::*;
use wire::op::request_flags;

/// An object of the metadata pool.
#[derive(Debug, Clone, Default)]
pub(super) struct Object {
    pub(super) data: Vec<u8>,
    pub(super) pairs: BTreeMap<Bytes, Bytes>,
}

/// An object of a file: lengths of what was written, with the truncations that each writer knew.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DataObject {
    pub(super) fills: Vec<(u32, u64)>,
    seq: u32,
}

impl DataObject {
    fn cut(&mut self, seq: u32, size: u64) {
        if seq > self.seq {
            self.seq = seq;
            self.fills.iter_mut().for_each(|(_, length)| *length = size.min(*length));
        }
    }
}

/// Objects by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    pub(super) objects: BTreeMap<Bytes, Object>,
    /// Objects of the data pool.
    pub(super) data: BTreeMap<String, DataObject>,
    /// Those that cannot be removed.
    pub(super) fixed: BTreeSet<String>,
    /// Takes no write that does not insist.
    pub(super) is_full: bool,
}

impl Pool {
    /// Executes operations on an object: all, or none.
    pub(super) fn execute(&mut self, operation: &Operation) -> Result<Reply, Errno> {
        let writes = operation.flags & request_flags::WRITE != 0;
        if self.is_full && writes && operation.flags & request_flags::FULL_FORCE == 0 {
            return Err(Errno::NOSPC);
        }
        if operation.place.pool == DATA_POOL {
            return self.change_data(operation);
        }
        assert_eq!(&operation.place.namespace[..], b"sepiola");
        let name = operation.place.object.clone();
        let mut object = self.objects.get(&name).cloned();
        let mut ops = Vec::new();
        for op in &operation.ops {
            let output = execute(&mut object, op)?;
            ops.push(OpResult::new(op, 0, output));
        }
        match object {
            Some(object) => self.objects.insert(name, object),
            None => self.objects.remove(&name),
        };
        Ok(Reply::Operation(OperationReply { ops, ..OperationReply::default() }))
    }

    fn change_data(&mut self, operation: &Operation) -> Result<Reply, Errno> {
        let name = String::from_utf8_lossy(&operation.place.object).into_owned();
        if self.fixed.contains(&name) {
            return Err(Errno::PERM);
        }
        let [op] = &operation.ops[..] else { panic!("{:?}", operation.ops) };
        let is_there = match op.code {
            OpCode::TRIMTRUNC => {
                let Extent { truncate_seq, truncate_size, .. } = op.extent();
                // That there is none to cut is no error.
                let object = self.data.get_mut(&name);
                object.into_iter().for_each(|object| object.cut(truncate_seq, truncate_size));
                true
            }
            code => {
                assert_eq!(code, OpCode::DELETE, "the server writes no data");
                self.data.remove(&name).is_some()
            }
        };
        let done = is_there.then(OperationReply::default);
        done.map(Reply::Operation).ok_or(Errno::NOENT)
    }

    /// A client that knows of a truncation to `cut` writes the first bytes of an object.
    pub(super) fn fill(&mut self, name: &str, length: u64, (seq, cut): (u32, u64)) {
        let object = self.data.entry(name.to_owned()).or_default();
        object.cut(seq, cut);
        object.fills.retain(|(_, before)| *before > length);
        object.fills.push((seq, length));
    }

    pub(super) fn names(&self, prefix: &str) -> Vec<String> {
        let names = self.objects.keys().map(|name| String::from_utf8_lossy(name).into_owned());
        names.filter(|name| name.starts_with(prefix)).collect()
    }
}

pub(super) fn execute(object: &mut Option<Object>, op: &OsdOp) -> Result<Bytes, Errno> {
    let mut r = Reader::new(&op.input);
    let blob = |r: &mut Reader<'_>| Ok(Bytes::copy_from_slice(r.blob("bytes")?));
    let existing = object.as_ref().ok_or(Errno::NOENT);
    match op.code {
        OpCode::READ => return Ok(existing?.data.clone().into()),
        OpCode::CREATE if object.is_some() && op.flags & op_flags::EXCL != 0 => {
            return Err(Errno::EXIST);
        }
        OpCode::CREATE => drop(object.get_or_insert_default()),
        OpCode::WRITEFULL => object.get_or_insert_default().data = op.input.to_vec(),
        OpCode::WRITE => {
            let data = &mut object.get_or_insert_default().data;
            let offset = op.extent().offset as usize;
            data.resize(data.len().max(offset + op.input.len()), 0);
            data[offset..offset + op.input.len()].copy_from_slice(&op.input);
        }
        OpCode::DELETE => {
            existing?;
            *object = None;
        }
        OpCode::OMAPSETVALS => {
            let pairs: BTreeMap<Bytes, Bytes> = codec::decode_all("pairs", &op.input).unwrap();
            object.get_or_insert_default().pairs.extend(pairs);
        }
        OpCode::OMAPRMKEYS => {
            existing?;
            for key in r.list("keys", blob).unwrap() {
                object.as_mut().expect("it was checked").pairs.remove(&key);
            }
        }
        OpCode::OMAPGETVALS => {
            let after = blob(&mut r).unwrap();
            let mut rest = existing?.pairs.iter().filter(|(key, _)| **key > after).peekable();
            // A short page, so that readers ask for more.
            let page: BTreeMap<_, _> = rest.by_ref().take(3).collect();
            let page = page.into_iter().map(|(key, value)| (key.clone(), value.clone()));
            let mut w = Writer::new();
            w.value(&page.collect::<BTreeMap<_, _>>());
            w.bool(existing?.pairs.range(after..).count() > 3);
            return Ok(w.into_bytes());
        }
        OpCode::OMAPGETVALSBYKEYS => {
            let keys = r.list("keys", blob).unwrap();
            let pairs = &existing?.pairs;
            let found = keys.iter().filter_map(|key| Some((key.clone(), pairs.get(key)?.clone())));
            return Ok(codec::encode_to_bytes(&found.collect::<BTreeMap<_, _>>()));
        }
        code => panic!("{code:?} is not modelled"),
    }
    Ok(Bytes::new())
}
