//! Order of log and database.

use crate::base::Base;
use crate::scratch::Scratch;
use crate::{DATABASE, FileStore, Options};
use engine::Time;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use store::{
    Change, Collection, ObjectStore, Outcome, Request, RequestKind, StoreError, Transaction,
};
use types::{PgId, PgShard, PoolId, ShardId};

/// No checkpoint begins but those that the store itself needs.
fn open(directory: &Path) -> (FileStore, Receiver<()>) {
    let options = Options {
        log_size: 2 << 20,
        checkpoint_interval: Duration::from_secs(1 << 20),
        reserve: 0,
        ..Options::default()
    };
    let (wake, woken) = channel();
    let waker = Arc::new(move || wake.send(()).unwrap_or(()));
    (FileStore::open(directory, &options, waker).unwrap(), woken)
}

fn next((store, woken): &mut (FileStore, Receiver<()>)) -> Result<Outcome, StoreError> {
    loop {
        if let Some(completion) = store.poll_completion() {
            return completion.outcome;
        }
        woken.recv().unwrap();
    }
}

/// A crash at any moment leaves no shard in the log of a store whose database has the format without shards,
/// which older versions would read.
#[test]
fn the_format_of_shards_is_durable_before_the_log_names_a_shard() {
    let pg = PgId { pool: PoolId(1), seed: 0 };
    let shard = Collection(PgShard { pg, shard: ShardId::at(0).unwrap() });
    for before in [vec![], vec![Collection::replicated(pg)]] {
        let scratch = Scratch::new("shards");
        let mut store = open(scratch.path());
        let created: Vec<Collection> = before.into_iter().chain([shard]).collect();
        for (token, at) in (0..).zip(&created) {
            let transaction = Transaction { changes: vec![(*at, Change::CreateCollection)] };
            let kind = RequestKind::Commit(transaction);
            store.0.submit(Time::ZERO, Request { token, kind });
        }
        for _ in &created {
            assert_eq!(next(&mut store), Ok(Outcome::Committed));
        }
        store.0.abandon();
        let (base, state) = Base::open(&scratch.path().join(DATABASE), 1 << 20).unwrap();
        assert!(state.unwrap().has_shards, "the database names the format");
        // So the checkpoint that named the format was durable before the record was logged.
        assert!(!base.snapshot().collections().unwrap().contains(&shard), "the log has the shard");
        drop(base);
        let mut store = open(scratch.path());
        store.0.submit(Time::ZERO, Request { token: 0, kind: RequestKind::Collections });
        let found = next(&mut store);
        let Ok(Outcome::Collections(found)) = found else { panic!("{found:?}") };
        assert!(found.contains(&shard), "replay finds the shard");
    }
}
