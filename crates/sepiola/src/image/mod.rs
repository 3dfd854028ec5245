//! `sepiola image`: block device images with the native client.

mod clones;
mod export;
mod image_service;
mod import;
mod object_map;
mod show;
mod snapshot;
mod window;
mod worker;

use crate::cli::{CreateArgs, FeatureCommand, ImageCommand, MoveImageArgs};
use crate::cli::{ResizeArgs, ShapeArgs};
use access::{BlockingClient, ClusterArgs, ImageArgs, ImageName, new_id, spec_of};
use anyhow::Result;
use rbd::{CreateSpec, ImageSpec};
pub use worker::Worker;

pub fn run(command: &ImageCommand) -> Result<()> {
    match command {
        ImageCommand::Create(args) => create(args),
        ImageCommand::Ls(args) => show::list(args),
        ImageCommand::Info(args) => show::info(args),
        ImageCommand::Rm(args) => remove(args),
        ImageCommand::Mv(args) => rename(args),
        ImageCommand::Resize(args) => resize(args),
        ImageCommand::Import(args) => import::import(args),
        ImageCommand::Feature { command } => change_features(command),
        ImageCommand::ObjectMap { command } => object_map::run(command),
        ImageCommand::Du(args) => show::usage(args),
        ImageCommand::Export(args) => export::export(args),
        ImageCommand::Bench(args) => bench::bench_image(args),
        ImageCommand::Snap { command } => snapshot::run(command),
        ImageCommand::Clone(args) => clones::clone(args),
        ImageCommand::Children(args) => clones::children(args),
        ImageCommand::Flatten(args) => clones::flatten(args),
    }
}

/// Connects, and resolves the pool in the image's name.
fn begin(cluster: &ClusterArgs, image: &ImageName) -> Result<(BlockingClient, ImageSpec)> {
    let mut client = BlockingClient::open(cluster)?;
    let spec = spec_of(&mut client, image)?;
    Ok((client, spec))
}

fn create(args: &CreateArgs) -> Result<()> {
    let ImageArgs { cluster, image } = &args.image;
    let (mut client, image) = begin(cluster, image)?;
    let spec = shaped(&mut client, image, args.size, &args.shape)?;
    client.run(rbd::create(spec))
}

fn shaped(
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

fn remove(args: &ImageArgs) -> Result<()> {
    let (mut client, image) = begin(&args.cluster, &args.image)?;
    client.run(rbd::remove(image))
}

fn rename(args: &MoveImageArgs) -> Result<()> {
    let (mut client, image) = begin(&args.image.cluster, &args.image.image)?;
    client.run(rbd::rename(image, args.new.clone()))
}

fn resize(args: &ResizeArgs) -> Result<()> {
    let (mut client, image) = begin(&args.image.cluster, &args.image.image)?;
    client.run(rbd::resize(image, args.size, args.allow_shrink))
}

fn change_features(command: &FeatureCommand) -> Result<()> {
    let (args, is_on) = match command {
        FeatureCommand::Enable(args) => (args, true),
        FeatureCommand::Disable(args) => (args, false),
    };
    let (mut client, image) = begin(&args.image.cluster, &args.image.image)?;
    client.run(rbd::change_features(image, args.features, is_on))
}
