//! Creation of an image.

use crate::names::data_prefix;
use crate::steps::NamedSteps;
use crate::task::Task;
use crate::{Error, Features, ImageSpec, Layout, calls, object_map};
use rados::Steps;
use types::{Errno, PoolId};
use wire::OsdOp;

/// librbd's bounds for the size of objects.
const ORDERS: std::ops::RangeInclusive<u8> = 12..=25;

/// Parameters of [`create`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSpec {
    /// The image to create.
    pub image: ImageSpec,
    /// Letters and digits, unique in the pool; the caller takes them from the system's entropy.
    pub id: String,
    /// Size in bytes.
    pub size: u64,
    /// Objects have 2^order bytes.
    pub order: u8,
    /// Features of the image; those that follow from other parameters are added.
    pub features: Features,
    /// Pool of the data objects; `None` for the pool of the header.
    pub data_pool: Option<PoolId>,
    /// Stripe unit and count; `None` for no striping.
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

/// Creates an image; EEXIST if the name is taken. A failed creation leaves nothing behind that has the name.
pub fn create(spec: CreateSpec) -> Task<()> {
    Task::new(async move |steps| {
        make_image(&steps, &spec, async |_| Ok(()), async |_| Ok(())).await
    })
}

/// Creates an image, or a clone if `link` names a parent. A client that resolves the name finds a complete
/// header, and the object map. Of two clients that create the same name one fails to claim it; a later
/// failure releases the claim. The directory lists the image last.
pub(super) async fn make_image(
    steps: &Steps,
    spec: &CreateSpec,
    link: impl AsyncFnOnce(&Steps) -> Result<(), Error>,
    furnish: impl AsyncFnOnce(&Steps) -> Result<(), Error>,
) -> Result<(), Error> {
    spec.check()?;
    make_header(steps, spec).await?;
    let claimed = async {
        complete(steps, spec, link).await?;
        claim_name(steps, &spec.image, &spec.id).await
    };
    if let Err(error) = claimed.await {
        clean_up(steps, spec).await;
        return Err(error);
    }
    let entered = async {
        furnish(steps).await?;
        add_to_directory(steps, spec).await
    };
    let outcome = entered.await;
    if outcome.is_err() {
        clean_up(steps, spec).await;
        let remove = vec![OsdOp::remove()];
        let _ = steps.write(&spec.image.pool.id_object(&spec.image.name), remove).await;
    }
    outcome
}

/// Binds a name to an id; fails if the name is bound already.
pub(super) async fn claim_name(steps: &Steps, image: &ImageSpec, id: &str) -> Result<(), Error> {
    let ops = vec![OsdOp::create(true), calls::set_id(id)];
    match steps.write(&image.pool.id_object(&image.name), ops).await {
        Ok(_) => Ok(()),
        Err(Errno::EXIST) => {
            Err(Error::cluster(format!("there is already an image {image}"), Errno::EXIST))
        }
        Err(errno) => Err(Error::cluster(format!("claiming the name {image}"), errno)),
    }
}

async fn make_header(steps: &Steps, spec: &CreateSpec) -> Result<(), Error> {
    let pool = &spec.image.pool;
    let prefix = data_prefix(pool.id, &spec.id, spec.data_pool.is_some());
    let data_pool = spec.data_pool.map_or(-1, |pool| pool.0);
    let features = spec.features().0;
    let create = calls::create(spec.size, spec.order, features, &prefix, data_pool);
    let ops = vec![OsdOp::create(true), create];
    steps.write_step("creating the header", &pool.header(&spec.id), ops).await
}

async fn complete(
    steps: &Steps,
    spec: &CreateSpec,
    link: impl AsyncFnOnce(&Steps) -> Result<(), Error>,
) -> Result<(), Error> {
    let pool = &spec.image.pool;
    if let Some((unit, count)) = spec.striping {
        // This is an operation of its own, since a class need not see what the same operation vector has
        // created.
        let ops = vec![calls::set_stripe_unit_count(unit, count)];
        steps.write_step("setting the striping", &pool.header(&spec.id), ops).await?;
    }
    if spec.features().contains(Features::OBJECT_MAP) {
        let ops = vec![object_map::calls::resize(spec.objects())];
        steps.write_step("creating the object map", &pool.object_map(&spec.id), ops).await?;
    }
    link(steps).await
}

async fn add_to_directory(steps: &Steps, spec: &CreateSpec) -> Result<(), Error> {
    let ops = vec![calls::directory_add(&spec.image.name, &spec.id)];
    steps.write_step("adding the image to the directory", &spec.image.pool.directory(), ops).await
}

/// Removes what was created before the name was claimed; errors of the removal are dropped.
async fn clean_up(steps: &Steps, spec: &CreateSpec) {
    let pool = &spec.image.pool;
    let _ = steps.write(&pool.object_map(&spec.id), vec![OsdOp::remove()]).await;
    let _ = steps.write(&pool.header(&spec.id), vec![OsdOp::remove()]).await;
}
