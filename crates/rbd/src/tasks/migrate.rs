//! Migration of images: executes, commits or aborts what `rbd migration prepare` has set up.
//!
//! Preparation creates a *target* that shows the *source* where it has no objects of its own, and moves the
//! source to the trash. The headers of both name each other. All steps are idempotent: an interrupted one is
//! found again through the headers, or through the trash.

use super::remove::{remove_object, remove_unused, tolerate};
use super::{create, trash};
use crate::calls::{self, MigrationState, TrashEntry};
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::maintenance::detach;
use crate::steps::NamedSteps;
use crate::task::Task;
use crate::transfer::Plan;
use crate::{Error, Features, ImageSpec, Pool, object_map};
use crate::{snapshot_list, watchers};
use bytes::Bytes;
use rados::Steps;
use types::{Errno, MigrationSpec, PoolId, SnapId};
use wire::OsdOp;

/// Action on a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// Copies all data of the source to the target.
    Execute,
    /// Removes the source.
    Commit,
    /// Removes the target with everything written to it, and restores the source.
    Abort,
}

/// `image` names the target, or what the source was called. `pools` lists all pools, and the namespaces in
/// which a source may lie in the trash.
pub fn migrate(image: ImageSpec, action: Migration, pools: Vec<Pool>) -> Task<()> {
    Task::new(async move |steps| {
        let found = find(&steps, &image, &pools).await?;
        match action {
            Migration::Execute => execute(&steps, found).await,
            Migration::Commit => commit(&steps, found).await,
            Migration::Abort => abort(&steps, found).await,
        }
    })
}

/// Both ends of a migration; the headers are without the feature bit that excludes other clients.
struct MigrationPair {
    /// The migration spec of the target's header, or, if that is gone, of the source's.
    spec: MigrationSpec,
    /// `None` if an earlier attempt removed it.
    source: Option<Header>,
    source_pool: Pool,
    source_id: String,
    source_name: String,
    target: Option<Header>,
    target_image: ImageSpec,
    target_id: String,
}

