//! Making an image.

use crate::names::data_prefix;
use crate::steps::{Steps, Stop, Task};
use crate::{Error, Features, ImageSpec, Layout, calls, object_map};
use types::{Errno, PoolId};
use wire::OsdOp;

/// librbd's bounds for the size of objects.
const ORDERS: std::ops::RangeInclusive<u8> = 12..=25;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSpec {
    pub image: ImageSpec,
    /// Letters and digits that no image of the pool has; from the system's entropy.
    pub id: String,
    pub size: u64,
    /// Objects have 2^order bytes.
    pub order: u8,
    pub features: Features,
    pub data_pool: Option<PoolId>,
    /// Unit and count, if not whole objects one behind the other.
    pub striping: Option<(u64, u64)>,
}

impl CreateSpec {
    fn features(&self) -> Features {
        let mut features = self.features;
        if self.data_pool.is_some() {
            features = features.with(Features::DATA_POOL);
        }
        if self.striping.is_some() {
            features = features.with(Features::STRIPING);
        }
        features
    }

    fn check(&self) -> Result<(), Error> {
        let name = &self.image.name;
        if name.is_empty() || name.contains(['/', '@']) {
            return Err(Error::refused(format!("{name:?} is not a name for an image")));
        }
        if !ORDERS.contains(&self.order) {
            return Err(Error::refused("objects have 4K to 32M, a power of two"));
        }
        match self.layout() {
            Some(_) => self.features.check_dependencies(),
            None => Err(Error::refused("the stripe unit must divide the size of objects")),
        }
    }

    fn layout(&self) -> Option<Layout> {
        match self.striping {
            None => Layout::plain(self.order),
            Some((unit, count)) => Layout::new(self.order, unit, count),
        }
    }

    fn objects(&self) -> u64 {
        self.layout().map_or(0, |layout| layout.objects(self.size))
    }
}

pub fn create(spec: CreateSpec) -> Task<()> {
    Task::new(move |steps| make_image(steps, &spec, |_| Ok(()), |_| Ok(())))
}

/// Whoever finds the name finds a header that says all that is to be known to read and write the image
/// (`link`: what it is a clone of), and its object map. Of two who make the same image one fails to claim
/// the name; whatever fails later gives it back. The directory shows an image once it is furnished.
pub(super) fn make_image(
    steps: &mut Steps,
    spec: &CreateSpec,
    link: impl FnOnce(&mut Steps) -> Result<(), Stop>,
    furnish: impl FnOnce(&mut Steps) -> Result<(), Stop>,
) -> Result<(), Stop> {
    spec.check()?;
    make_header(steps, spec)?;
    let made = complete(steps, spec, link);
    match made.and_then(|()| claim_name(steps, &spec.image, &spec.id)) {
        Err(Stop::Failed(error)) => {
            clean_up(steps, spec)?;
            return Err(error.into());
        }
        outcome => outcome?,
    }
    match furnish(steps).and_then(|()| enter(steps, spec)) {
        Err(Stop::Failed(error)) => {
            clean_up(steps, spec)?;
            let remove = || vec![OsdOp::remove()];
            let _ = steps.try_change(&spec.image.pool.id_object(&spec.image.name), remove)?;
            Err(error.into())
        }
        outcome => outcome,
    }
}

/// Ties a name to an id, for the first who does.
pub(super) fn claim_name(steps: &mut Steps, image: &ImageSpec, id: &str) -> Result<(), Stop> {
    let ops = || vec![OsdOp::create(true), calls::set_id(id)];
    match steps.try_change(&image.pool.id_object(&image.name), ops)? {
        Ok(_) => Ok(()),
        Err(Errno::EXIST) => {
            Err(Error::cluster(format!("there is already an image {image}"), Errno::EXIST).into())
        }
        Err(errno) => Err(Error::cluster(format!("claiming the name {image}"), errno).into()),
    }
}

fn make_header(steps: &mut Steps, spec: &CreateSpec) -> Result<(), Stop> {
    let pool = &spec.image.pool;
    let prefix = data_prefix(pool.id, &spec.id, spec.data_pool.is_some());
    let data_pool = spec.data_pool.map_or(-1, |pool| pool.0);
    let features = spec.features().0;
    steps.change("making the header", &pool.header(&spec.id), || {
        vec![
            OsdOp::create(true),
            calls::create(spec.size, spec.order, features, &prefix, data_pool),
        ]
    })
}

fn complete(
    steps: &mut Steps,
    spec: &CreateSpec,
    link: impl FnOnce(&mut Steps) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let pool = &spec.image.pool;
    if let Some((unit, count)) = spec.striping {
        // In an operation of its own: a class need not see what the same one has made.
        let ops = || vec![calls::set_stripe_unit_count(unit, count)];
        steps.change("setting the striping", &pool.header(&spec.id), ops)?;
    }
    if spec.features().contains(Features::OBJECT_MAP) {
        let ops = || vec![object_map::calls::resize(spec.objects())];
        steps.change("making the object map", &pool.object_map(&spec.id), ops)?;
    }
    link(steps)
}

fn enter(steps: &mut Steps, spec: &CreateSpec) -> Result<(), Stop> {
    let ops = || vec![calls::directory_add(&spec.image.name, &spec.id)];
    steps.change("adding the image to the directory", &spec.image.pool.directory(), ops)
}

/// Undoes what may have been done before the name was claimed; nothing more can be done about what fails.
fn clean_up(steps: &mut Steps, spec: &CreateSpec) -> Result<(), Stop> {
    let pool = &spec.image.pool;
    let remove = || vec![OsdOp::remove()];
    let _ = steps.try_change(&pool.object_map(&spec.id), remove)?;
    let _ = steps.try_change(&pool.header(&spec.id), remove)?;
    Ok(())
}
