//! A model of the pools.

use super::*;

/// An object of the metadata pool.
#[derive(Debug, Clone, Default)]
pub(super) struct Object {
    pub(super) data: Vec<u8>,
    pub(super) pairs: BTreeMap<Bytes, Bytes>,
}

/// Objects by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    pub(super) objects: BTreeMap<Bytes, Object>,
    /// Names of the objects in the data pool.
    pub(super) data: BTreeSet<String>,
    /// Those that cannot be removed.
    pub(super) fixed: BTreeSet<String>,
}

impl Pool {
    /// Executes operations on an object: all, or none.
    pub(super) fn execute(&mut self, operation: &Operation) -> Result<Reply, Errno> {
        if operation.place.pool == DATA_POOL {
            assert_eq!(operation.ops, [OsdOp::remove()], "the server writes no data");
            let name = String::from_utf8_lossy(&operation.place.object).into_owned();
            if self.fixed.contains(&name) {
                return Err(Errno::PERM);
            }
            let removed = self.data.remove(&name).then(OperationReply::default);
            return removed.map(Reply::Operation).ok_or(Errno::NOENT);
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
