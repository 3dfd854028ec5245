//! Images that move: what was prepared with `rbd migration prepare` is carried out, ended or undone.
//!
//! Preparing makes a *target* that shows the *source* where it has no objects of its own, and puts the
//! source into the trash. The headers of both name each other. Everything here can be begun anew: what
//! an interruption leaves is found again by what the headers, or the trash, still say.

use super::remove::{remove_object, remove_unused, tolerate};
use super::{create, snapshots, tell_watchers, trash, watchers};
use crate::calls::{self, MigrationState, TrashEntry};
use crate::header::{self, Header};
use crate::lock::with_lock;
use crate::snapshot;
use crate::steps::{Steps, Stop, Task};
use crate::transfer::Plan;
use crate::{Error, Features, ImageSpec, Pool, object_map};
use bytes::Bytes;
use types::{Errno, MigrationSpec, PoolId, SnapId};
use wire::OsdOp;

/// What becomes of an image that moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// The target gets all that the source has.
    Execute,
    /// The source goes.
    Commit,
    /// The target goes, with all that was written to it, and the source comes back.
    Abort,
}

/// `image` is what the target is called, or what the source was called. `pools` are all that there are, and
/// namespaces in which a source may lie in the trash.
pub fn migrate(image: ImageSpec, action: Migration, pools: Vec<Pool>) -> Task<()> {
    Task::new(move |steps| {
        let found = find(steps, &image, &pools)?;
        match action {
            Migration::Execute => execute(steps, found),
            Migration::Commit => commit(steps, found),
            Migration::Abort => abort(steps, found),
        }
    })
}

/// Both ends of a migration, without the mark that makes others leave them alone.
struct Move {
    /// What the target's header says, or, if that is gone, the source's.
    spec: MigrationSpec,
    /// Nothing, if an earlier try removed it.
    source: Option<Header>,
    source_pool: Pool,
    source_id: String,
    source_name: String,
    target: Option<Header>,
    target_image: ImageSpec,
    target_id: String,
}

