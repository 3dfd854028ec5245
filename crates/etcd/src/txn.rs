//! Transactions within etcd's bounds, whatever a monitor wants to write at once.
//!
//! A member takes requests of 1.5 MiB (`--max-request-bytes`) with 128 operations (`--max-txn-ops`).
//! More operations are put into transactions inside of the one, which are applied with it or not at
//! all. What is too large is written before, in pieces under keys of its own, and the transaction only
//! says where it is ([`Pointer`]): readers see the value whole, or not yet.
//!
//! ```text
//! PREFIX/state/KEY              the value, or where its pieces are
//! PREFIX/pieces/KEY/WRITE/0000  the pieces, written once, deleted when the key says something else
//! ```

use crate::proto::{DeleteRangeRequest, Operation, RequestOp, TxnRequest};
use bytes::Bytes;
use control::Transaction;

/// Of all that one transaction writes; the rest of the request is names.
const VALUES_LEN_MAX: usize = 5 << 18;
pub(crate) const PIECE_LEN: usize = 1 << 20;
/// Operations at one level. Those of a transaction inside count together with those around it.
const INNER_MAX: usize = 60;
/// Operations of a transaction that has others inside.
pub(crate) const OPERATIONS_MAX: usize = INNER_MAX * INNER_MAX;
/// No value of a monitor begins like that.
const MAGIC: &[u8] = b"\0sepiola pieces\n";

/// Stands for a value that is elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// Prefix of the names of the pieces, below that of the key.
    pub(crate) write: String,
    pub(crate) len: usize,
}

impl Pointer {
    pub(crate) fn to_value(&self) -> Bytes {
        [MAGIC, format!("{} {}", self.len, self.write).as_bytes()].concat().into()
    }

    pub(crate) fn of_value(value: &[u8]) -> Option<Pointer> {
        let text = std::str::from_utf8(value.strip_prefix(MAGIC)?).ok()?;
        let (len, write) = text.split_once(' ')?;
        Some(Pointer { write: write.to_owned(), len: len.parse().ok()? })
    }
}

/// Takes the largest values out of a transaction until it is small enough, and leaves pointers.
pub(crate) fn take_large(transaction: &mut Transaction, write: &str) -> Vec<(String, Bytes)> {
    let mut taken = Vec::new();
    loop {
        let values = || transaction.writes.iter().filter_map(|(k, v)| Some((k, v.as_ref()?)));
        let total: usize = values().map(|(_, value)| value.len()).sum();
        let largest = values().max_by_key(|(_, value)| value.len());
        let Some((key, value)) = largest.filter(|_| total > VALUES_LEN_MAX) else { return taken };
        let pointer = Pointer { write: write.to_owned(), len: value.len() }.to_value();
        if value.len() <= pointer.len() {
            return taken; // Nothing can be gained; the member says what it thinks of it.
        }
        let (key, value) = (key.clone(), value.clone());
        transaction.put(key.clone(), pointer);
        taken.push((key, value));
    }
}

/// Deletes the pieces below `root`, all or all but those of one write.
pub(crate) fn delete_pieces(root: &str, kept: Option<&str>) -> Vec<Operation> {
    let range = |from: String, to: String| {
        Operation::Delete(DeleteRangeRequest {
            key: from.into_bytes().into(),
            range_end: to.into_bytes(),
        })
    };
    let (first, last) = (format!("{root}/"), format!("{root}0"));
    match kept {
        None => vec![range(first, last)],
        // The character behind a slash is a zero.
        Some(kept) => {
            vec![range(first, format!("{root}/{kept}/")), range(format!("{root}/{kept}0"), last)]
        }
    }
}

/// As few levels as hold all operations.
pub(crate) fn nested(operations: Vec<Operation>) -> Vec<RequestOp> {
    assert!(
        operations.len() <= OPERATIONS_MAX,
        "{} operations need a third level",
        operations.len()
    );
    let plain: Vec<RequestOp> = operations.into_iter().map(RequestOp::from).collect();
    if plain.len() <= INNER_MAX {
        return plain;
    }
    let inner = plain.chunks(INNER_MAX).map(|some| {
        let success = some.to_vec();
        RequestOp::from(Operation::Txn(TxnRequest { success, ..TxnRequest::default() }))
    });
    inner.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_values_go_until_the_rest_fits() {
        let mut transaction = Transaction::default();
        transaction.put("large", vec![1; 3 << 20]);
        transaction.put("medium", vec![2; 1 << 20]);
        transaction.put("small", "3");
        transaction.delete("gone");
        let taken = take_large(&mut transaction, "w");
        assert_eq!(taken.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["large"]);
        let left = transaction.writes["large"].as_ref().unwrap();
        assert_eq!(Pointer::of_value(left), Some(Pointer { write: "w".to_owned(), len: 3 << 20 }));
        assert_eq!(Pointer::of_value(b"3"), None);
        assert!(take_large(&mut transaction, "w").is_empty());
    }

    #[test]
    fn operations_beyond_one_level_go_inside() {
        let operations = |count| {
            let delete = |_| Operation::Delete(DeleteRangeRequest::default());
            nested((0..count).map(delete).collect())
        };
        assert_eq!(operations(INNER_MAX).len(), INNER_MAX);
        assert_eq!(operations(OPERATIONS_MAX).len(), INNER_MAX);
    }

    #[test]
    fn the_pieces_of_one_write_are_kept() {
        let keys = |operation: &Operation| match operation {
            Operation::Delete(range) => (range.key.to_vec(), range.range_end.clone()),
            _ => panic!("no deletion"),
        };
        let ranges: Vec<_> = delete_pieces("p/k", Some("b")).iter().map(keys).collect();
        let is_deleted = |key: &str| {
            ranges.iter().any(|(from, to)| key.as_bytes() >= &from[..] && key.as_bytes() < &to[..])
        };
        assert!(is_deleted("p/k/a/0000") && is_deleted("p/k/c/0000"));
        assert!(!is_deleted("p/k/b/0000") && !is_deleted("p/k/b/0001") && !is_deleted("p/k2/a/0"));
    }
}
