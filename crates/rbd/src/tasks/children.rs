//! Clones of a snapshot.

use crate::Error;
use crate::calls;
use crate::header::{self, Header};
use crate::names::{ImageSpec, Pool, text};
use crate::snapshot::Snapshot;
use crate::snapshot_list;
use crate::task::Task;
use bytes::Bytes;
use rados::Steps;
use std::collections::BTreeSet;
use types::{ChildSpec, Errno, PoolId, SnapId};

/// A clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Name of the parent snapshot.
    pub snapshot: String,
    /// Pool of the clone.
    pub pool: PoolId,
    /// Namespace of the clone; empty for the default one.
    pub namespace: String,
    /// Id of the clone.
    pub id: String,
    /// `None` for images in the trash.
    pub name: Option<String>,
}

/// Lists the clones of an image, or of one of its snapshots. `pools` names all pools and namespaces of the
/// cluster.
pub fn children(image: ImageSpec, snapshot: Option<String>, pools: Vec<Pool>) -> Task<Vec<Child>> {
    Task::new(async move |steps| {
        let header = header::read(&steps, &image).await?;
        let snapshots = match &snapshot {
            Some(name) => vec![snapshot_list::find(&steps, &header, name).await?],
            None => snapshot_list::read_all(&steps, &header).await?,
        };
        let mut children = Vec::new();
        for snapshot in &snapshots {
            for (pool, id) in children_of(&steps, &header, snapshot, &pools).await? {
                let name = name_of(&steps, &pool, &id).await?;
                let (snapshot, namespace) = (snapshot.name.clone(), pool.namespace);
                children.push(Child { snapshot, pool: pool.id, namespace, id, name });
            }
        }
        Ok(children)
    })
}

async fn children_of(
    steps: &Steps,
    header: &Header,
    snapshot: &Snapshot,
    pools: &[Pool],
) -> Result<Vec<(Pool, String)>, Error> {
    let mut children = new_children(steps, header, snapshot.id).await?;
    for pool in pools.iter().filter(|_| snapshot.is_protected()) {
        let ids = old_children(steps, header, snapshot.id, pool).await?;
        children.extend(ids.into_iter().map(|id| (pool.clone(), id)));
    }
    Ok(children)
}

async fn new_children(
    steps: &Steps,
    header: &Header,
    snap: SnapId,
) -> Result<Vec<(Pool, String)>, Error> {
    let ids = match steps.read(&header.place(), vec![calls::list_children(snap)]).await {
        Ok(reply) => calls::output(&reply, 0, "the clones")?,
        Err(Errno::NOENT) => BTreeSet::new(),
        Err(errno) => {
            return Err(Error::cluster(format!("listing the clones of {}", header.spec), errno));
        }
    };
    let child = |ChildSpec { pool, namespace, image }| {
        let namespace = text(namespace, "a clone's namespace")?;
        let pool = Pool { id: PoolId(pool), name: format!("pool {pool}"), namespace };
        Ok((pool, text(image, "a clone's id")?))
    };
    ids.into_iter().map(child).collect::<Result<_, Error>>()
}

/// Ids of the clones of format 1 in a pool.
pub(super) async fn old_children(
    steps: &Steps,
    header: &Header,
    snap: SnapId,
    pool: &Pool,
) -> Result<Vec<String>, Error> {
    let parent = (header.spec.pool.id.0, header.id.as_str(), snap);
    match steps.read(&pool.children(), vec![calls::get_old_children(parent)]).await {
        Ok(reply) => {
            let ids: BTreeSet<Bytes> = calls::output(&reply, 0, "the clones")?;
            let ids = ids.into_iter().map(|id| text(id, "a clone's id"));
            Ok(ids.collect::<Result<_, Error>>()?)
        }
        Err(Errno::NOENT) => Ok(Vec::new()),
        Err(errno) => Err(Error::cluster(format!("listing the clones in {pool}"), errno)),
    }
}

/// Name of an image by its id.
pub(super) async fn name_of(steps: &Steps, pool: &Pool, id: &str) -> Result<Option<String>, Error> {
    match steps.read(&pool.directory(), vec![calls::directory_name(id)]).await {
        Ok(reply) => Ok(Some(text(calls::output(&reply, 0, "the name")?, "the name")?)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::cluster(format!("resolving an image id in {pool}"), errno)),
    }
}
