//! Transactions on an etcd, and values of any size.
//!
//! A transaction that is asked again, because its answer was lost, must not be mistaken for its own
//! rival: each leaves a mark that tells whether it was applied. Values that are too large for a request
//! are written in pieces before (`txn`), and read whole here.

use crate::client::{Client, Outcome, RANGE, prefix_end};
use crate::proto::{
    Compare, CompareTarget, DeleteRangeRequest, KeyValue, Operation, PutRequest, RangeRequest,
    RangeResponse, RequestOp, TxnRequest, TxnResponse,
};
use crate::txn::{OPERATIONS_MAX, PIECE_LEN, Pointer, delete_pieces, nested, take_large};
use bytes::{Bytes, BytesMut};
use control::{CommitError, Revision, Transaction, UNFINISHED};
use std::time::Duration;
use tokio::time::Instant;
use tonic::Status;

const TXN: &str = "/etcdserverpb.KV/Txn";
/// Pieces of one answer.
const PIECES_PER_PAGE: i64 = 8;

impl Client {
    /// Commits once, however often it has to be asked for.
    pub(crate) async fn commit(
        &self,
        token: u64,
        transaction: &Transaction,
        patience: Duration,
    ) -> Result<Revision, CommitError> {
        let slot = self.marks.borrow_mut().take(Instant::now());
        let outcome = self.commit_marked(slot, token, transaction, patience).await;
        let is_decided = !matches!(outcome, Err(CommitError::Failed { .. }));
        self.marks.borrow_mut().give_back(Instant::now(), slot, is_decided);
        outcome
    }

    async fn commit_marked(
        &self,
        slot: u64,
        token: u64,
        transaction: &Transaction,
        patience: Duration,
    ) -> Result<Revision, CommitError> {
        let failed = |status: Status| self.commit_error(&status);
        let mark_key = format!("{}/writer/{}/{slot}", self.options.prefix, self.writer);
        let mark = format!("{:016x}/{token}", self.nonce);
        let mut transaction = transaction.clone();
        let write = format!("{:016x}-{token}", self.nonce);
        let large = take_large(&mut transaction, &write);
        let operations = self.operations(&transaction, &large, &write);
        if operations.len() >= OPERATIONS_MAX {
            let reason = format!(
                "a change of {} keys at once, and fewer than {OPERATIONS_MAX} fit an etcd: make it in parts",
                operations.len()
            );
            return Err(CommitError::Refused { reason });
        }
        for (key, value) in &large {
            if let Err(status) = self.write_pieces(key, &write, value, patience).await {
                self.forget_pieces(&large, &write, patience).await;
                return Err(failed(status));
            }
        }
        let request = self.txn(&transaction, operations, &mark_key, &mark);
        let answer: Outcome<TxnResponse> = self.call(TXN, request, patience).await;
        let outcome = match answer.map_err(failed) {
            // It may have been applied, so that its pieces are in use.
            Err(error @ CommitError::Failed { .. }) => return Err(error),
            answer => answer.and_then(|answer| self.outcome(answer, &mark)),
        };
        match outcome {
            Ok(_) => self.note_large(&transaction, &large),
            Err(_) => self.forget_pieces(&large, &write, patience).await,
        }
        outcome
    }

    fn txn(
        &self,
        transaction: &Transaction,
        mut operations: Vec<Operation>,
        mark_key: &str,
        mark: &str,
    ) -> TxnRequest {
        // A monitor that stood still while the state was moved must not go on here.
        let fence = self.is_fenced.then(|| (UNFINISHED.to_owned(), None));
        let compare = transaction.compare.iter().chain(&fence).map(|(key, revision)| Compare {
            target: CompareTarget::Mod.into(),
            key: self.key(key),
            mod_revision: Some(revision.unwrap_or(0) as i64),
        });
        let compare = compare.collect();
        let value = Bytes::copy_from_slice(mark.as_bytes());
        let key = Bytes::copy_from_slice(mark_key.as_bytes());
        operations.push(Operation::Put(PutRequest { key, value, lease: 0 }));
        let mark = RangeRequest { key: mark_key.as_bytes().to_vec(), ..RangeRequest::default() };
        let fence = RangeRequest { key: self.key(UNFINISHED), ..RangeRequest::default() };
        let failure = vec![Operation::Range(mark).into(), Operation::Range(fence).into()];
        TxnRequest { compare, success: nested(operations), failure }
    }

    /// The operations of a transaction, and the pieces that become unused by it.
    fn operations(
        &self,
        transaction: &Transaction,
        large: &[(String, Bytes)],
        write: &str,
    ) -> Vec<Operation> {
        let lease = transaction.lease.unwrap_or(0) as i64;
        let mut operations = Vec::new();
        for (key, value) in &transaction.writes {
            let name = self.key(key).into();
            operations.push(match value {
                Some(value) => {
                    Operation::Put(PutRequest { key: name, value: value.clone(), lease })
                }
                None => Operation::Delete(DeleteRangeRequest {
                    key: name,
                    ..DeleteRangeRequest::default()
                }),
            });
            if self.large.borrow().contains(key) {
                let kept = large.iter().any(|(known, _)| known == key).then_some(write);
                operations.extend(delete_pieces(&self.pieces_root(key), kept));
            }
        }
        operations
    }