async fn find(steps: &Steps, image: &ImageSpec, pools: &[Pool]) -> Result<MigrationPair, Error> {
    match header::find_id(steps, image).await {
        Ok(id) => match migration_of(steps, &image.pool, &id).await? {
            Some(spec) if spec.is_destination() => from_target(steps, image, id, spec, pools).await,
            // Only the last step of the abort is left.
            Some(spec) => {
                let entry = TrashEntry::moving(&image.name);
                from_source(steps, (image.pool.clone(), id, entry, spec), pools).await
            }
            None => {
                let is_meant = |_: &Pool, _: &str, _: &TrashEntry, spec: &MigrationSpec| {
                    spec.image == id.as_bytes()
                };
                match search(steps, pools, is_meant).await? {
                    Some(found) => from_source(steps, found, pools).await,
                    None => Err(not_migrating(image)),
                }
            }
        },
        Err(error) if error.errno() == Errno::NOENT => {
            let is_meant = |pool: &Pool, _: &str, entry: &TrashEntry, spec: &MigrationSpec| {
                let was = pool == &image.pool && entry.name == image.name;
                was || spec.pool == image.pool.id.0 && spec.image_name == image.name.as_bytes()
            };
            match search(steps, pools, is_meant).await? {
                Some(found) => from_source(steps, found, pools).await,
                None => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

fn not_migrating(image: &ImageSpec) -> Error {
    Error::refused(format!("{image} is not being migrated; `rbd migration prepare` begins that"))
}

fn needs_rbd_tool(image: &ImageSpec, why: &str) -> Error {
    Error::refused(format!("{why}: use `rbd migration` for {image} instead of a task"))
}

/// The migration spec of a header; `None` also if there is no header.
async fn migration_of(
    steps: &Steps,
    pool: &Pool,
    id: &str,
) -> Result<Option<MigrationSpec>, Error> {
    match steps.read(&pool.header(id), vec![calls::get_migration()]).await {
        Ok(reply) => Ok(Some(calls::output(&reply, 0, "the migration")?)),
        Err(Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::cluster("reading the migration", errno)),
    }
}

type TrashedSource = (Pool, String, TrashEntry, MigrationSpec);

/// Finds the source in the trash.
async fn search(
    steps: &Steps,
    pools: &[Pool],
    is_meant: impl Fn(&Pool, &str, &TrashEntry, &MigrationSpec) -> bool,
) -> Result<Option<TrashedSource>, Error> {
    for pool in pools {
        let entries = trash::entries(steps, pool).await?.into_iter();
        for (id, entry) in entries.filter(|(_, entry)| entry.is_migrating()) {
            let Some(spec) = migration_of(steps, pool, &id).await? else { continue };
            if is_meant(pool, &id, &entry, &spec) {
                return Ok(Some((pool.clone(), id, entry, spec)));
            }
        }
    }
    Ok(None)
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn pool_of(spec: &MigrationSpec, pools: &[Pool]) -> Pool {
    let named = pools.iter().find(|pool| pool.id.0 == spec.pool);
    let name = named.map_or_else(|| format!("pool {}", spec.pool), |pool| pool.name.clone());
    Pool { id: PoolId(spec.pool), name, namespace: text(&spec.namespace) }
}

async fn from_target(
    steps: &Steps,
    image: &ImageSpec,
    target_id: String,
    spec: MigrationSpec,
    pools: &[Pool],
) -> Result<MigrationPair, Error> {
    if !spec.source.is_empty() || spec.pool < 0 || spec.image.is_empty() {
        return Err(needs_rbd_tool(image, "its source is no image of this cluster in format 2"));
    }
    let (source_pool, source_id) = (pool_of(&spec, pools), text(&spec.image));
    let source_name = text(&spec.image_name);
    let target = Some(unmarked(header::read_with_id(steps, image, target_id.clone()).await?));
    let source_spec = ImageSpec { pool: source_pool.clone(), name: source_name.clone() };
    let source = existing(steps, &source_spec, &source_id).await?;
    let target_image = image.clone();
    Ok(MigrationPair {
        spec,
        source,
        source_pool,
        source_id,
        source_name,
        target,
        target_image,
        target_id,
    })
}

async fn from_source(
    steps: &Steps,
    found: TrashedSource,
    pools: &[Pool],
) -> Result<MigrationPair, Error> {
    let (source_pool, source_id, entry, spec) = found;
    let source_spec = ImageSpec { pool: source_pool.clone(), name: entry.name.clone() };
    let source = existing(steps, &source_spec, &source_id).await?;
    let target_image = ImageSpec { pool: pool_of(&spec, pools), name: text(&spec.image_name) };
    let target_id = text(&spec.image);
    let target = existing(steps, &target_image, &target_id).await?;
    // The target's spec decides as long as the target exists.
    let recorded = migration_of(steps, &target_image.pool, &target_id).await?;
    let spec = recorded.unwrap_or(spec);
    let source_name = entry.name;
    Ok(MigrationPair {
        spec,
        source,
        source_pool,
        source_id,
        source_name,
        target,
        target_image,
        target_id,
    })
}

async fn existing(steps: &Steps, image: &ImageSpec, id: &str) -> Result<Option<Header>, Error> {
    match steps.read(&image.pool.header(id), vec![OsdOp::stat()]).await {
        Ok(_) => Ok(Some(unmarked(header::read_with_id(steps, image, id.to_owned()).await?))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::cluster(format!("reading the header of {image}"), errno)),
    }
}

fn unmarked(header: Header) -> Header {
    let features = header.features.without(Features::MIGRATING);
    Header { features, ..header }
}

impl MigrationPair {
    async fn set_state(&self, steps: &Steps, state: MigrationState) -> Result<(), Error> {
        for header in self.source.iter().chain(&self.target) {
            let ops = vec![calls::set_migration_state(state)];
            steps.write_step("recording the state of the migration", &header.place(), ops).await?;
        }
        Ok(())
    }

    /// Checks that the action is possible in the current state.
    fn check(&self) -> Result<(&Header, &Header), Error> {
        let image = &self.target_image;
        let (Some(source), Some(target)) = (&self.source, &self.target) else {
            return Err(Error::refused(format!("{image} lacks its other end; `abort` undoes it")));
        };
        let kept = source.features.check_writable(&source.spec.to_string());
        kept.and_then(|()| target.features.check_writable(&image.to_string()))?;
        if source.layout != target.layout {
            return Err(needs_rbd_tool(
                image,
                "its objects have another size or striping than the source's",
            ));
        }
        if source.parent.is_some() != target.parent.is_some() {
            return Err(needs_rbd_tool(image, "it is to be flattened"));
        }
        Ok((source, target))
    }

    fn snaps(&self, target: &Header) -> Vec<(SnapId, SnapId)> {
        let pairs = self.spec.sequences.iter().map(|(from, to)| (SnapId(*from), SnapId(*to)));
        let mut pairs: Vec<_> =
            pairs.filter(|(_, to)| target.snap_context.snaps.contains(to)).collect();
        pairs.sort_by_key(|(from, to)| (*to, *from));
        pairs.dedup_by_key(|(_, to)| *to);
        pairs
    }
}

async fn execute(steps: &Steps, found: MigrationPair) -> Result<(), Error> {
    let (source, target) = found.check()?;
    match MigrationState(found.spec.state) {
        MigrationState::EXECUTED => return make_maps(steps, target).await,
        MigrationState::PREPARED | MigrationState::EXECUTING => {}
        _ => return Err(not_ready(&found, "prepared")),
    }
    found.set_state(steps, MigrationState::EXECUTING).await?;
    if target.features.contains(Features::OBJECT_MAP) {
        // A client that has the target open would take copied objects for absent.
        object_map::mark_all_invalid(steps, target).await?;
        watchers::notify(steps, &target.place()).await?;
    }
    let sizes =
        snapshot_list::read_all(steps, source).await?.into_iter().map(|snapshot| snapshot.size);
    let largest = sizes.chain([source.size]).max().unwrap_or_default();
    let (snaps, objects) = (found.snaps(target), source.layout.objects(largest));
    let plan = Plan { source: source.clone(), target: target.clone(), snaps, objects };
    plan.transfer(steps).await.map_err(|errno| Error::cluster("copying the image", errno))?;
    found.set_state(steps, MigrationState::EXECUTED).await?;
    watchers::notify(steps, &target.place()).await?;
    make_maps(steps, target).await
}

fn not_ready(found: &MigrationPair, wanted: &str) -> Error {
    Error::refused(format!("the migration of {} is not {wanted}", found.target_image))
}

/// Creates the object maps, unless an earlier attempt did. Without maps the image is complete, only slower.
async fn make_maps(steps: &Steps, target: &Header) -> Result<(), Error> {
    let target = unmarked(header::read_with_id(steps, &target.spec, target.id.clone()).await?);
    if target.has_map() || !target.features.contains(Features::OBJECT_MAP) {
        return Ok(());
    }
    with_lock(steps, target, async |steps, header| {
        let header = unmarked(header.clone());
        for snap in &header.snap_context.snaps {
            let shown = header::read_at(steps, &header.spec, header.id.clone(), *snap).await?;
            object_map::rebuild(steps, &unmarked(shown)).await?;
        }
        object_map::rebuild(steps, &header).await?;
        watchers::notify(steps, &header.place()).await
    })
    .await
}

async fn commit(steps: &Steps, found: MigrationPair) -> Result<(), Error> {
    if MigrationState(found.spec.state) != MigrationState::EXECUTED {
        return Err(not_ready(&found, "executed"));
    }
    let Some(target) = &found.target else { return Err(not_migrating(&found.target_image)) };
    if found.spec.mirroring {
        return Err(needs_rbd_tool(&found.target_image, "it is to be mirrored again"));
    }
    forget_migration(steps, target).await?;
    if let Some(source) = &found.source {
        remove_image(steps, source).await?;
    }
    let ops = vec![calls::trash_remove(&found.source_id)];
    tolerate(steps.write(&found.source_pool.trash(), ops).await, "the trash")
}

async fn forget_migration(steps: &Steps, header: &Header) -> Result<(), Error> {
    match steps.write(&header.place(), vec![calls::remove_migration()]).await {
        Ok(_) | Err(Errno::NOENT | Errno::INVAL) => watchers::notify(steps, &header.place()).await,
        Err(errno) => {
            let step = format!("ending the migration of {}", header.spec);
            Err(Error::cluster(step, errno))
        }
    }
}

/// Removes an image with its snapshots. It is not in use, so its lock is free; it keeps the feature bit until
/// it is gone.
async fn remove_image(steps: &Steps, header: &Header) -> Result<(), Error> {
    let all = snapshot_list::read_all(steps, header).await?;
    if let Some(needed) =
        all.iter().find(|snapshot| snapshot.children > 0 || snapshot.is_protected())
    {
        let (image, name) = (&header.spec, needed.user_name());
        let text = format!("{image}@{name} has clones, or is protected");
        return Err(Error::refused(text));
    }
    let maps = Features::OBJECT_MAP.with(Features::FAST_DIFF);
    let mut bare = Header { features: header.features.without(maps), ..header.clone() };
    for snapshot in &all {
        detach::remove_without_clones(steps, &bare, snapshot).await?;
        remove_object(steps, &bare.spec.pool.snapshot_map(&bare.id, snapshot.id)).await?;
    }
    bare.snap_context.snaps.clear();
    remove_unused(steps, &bare).await
}

async fn abort(steps: &Steps, found: MigrationPair) -> Result<(), Error> {
    let image = &found.target_image;
    if found.spec.mirroring {
        return Err(needs_rbd_tool(image, "its source is to be mirrored again"));
    }
    let Some(source) = &found.source else {
        return Err(Error::refused(format!("the source of {image} is gone; `commit` ends it")));
    };
    if let Some(target) = &found.target {
        if let Some(watcher) = watchers::list(steps, &target.place()).await?.first() {
            let text = format!("{image} is in use by a client at {}", watcher.addr);
            return Err(Error::refused(text));
        }
        found.set_state(steps, MigrationState::ABORTING).await?;
        remove_image(steps, target).await?;
    }
    let (pool, name) = (&image.pool, &image.name);
    let ops = vec![calls::directory_remove(name, &found.target_id)];
    tolerate(steps.write(&pool.directory(), ops).await, "the directory")?;
    if header_name_is(steps, image, &found.target_id).await? {
        remove_object(steps, &pool.id_object(name)).await?;
    }
    restore(steps, &found, source).await
}

async fn header_name_is(steps: &Steps, image: &ImageSpec, id: &str) -> Result<bool, Error> {
    match header::find_id(steps, image).await {
        Ok(found) => Ok(found == id),
        Err(error) if error.errno() == Errno::NOENT => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives the source its name back.
async fn restore(steps: &Steps, found: &MigrationPair, source: &Header) -> Result<(), Error> {
    let (pool, id) = (&found.source_pool, &found.source_id);
    let image = ImageSpec { pool: pool.clone(), name: found.source_name.clone() };
    if !header_name_is(steps, &image, id).await? {
        create::claim_name(steps, &image, id).await?;
    }
    match steps.write(&pool.directory(), vec![calls::directory_add(&image.name, id)]).await {
        Ok(_) | Err(Errno::EXIST | Errno::BADF) => {}
        Err(errno) => return Err(Error::cluster(format!("naming {image} again"), errno)),
    }
    // The entry is removed before the image is usable, since images in the trash may be purged.
    tolerate(steps.write(&pool.trash(), vec![calls::trash_remove(id)]).await, "the trash")?;
    forget_migration(steps, source).await
}
