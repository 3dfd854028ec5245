//! Migration of images: executes, commits or aborts what `rbd migration prepare` has set up.
//!
//! Preparation creates a *target* that shows the *source* where it has no objects of its own, and moves the
//! source to the trash. The headers of both name each other. All steps are idempotent: an interrupted one is
//! found again through the headers, or through the trash.

use super::remove::{remove_object, remove_unused, tolerate};
use super::{create, snapshots, tell_watchers, trash, watchers};
use crate::calls::{self, MigrationState, TrashEntry};
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::snapshot;
use crate::task::Task;
use crate::transfer::Plan;
use crate::workflow::{Stop, Workflow};
use crate::{Error, Features, ImageSpec, Pool, object_map};
use bytes::Bytes;
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
    Task::new(move |workflow| {
        let found = find(workflow, &image, &pools)?;
        match action {
            Migration::Execute => execute(workflow, found),
            Migration::Commit => commit(workflow, found),
            Migration::Abort => abort(workflow, found),
        }
    })
}

/// Both ends of a migration; the headers are without the feature bit that excludes other clients.
struct Move {
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

fn find(workflow: &mut Workflow, image: &ImageSpec, pools: &[Pool]) -> Result<Move, Stop> {
    match header::find_id(workflow, image) {
        Ok(id) => match migration_of(workflow, &image.pool, &id)? {
            Some(spec) if spec.is_destination() => from_target(workflow, image, id, spec, pools),
            // Only the last step of the abort is left.
            Some(spec) => {
                let entry = TrashEntry::moving(&image.name);
                from_source(workflow, (image.pool.clone(), id, entry, spec), pools)
            }
            None => search(workflow, pools, |_, _, _, spec| spec.image == id.as_bytes())?
                .map_or_else(
                    || Err(not_moving(image)),
                    |found| from_source(workflow, found, pools),
                ),
        },
        Err(Stop::Failed(error)) if error.errno() == Errno::NOENT => {
            let is_meant = |pool: &Pool, _: &str, entry: &TrashEntry, spec: &MigrationSpec| {
                let was = pool == &image.pool && entry.name == image.name;
                was || spec.pool == image.pool.id.0 && spec.image_name == image.name.as_bytes()
            };
            match search(workflow, pools, is_meant)? {
                Some(found) => from_source(workflow, found, pools),
                None => Err(error.into()),
            }
        }
        Err(stop) => Err(stop),
    }
}

fn not_moving(image: &ImageSpec) -> Stop {
    Error::refused(format!("{image} is not being moved; `rbd migration prepare` begins that"))
        .into()
}

fn foreground(image: &ImageSpec, why: &str) -> Stop {
    Error::refused(format!("{why}: use `rbd migration` for {image} instead of a task")).into()
}

/// The migration spec of a header; `None` also if there is no header.
fn migration_of(
    workflow: &mut Workflow,
    pool: &Pool,
    id: &str,
) -> Result<Option<MigrationSpec>, Stop> {
    match workflow.try_read(&pool.header(id), || vec![calls::get_migration()])? {
        Ok(reply) => Ok(Some(calls::output(&reply, 0, "the migration")?)),
        Err(Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::cluster("reading the migration", errno).into()),
    }
}

type TrashedSource = (Pool, String, TrashEntry, MigrationSpec);

/// Finds the source in the trash.
fn search(
    workflow: &mut Workflow,
    pools: &[Pool],
    is_meant: impl Fn(&Pool, &str, &TrashEntry, &MigrationSpec) -> bool,
) -> Result<Option<TrashedSource>, Stop> {
    for pool in pools {
        let entries = trash::entries(workflow, pool)?.into_iter();
        for (id, entry) in entries.filter(|(_, entry)| entry.is_moving()) {
            let Some(spec) = migration_of(workflow, pool, &id)? else { continue };
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

fn from_target(
    workflow: &mut Workflow,
    image: &ImageSpec,
    target_id: String,
    spec: MigrationSpec,
    pools: &[Pool],
) -> Result<Move, Stop> {
    if !spec.source.is_empty() || spec.pool < 0 || spec.image.is_empty() {
        return Err(foreground(image, "its source is no image of this cluster in format 2"));
    }
    let (source_pool, source_id) = (pool_of(&spec, pools), text(&spec.image));
    let source_name = text(&spec.image_name);
    let target = Some(unmarked(header::read_with_id(workflow, image, target_id.clone())?));
    let source_spec = ImageSpec { pool: source_pool.clone(), name: source_name.clone() };
    let source = existing(workflow, &source_spec, &source_id)?;
    let target_image = image.clone();
    Ok(Move { spec, source, source_pool, source_id, source_name, target, target_image, target_id })
}

fn from_source(
    workflow: &mut Workflow,
    found: TrashedSource,
    pools: &[Pool],
) -> Result<Move, Stop> {
    let (source_pool, source_id, entry, spec) = found;
    let source_spec = ImageSpec { pool: source_pool.clone(), name: entry.name.clone() };
    let source = existing(workflow, &source_spec, &source_id)?;
    let target_image = ImageSpec { pool: pool_of(&spec, pools), name: text(&spec.image_name) };
    let target_id = text(&spec.image);
    let target = existing(workflow, &target_image, &target_id)?;
    // The target's spec decides as long as the target exists.
    let told = migration_of(workflow, &target_image.pool, &target_id)?;
    let spec = told.unwrap_or(spec);
    let source_name = entry.name;
    Ok(Move { spec, source, source_pool, source_id, source_name, target, target_image, target_id })
}

fn existing(workflow: &mut Workflow, image: &ImageSpec, id: &str) -> Result<Option<Header>, Stop> {
    match workflow.try_read(&image.pool.header(id), || vec![OsdOp::stat()])? {
        Ok(_) => Ok(Some(unmarked(header::read_with_id(workflow, image, id.to_owned())?))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::cluster(format!("looking for {image}"), errno).into()),
    }
}

fn unmarked(header: Header) -> Header {
    let features = header.features.without(Features::MIGRATING);
    Header { features, ..header }
}

impl Move {
    fn set_state(&self, workflow: &mut Workflow, state: MigrationState) -> Result<(), Stop> {
        for header in self.source.iter().chain(&self.target) {
            let ops = || vec![calls::set_migration_state(state)];
            workflow.write("noting how far the migration is", &header.place(), ops)?;
        }
        Ok(())
    }

    /// Checks that the action is possible in the current state.
    fn check(&self) -> Result<(&Header, &Header), Stop> {
        let image = &self.target_image;
        let (Some(source), Some(target)) = (&self.source, &self.target) else {
            return Err(
                Error::refused(format!("{image} lacks its other end; `abort` undoes it")).into()
            );
        };
        let kept = source.features.check_writable(&source.spec.to_string());
        kept.and_then(|()| target.features.check_writable(&image.to_string()))?;
        if source.layout != target.layout {
            return Err(foreground(
                image,
                "its objects have another size or striping than the source's",
            ));
        }
        if source.parent.is_some() != target.parent.is_some() {
            return Err(foreground(image, "it is to be flattened"));
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

fn execute(workflow: &mut Workflow, found: Move) -> Result<(), Stop> {
    let (source, target) = found.check()?;
    match MigrationState(found.spec.state) {
        MigrationState::EXECUTED => return make_maps(workflow, target),
        MigrationState::PREPARED | MigrationState::EXECUTING => {}
        _ => return Err(not_ready(&found, "prepared")),
    }
    found.set_state(workflow, MigrationState::EXECUTING)?;
    if target.features.contains(Features::OBJECT_MAP) {
        // A client that has the target open would take copied objects for absent.
        object_map::mark_all_invalid(workflow, target)?;
        tell_watchers(workflow, &target.place())?;
    }
    let sizes = snapshot::read_all(workflow, source)?.into_iter().map(|snapshot| snapshot.size);
    let largest = sizes.chain([source.size]).max().unwrap_or_default();
    let plan = || {
        let (snaps, objects) = (found.snaps(target), source.layout.objects(largest));
        Plan { source: source.clone(), target: target.clone(), snaps, objects }
    };
    workflow.transfer("copying the image", plan)?;
    found.set_state(workflow, MigrationState::EXECUTED)?;
    tell_watchers(workflow, &target.place())?;
    make_maps(workflow, target)
}

fn not_ready(found: &Move, wanted: &str) -> Stop {
    Error::refused(format!("the migration of {} is not {wanted}", found.target_image)).into()
}

/// Creates the object maps, unless an earlier attempt did. Without maps the image is complete, only slower.
fn make_maps(workflow: &mut Workflow, target: &Header) -> Result<(), Stop> {
    let target = unmarked(header::read_with_id(workflow, &target.spec, target.id.clone())?);
    if target.has_map() || !target.features.contains(Features::OBJECT_MAP) {
        return Ok(());
    }
    with_lock(workflow, target, |workflow, header| {
        let header = unmarked(header.clone());
        for snap in &header.snap_context.snaps {
            let shown = header::read_at(workflow, &header.spec, header.id.clone(), *snap)?;
            object_map::rebuild(workflow, &unmarked(shown))?;
        }
        object_map::rebuild(workflow, &header)?;
        tell_watchers(workflow, &header.place())
    })
}

fn commit(workflow: &mut Workflow, found: Move) -> Result<(), Stop> {
    if MigrationState(found.spec.state) != MigrationState::EXECUTED {
        return Err(not_ready(&found, "executed"));
    }
    let Some(target) = &found.target else { return Err(not_moving(&found.target_image)) };
    if found.spec.mirroring {
        return Err(foreground(&found.target_image, "it is to be mirrored again"));
    }
    forget_migration(workflow, target)?;
    if let Some(source) = &found.source {
        remove_image(workflow, source)?;
    }
    let ops = || vec![calls::trash_remove(&found.source_id)];
    Ok(tolerate(workflow.try_write(&found.source_pool.trash(), ops)?, "the trash")?)
}

fn forget_migration(workflow: &mut Workflow, header: &Header) -> Result<(), Stop> {
    match workflow.try_write(&header.place(), || vec![calls::remove_migration()])? {
        Ok(_) | Err(Errno::NOENT | Errno::INVAL) => tell_watchers(workflow, &header.place()),
        Err(errno) => {
            let step = format!("ending the migration of {}", header.spec);
            Err(Error::cluster(step, errno).into())
        }
    }
}

/// Removes an image with its snapshots. It is not in use, so its lock is free; it keeps the feature bit until
/// it is gone.
fn remove_image(workflow: &mut Workflow, header: &Header) -> Result<(), Stop> {
    let all = snapshot::read_all(workflow, header)?;
    if let Some(needed) =
        all.iter().find(|snapshot| snapshot.children > 0 || snapshot.is_protected())
    {
        let (image, name) = (&header.spec, needed.user_name());
        let text = format!("{image}@{name} has clones, or is protected");
        return Err(Error::refused(text).into());
    }
    let maps = Features::OBJECT_MAP.with(Features::FAST_DIFF);
    let mut bare = Header { features: header.features.without(maps), ..header.clone() };
    for snapshot in &all {
        snapshots::discard(workflow, &bare, snapshot)?;
        remove_object(workflow, &bare.spec.pool.snapshot_map(&bare.id, snapshot.id))?;
    }
    bare.snap_context.snaps.clear();
    remove_unused(workflow, &bare)
}

fn abort(workflow: &mut Workflow, found: Move) -> Result<(), Stop> {
    let image = &found.target_image;
    if found.spec.mirroring {
        return Err(foreground(image, "its source is to be mirrored again"));
    }
    let Some(source) = &found.source else {
        return Err(
            Error::refused(format!("the source of {image} is gone; `commit` ends it")).into()
        );
    };
    if let Some(target) = &found.target {
        if let Some(watcher) = watchers(workflow, &target.place())?.first() {
            let text = format!("{image} is in use by a client at {}", watcher.addr);
            return Err(Error::refused(text).into());
        }
        found.set_state(workflow, MigrationState::ABORTING)?;
        remove_image(workflow, target)?;
    }
    let (pool, name) = (&image.pool, &image.name);
    let ops = || vec![calls::directory_remove(name, &found.target_id)];
    tolerate(workflow.try_write(&pool.directory(), ops)?, "the directory")?;
    if header_name_is(workflow, image, &found.target_id)? {
        remove_object(workflow, &pool.id_object(name))?;
    }
    restore(workflow, &found, source)
}

fn header_name_is(workflow: &mut Workflow, image: &ImageSpec, id: &str) -> Result<bool, Stop> {
    match header::find_id(workflow, image) {
        Ok(found) => Ok(found == id),
        Err(Stop::Failed(error)) if error.errno() == Errno::NOENT => Ok(false),
        Err(stop) => Err(stop),
    }
}

/// Gives the source its name back.
fn restore(workflow: &mut Workflow, found: &Move, source: &Header) -> Result<(), Stop> {
    let (pool, id) = (&found.source_pool, &found.source_id);
    let image = ImageSpec { pool: pool.clone(), name: found.source_name.clone() };
    if !header_name_is(workflow, &image, id)? {
        create::claim_name(workflow, &image, id)?;
    }
    match workflow.try_write(&pool.directory(), || vec![calls::directory_add(&image.name, id)])? {
        Ok(_) | Err(Errno::EXIST | Errno::BADF) => {}
        Err(errno) => return Err(Error::cluster(format!("naming {image} again"), errno).into()),
    }
    // The entry is removed before the image is usable, since images in the trash may be purged.
    tolerate(workflow.try_write(&pool.trash(), || vec![calls::trash_remove(id)])?, "the trash")?;
    forget_migration(workflow, source)
}