    fn note_large(&self, transaction: &Transaction, large: &[(String, Bytes)]) {
        let mut known = self.large.borrow_mut();
        transaction.writes.keys().for_each(|key| {
            known.remove(key);
        });
        known.extend(large.iter().map(|(key, _)| key.clone()));
    }

    fn pieces_root(&self, key: &str) -> String {
        format!("{}/pieces/{key}", self.options.prefix)
    }

    async fn write_pieces(
        &self,
        key: &str,
        write: &str,
        value: &Bytes,
        patience: Duration,
    ) -> Outcome<()> {
        let root = self.pieces_root(key);
        for (number, at) in (0..value.len()).step_by(PIECE_LEN).enumerate() {
            let key = format!("{root}/{write}/{number:04}").into_bytes().into();
            let value = value.slice(at..value.len().min(at + PIECE_LEN));
            let put = Operation::Put(PutRequest { key, value, lease: 0 });
            self.without_conditions(vec![put], patience).await?;
        }
        Ok(())
    }

    /// The transaction came to nothing. What cannot be deleted now goes with the key.
    async fn forget_pieces(&self, large: &[(String, Bytes)], write: &str, patience: Duration) {
        for (key, _) in large {
            let root = format!("{}/{write}", self.pieces_root(key));
            let deleted = self.without_conditions(delete_pieces(&root, None), patience).await;
            if let Err(status) = deleted {
                tracing::debug!(%status, key, "pieces of a value that was not written are left");
            }
        }
    }

    async fn without_conditions(
        &self,
        operations: Vec<Operation>,
        patience: Duration,
    ) -> Outcome<()> {
        let success = operations.into_iter().map(RequestOp::from).collect();
        let request = TxnRequest { success, ..TxnRequest::default() };
        let _: TxnResponse = self.call(TXN, request, patience).await?;
        Ok(())
    }

    /// A value as it was written, of a key as it was in a revision.
    pub(crate) async fn whole(
        &self,
        key: &str,
        value: Bytes,
        revision: i64,
        patience: Duration,
    ) -> Outcome<Bytes> {
        let Some(pointer) = Pointer::of_value(&value) else { return Ok(value) };
        let mut from = format!("{}/{}/", self.pieces_root(key), pointer.write).into_bytes();
        let range_end = prefix_end(&from);
        let mut whole = BytesMut::new();
        loop {
            let (key, range_end) = (from.clone(), range_end.clone());
            let request = RangeRequest { key, range_end, limit: PIECES_PER_PAGE, revision };
            let page = self.page(request, patience).await?;
            page.kvs.iter().for_each(|kv| whole.extend_from_slice(&kv.value));
            match page.kvs.last().filter(|_| page.more) {
                Some(last) => from = [&last.key[..], &[0]].concat(),
                None => break,
            }
        }
        if whole.len() != pointer.len {
            let text = format!("{} of {} bytes of {key} are there", whole.len(), pointer.len);
            return Err(Status::data_loss(text));
        }
        self.large.borrow_mut().insert(key.to_owned());
        Ok(whole.freeze())
    }
}

impl Client {
    /// A page of a load: of fewer keys than asked for, and with more time, after pages that came too late. So
    /// a slow store is loaded at last, in this load or in the next one.
    pub(crate) async fn page(
        &self,
        request: RangeRequest,
        patience: Duration,
    ) -> Outcome<RangeResponse> {
        let paced = || {
            let pace = self.pace.get();
            let request = RangeRequest { limit: pace.limit(request.limit), ..request.clone() };
            (request, pace.time())
        };
        let failed = |status: &Status| self.pace.set(self.pace.get().after(status));
        self.call_with(RANGE, paced, failed, patience).await
    }

    fn outcome(&self, answer: TxnResponse, mark: &str) -> Result<Revision, CommitError> {
        if answer.succeeded {
            return Ok(answer.header.map_or(0, |header| header.revision) as Revision);
        }
        let found = answer.responses.into_iter().filter_map(|op| op.range).flat_map(|r| r.kvs);
        let found: Vec<KeyValue> = found.collect();
        // An earlier attempt whose answer was lost may be the one that we lost against.
        if let Some(applied) = found.iter().find(|kv| kv.value == mark.as_bytes()) {
            return Ok(applied.mod_revision as Revision);
        }
        if self.is_fenced && found.iter().any(|kv| kv.key == self.key(UNFINISHED)) {
            let reason = format!(
                "`sepiola control move` has taken the state away from {}, or is about to: stop this monitor",
                self.shown()
            );
            return Err(CommitError::Failed { reason });
        }
        Err(CommitError::Conflict)
    }
}