fn find(steps: &mut Steps, image: &ImageSpec, pools: &[Pool]) -> Result<Move, Stop> {
    match header::find_id(steps, image) {
        Ok(id) => match migration_of(steps, &image.pool, &id)? {
            Some(spec) if spec.is_destination() => from_target(steps, image, id, spec, pools),
            // The last step of undoing it is left.
            Some(spec) => {
                let entry = TrashEntry::moving(&image.name);
                from_source(steps, (image.pool.clone(), id, entry, spec), pools)
            }
            None => search(steps, pools, |_, _, _, spec| spec.image == id.as_bytes())?
                .map_or_else(|| Err(not_moving(image)), |found| from_source(steps, found, pools)),
        },
        Err(Stop::Failed(error)) if error.errno() == Errno::NOENT => {
            let is_meant = |pool: &Pool, _: &str, entry: &TrashEntry, spec: &MigrationSpec| {
                let was = pool == &image.pool && entry.name == image.name;
                was || spec.pool == image.pool.id.0 && spec.image_name == image.name.as_bytes()
            };
            match search(steps, pools, is_meant)? {
                Some(found) => from_source(steps, found, pools),
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

/// What a header says of a migration; nothing also if there is no header.
fn migration_of(steps: &mut Steps, pool: &Pool, id: &str) -> Result<Option<MigrationSpec>, Stop> {
    match steps.try_look(&pool.header(id), || vec![calls::get_migration()])? {
        Ok(reply) => Ok(Some(calls::output(&reply, 0, "the migration")?)),
        Err(Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::cluster("reading the migration", errno).into()),
    }
}

type Found = (Pool, String, TrashEntry, MigrationSpec);

/// The source in the trash that is meant.
fn search(
    steps: &mut Steps,
    pools: &[Pool],
    is_meant: impl Fn(&Pool, &str, &TrashEntry, &MigrationSpec) -> bool,
) -> Result<Option<Found>, Stop> {
    for pool in pools {
        let entries = trash::entries(steps, pool)?.into_iter();
        for (id, entry) in entries.filter(|(_, entry)| entry.is_moving()) {
            let Some(spec) = migration_of(steps, pool, &id)? else { continue };
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
    steps: &mut Steps,
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
    let target = Some(unmarked(header::read_with_id(steps, image, target_id.clone())?));
    let source_spec = ImageSpec { pool: source_pool.clone(), name: source_name.clone() };
    let source = existing(steps, &source_spec, &source_id)?;
    let target_image = image.clone();
    Ok(Move { spec, source, source_pool, source_id, source_name, target, target_image, target_id })
}

fn from_source(steps: &mut Steps, found: Found, pools: &[Pool]) -> Result<Move, Stop> {
    let (source_pool, source_id, entry, spec) = found;
    let source_spec = ImageSpec { pool: source_pool.clone(), name: entry.name.clone() };
    let source = existing(steps, &source_spec, &source_id)?;
    let target_image = ImageSpec { pool: pool_of(&spec, pools), name: text(&spec.image_name) };
    let target_id = text(&spec.image);
    let target = existing(steps, &target_image, &target_id)?;
    // The target's word counts as long as there is one.
    let told = migration_of(steps, &target_image.pool, &target_id)?;
    let spec = told.unwrap_or(spec);
    let source_name = entry.name;
    Ok(Move { spec, source, source_pool, source_id, source_name, target, target_image, target_id })
}

fn existing(steps: &mut Steps, image: &ImageSpec, id: &str) -> Result<Option<Header>, Stop> {
    match steps.try_look(&image.pool.header(id), || vec![OsdOp::stat()])? {
        Ok(_) => Ok(Some(unmarked(header::read_with_id(steps, image, id.to_owned())?))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::cluster(format!("looking for {image}"), errno).into()),
    }
}

fn unmarked(header: Header) -> Header {
    let features = header.features.without(Features::MIGRATING);
    Header { features, ..header }
}

impl Move {
    fn set_state(&self, steps: &mut Steps, state: MigrationState) -> Result<(), Stop> {
        for header in self.source.iter().chain(&self.target) {
            let ops = || vec![calls::set_migration_state(state)];
            steps.change("noting how far the migration is", &header.place(), ops)?;
        }
        Ok(())
    }

    /// That what is to be done here can be.
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

fn execute(steps: &mut Steps, found: Move) -> Result<(), Stop> {
    let (source, target) = found.check()?;
    match MigrationState(found.spec.state) {
        MigrationState::EXECUTED => return make_maps(steps, target),
        MigrationState::PREPARED | MigrationState::EXECUTING => {}
        _ => return Err(not_ready(&found, "prepared")),
    }
    found.set_state(steps, MigrationState::EXECUTING)?;
    if target.features.contains(Features::OBJECT_MAP) {
        // Whoever has the image open would take what comes to be for absent.
        object_map::mark_all_invalid(steps, target)?;
        tell_watchers(steps, &target.place())?;
    }
    let sizes = snapshot::read_all(steps, source)?.into_iter().map(|snapshot| snapshot.size);
    let largest = sizes.chain([source.size]).max().unwrap_or_default();
    let plan = || {
        let (snaps, objects) = (found.snaps(target), source.layout.objects(largest));
        Plan { source: source.clone(), target: target.clone(), snaps, objects }
    };
    steps.transfer("copying the image", plan)?;
    found.set_state(steps, MigrationState::EXECUTED)?;
    tell_watchers(steps, &target.place())?;
    make_maps(steps, target)
}

fn not_ready(found: &Move, wanted: &str) -> Stop {
    Error::refused(format!("the migration of {} is not {wanted}", found.target_image)).into()
}

/// An earlier try may have come that far. Until there are maps the image is whole, and only slower.
fn make_maps(steps: &mut Steps, target: &Header) -> Result<(), Stop> {
    let target = unmarked(header::read_with_id(steps, &target.spec, target.id.clone())?);
    if target.has_map() || !target.features.contains(Features::OBJECT_MAP) {
        return Ok(());
    }
    with_lock(steps, target, |steps, header| {
        let header = unmarked(header.clone());
        for snap in &header.snap_context.snaps {
            let shown = header::read_at(steps, &header.spec, header.id.clone(), *snap)?;
            object_map::rebuild(steps, &unmarked(shown))?;
        }
        object_map::rebuild(steps, &header)?;
        tell_watchers(steps, &header.place())
    })
}

fn commit(steps: &mut Steps, found: Move) -> Result<(), Stop> {
    if MigrationState(found.spec.state) != MigrationState::EXECUTED {
        return Err(not_ready(&found, "executed"));
    }
    let Some(target) = &found.target else { return Err(not_moving(&found.target_image)) };
    if found.spec.mirroring {
        return Err(foreground(&found.target_image, "it is to be mirrored again"));
    }
    forget_migration(steps, target)?;
    if let Some(source) = &found.source {
        remove_image(steps, source)?;
    }
    let ops = || vec![calls::trash_remove(&found.source_id)];
    tolerate(steps.try_change(&found.source_pool.trash(), ops)?, "the trash")
}

fn forget_migration(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    match steps.try_change(&header.place(), || vec![calls::remove_migration()])? {
        Ok(_) | Err(Errno::NOENT | Errno::INVAL) => tell_watchers(steps, &header.place()),
        Err(errno) => {
            let step = format!("ending the migration of {}", header.spec);
            Err(Error::cluster(step, errno).into())
        }
    }
}

/// With its snapshots. Nobody uses it, and so nobody has its lock; it keeps its mark until it is gone.
fn remove_image(steps: &mut Steps, header: &Header) -> Result<(), Stop> {
    let all = snapshot::read_all(steps, header)?;
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
        snapshots::discard(steps, &bare, snapshot)?;
        remove_object(steps, &bare.spec.pool.snapshot_map(&bare.id, snapshot.id))?;
    }
    bare.snap_context.snaps.clear();
    remove_unused(steps, &bare)
}

fn abort(steps: &mut Steps, found: Move) -> Result<(), Stop> {
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
        if let Some(watcher) = watchers(steps, &target.place())?.first() {
            let text = format!("{image} is in use by a client at {}", watcher.addr);
            return Err(Error::refused(text).into());
        }
        found.set_state(steps, MigrationState::ABORTING)?;
        remove_image(steps, target)?;
    }
    let (pool, name) = (&image.pool, &image.name);
    let ops = || vec![calls::directory_remove(name, &found.target_id)];
    tolerate(steps.try_change(&pool.directory(), ops)?, "the directory")?;
    if header_name_is(steps, image, &found.target_id)? {
        remove_object(steps, &pool.id_object(name))?;
    }
    restore(steps, &found, source)
}

fn header_name_is(steps: &mut Steps, image: &ImageSpec, id: &str) -> Result<bool, Stop> {
    match header::find_id(steps, image) {
        Ok(found) => Ok(found == id),
        Err(Stop::Failed(error)) if error.errno() == Errno::NOENT => Ok(false),
        Err(stop) => Err(stop),
    }
}

/// The source gets its name back.
fn restore(steps: &mut Steps, found: &Move, source: &Header) -> Result<(), Stop> {
    let (pool, id) = (&found.source_pool, &found.source_id);
    let image = ImageSpec { pool: pool.clone(), name: found.source_name.clone() };
    if !header_name_is(steps, &image, id)? {
        create::claim_name(steps, &image, id)?;
    }
    match steps.try_change(&pool.directory(), || vec![calls::directory_add(&image.name, id)])? {
        Ok(_) | Err(Errno::EXIST | Errno::BADF) => {}
        Err(errno) => return Err(Error::cluster(format!("naming {image} again"), errno).into()),
    }
    // Before it can be used: what lies in the trash may be purged.
    tolerate(steps.try_change(&pool.trash(), || vec![calls::trash_remove(id)])?, "the trash")?;
    forget_migration(steps, source)
}
