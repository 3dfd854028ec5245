//! `sepiola image`: block device images with the native client.

mod clones;
mod export;
mod import;
mod object_map;
mod show;
mod snapshot;
mod target;
mod window;

use crate::cli::{CreateArgs, FeatureCommand, ImageCommand, MoveImageArgs, ResizeArgs};
use access::ImageArgs;
use anyhow::Result;
use target::{begin, shaped};

/// `sepiola image …`
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

fn create(args: &CreateArgs) -> Result<()> {
    let ImageArgs { cluster, image } = &args.image;
    let (mut client, image) = begin(cluster, image)?;
    let spec = shaped(&mut client, image, args.size, &args.shape)?;
    client.run(rbd::create(spec))
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
