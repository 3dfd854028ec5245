//! The image that a command works on.

use crate::cli::ShapeArgs;
use access::{BlockingClient, ClusterArgs, ImageName, new_id, spec_of};
use anyhow::Result;
use rbd::{CreateSpec, ImageSpec};

/// Connects, and resolves the pool in the image's name.
pub fn begin(cluster: &ClusterArgs, image: &ImageName) -> Result<(BlockingClient, ImageSpec)> {
    let mut client = BlockingClient::open(cluster)?;
    let spec = spec_of(&mut client, image)?;
    Ok((client, spec))
}

/// Specification of a new image, with a new id.
pub fn shaped(
    client: &mut BlockingClient,
    image: ImageSpec,
    size: u64,
    shape: &ShapeArgs,
) -> Result<CreateSpec> {
    let data_pool = shape.data_pool.as_ref().map(|name| client.pool(name)).transpose()?;
    Ok(CreateSpec {
        image,
        id: new_id()?,
        size,
        order: shape.object_size,
        features: shape.features,
        data_pool,
        striping: shape.stripe_unit.zip(shape.stripe_count),
    })
}
