//! Syntax of `sepiola image`.

use super::snapshot::{ChildrenArgs, CloneArgs, SnapCommand, SourceArgs};
use super::values::{features, object_order};
use access::{ClusterArgs, ImageArgs, ImageName, POOL_DEFAULT, PoolName, image_name, pool_name};
use bench::ImageBenchArgs;
use clap::{Args, Subcommand};
use rbd::Features;
use std::path::PathBuf;

#[derive(Debug, Clone, Subcommand)]
pub enum ImageCommand {
    /// Make an empty image
    Create(CreateArgs),
    /// List the images of a pool
    Ls(ImagePoolArgs),
    /// Show what an image or a snapshot is
    Info(InfoArgs),
    /// Remove an image with its data
    #[command(visible_alias = "remove")]
    Rm(ImageArgs),
    /// Give an image another name
    #[command(visible_alias = "rename")]
    Mv(MoveImageArgs),
    /// Give an image another size
    Resize(ResizeArgs),
    /// Make an image of a file (or standard input); holes and zeros take no space
    Import(ImportArgs),
    /// Give an image a feature, or take one away
    Feature {
        #[command(subcommand)]
        command: FeatureCommand,
    },
    /// Make object maps anew, and compare them with the objects
    ObjectMap {
        #[command(subcommand)]
        command: ObjectMapCommand,
    },
    /// Show how much of an image is in use
    Du(UsageArgs),
    /// Copy an image or a snapshot into a file (or standard output); what was never written becomes
    /// holes
    Export(ExportArgs),
    /// Measure an image with the native client
    Bench(ImageBenchArgs),
    /// Take snapshots of an image, list, protect and remove them, and go back to one
    Snap {
        #[command(subcommand)]
        command: SnapCommand,
    },
    /// Make an image that shows what a snapshot does, until it is written
    Clone(CloneArgs),
    /// List the clones of an image or a snapshot
    Children(ChildrenArgs),
    /// Copy into a clone what it shows of its parent, so that it needs it no longer
    Flatten(ImageArgs),
}

/// As `rbd` reads sizes: a number without a unit is MiB.
pub fn image_size(text: &str) -> Result<u64, String> {
    let is_bare = text.chars().all(|c| c.is_ascii_digit());
    let size = if is_bare { format!("{text}M") } else { text.to_owned() };
    stdx::parse_bytes(&size).ok_or_else(|| "expected a size such as 512M, 10G or 1T".to_owned())
}

#[derive(Debug, Clone, Args)]
pub struct ImagePoolArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// POOL[/NAMESPACE]
    #[arg(value_parser = pool_name, default_value = POOL_DEFAULT)]
    pub pool: PoolName,
    /// Print JSON instead of names
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct InfoArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct CreateArgs {
    #[command(flatten)]
    pub image: ImageArgs,
    /// Such as 512M, 10G or 1T; a number alone is MiB
    #[arg(short, long, value_name = "SIZE", value_parser = image_size)]
    pub size: u64,
    #[command(flatten)]
    pub shape: ShapeArgs,
}

/// Properties that an image keeps for its whole life.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Shape of the image")]
pub struct ShapeArgs {
    /// Size of the objects with the data, a power of two from 4K to 32M
    #[arg(long, value_name = "SIZE", value_parser = object_order, default_value = "4M")]
    pub object_size: u8,
    /// Features, with commas between them
    #[arg(long = "image-feature", visible_alias = "features", value_name = "NAME,…")]
    #[arg(value_parser = features, default_value_t = Features::DEFAULT)]
    pub features: Features,
    /// Keep the data in this pool, and only the header in the image's own
    #[arg(long, value_name = "POOL")]
    pub data_pool: Option<String>,
    /// Stripe over several objects, in pieces of this size
    #[arg(long, value_name = "SIZE", value_parser = image_size_in_bytes, requires = "stripe_count")]
    pub stripe_unit: Option<u64>,
    /// The number of objects that are striped over
    #[arg(long, value_name = "COUNT", requires = "stripe_unit")]
    pub stripe_count: Option<u64>,
}

fn image_size_in_bytes(text: &str) -> Result<u64, String> {
    stdx::parse_bytes(text).ok_or_else(|| "expected a size such as 64K".to_owned())
}

#[derive(Debug, Clone, Subcommand)]
pub enum FeatureCommand {
    /// exclusive-lock, object-map, fast-diff; `object-map rebuild` fills a new object map
    Enable(FeatureArgs),
    /// exclusive-lock, object-map (with fast-diff), fast-diff, deep-flatten
    Disable(FeatureArgs),
}

#[derive(Debug, Clone, Subcommand)]
pub enum ObjectMapCommand {
    /// Make the object map of an image or a snapshot anew, by a look at every object
    Rebuild(SourceArgs),
    /// Compare the object map of an image or a snapshot with the objects; one that is wrong becomes invalid
    Check(SourceArgs),
}

#[derive(Debug, Clone, Args)]
pub struct FeatureArgs {
    #[command(flatten)]
    pub image: ImageArgs,
    /// Features, with commas between them
    #[arg(value_name = "NAME,…", value_parser = features)]
    pub features: Features,
}

#[derive(Debug, Clone, Args)]
pub struct UsageArgs {
    #[command(flatten)]
    pub image: ImageArgs,
    /// Print JSON instead of a sentence
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct MoveImageArgs {
    #[command(flatten)]
    pub image: ImageArgs,
    /// The new name, in the same pool
    pub new: String,
}

#[derive(Debug, Clone, Args)]
pub struct ResizeArgs {
    #[command(flatten)]
    pub image: ImageArgs,
    /// Such as 512M, 10G or 1T; a number alone is MiB
    #[arg(short, long, value_name = "SIZE", value_parser = image_size)]
    pub size: u64,
    /// The image may become smaller and lose what is behind its new end
    #[arg(long)]
    pub allow_shrink: bool,
}

#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// File, block device, or `-` for standard input
    pub file: PathBuf,
    /// [POOL/[NAMESPACE/]]IMAGE; the pool is `rbd` unless it is named
    #[arg(value_parser = image_name)]
    pub image: ImageName,
    /// Size of the image [default: the file's; standard input needs it]
    #[arg(short, long, value_name = "SIZE", value_parser = image_size)]
    pub size: Option<u64>,
    #[command(flatten)]
    pub shape: ShapeArgs,
}

#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// File, block device, or `-` for standard output
    pub file: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_without_a_unit_are_mebibytes() {
        assert_eq!(image_size("64"), Ok(64 << 20));
        assert_eq!(image_size("4K"), Ok(4096));
        assert!(image_size("many").is_err() && image_size("").is_err());
    }
}
