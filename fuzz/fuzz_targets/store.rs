//! Transactions of other daemons and of the log: whatever joins splits again to the same.

#![no_main]

use bytes::Bytes;
use codec::{Reader, Writer};
use libfuzzer_sys::fuzz_target;
use store::Transaction;
use store::mem::MemStore;

fuzz_target!(|input: &[u8]| {
    let Some((split, bytes)) = input.split_first() else { return };
    let (fields, data) = bytes.split_at(bytes.len() * usize::from(*split) / 255);
    let data = Bytes::copy_from_slice(data);
    let Ok(transaction) = Transaction::join(&mut Reader::new(fields), &data) else { return };
    let mut w = Writer::new();
    let data: Bytes = transaction.split(&mut w).concat().into();
    let again = Transaction::join(&mut Reader::new(w.as_slice()), &data);
    assert_eq!(again.as_ref(), Ok(&transaction));
    let mut store = MemStore::with_capacity(1 << 20);
    let _ = store.apply(&transaction);
    store.check_invariants();
});
