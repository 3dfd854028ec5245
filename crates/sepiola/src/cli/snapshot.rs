//! Syntax of `sepiola image snap`, and of names of snapshots.

use super::values::{features, object_order};
use access::{ClusterArgs, ImageArgs, ImageName, SourceName, image_name, source_name};
use clap::{Args, Subcommand, ValueEnum};
use rbd::Features;
use std::fmt;

#[derive(Debug, Clone, Subcommand)]
pub enum SnapCommand {
    /// Give a name to what the image is now
    Create(SnapArgs),
    /// List the snapshots of an image
    Ls(SnapListArgs),
    /// Remove a snapshot
    #[command(visible_alias = "remove")]
    Rm(SnapArgs),
    /// Make the image what it was at a snapshot; what was written since is lost
    Rollback(SnapArgs),
    /// Protect a snapshot from removal (clones of format 1 need that)
    Protect(SnapArgs),
    /// Let it be removed again
    Unprotect(SnapArgs),
    /// Remove all snapshots of an image that are not protected
    Purge(ImageArgs),
    /// Give a snapshot another name
    Rename(SnapRenameArgs),
}

/// `[POOL/[NAMESPACE/]]IMAGE@SNAP`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapName {
    pub image: ImageName,
    pub snap: String,
}

impl fmt::Display for SnapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.image, self.snap)
    }
}

pub fn snap_name(text: &str) -> Result<SnapName, String> {
    let source = source_name(text)?;
    let snap = source.snap;
    let snap = snap.ok_or("a snapshot is named [POOL/[NAMESPACE/]]IMAGE@SNAP")?;
    Ok(SnapName { image: source.image, snap })
}

#[derive(Debug, Clone, Args)]
pub struct SnapArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// [POOL/[NAMESPACE/]]IMAGE@SNAP; the pool is `rbd` unless it is named
    #[arg(value_parser = snap_name)]
    pub snap: SnapName,
}

#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// [POOL/[NAMESPACE/]]IMAGE[@SNAP]; the pool is `rbd` unless it is named
    #[arg(value_parser = source_name)]
    pub source: SourceName,
}

#[derive(Debug, Clone, Args)]
pub struct CloneArgs {
    #[command(flatten)]
    pub snap: SnapArgs,
    /// [POOL/[NAMESPACE/]]IMAGE, the new image
    #[arg(value_parser = image_name)]
    pub child: ImageName,
    /// Where the parent learns of the clone: 2, in its header; 1, as clients before Mimic know it, which
    /// needs a protected snapshot
    #[arg(long, value_name = "1|2", default_value = "2")]
    pub clone_format: CloneFormatArg,
    /// Size of the objects with the data, a power of two from 4K to 32M [default: the parent's]
    #[arg(long, value_name = "SIZE", value_parser = object_order)]
    pub object_size: Option<u8>,
    /// Features, with commas between them
    #[arg(long, value_name = "NAME,…", value_parser = features, default_value_t = Features::DEFAULT)]
    pub features: Features,
    /// Keep the data in this pool, and only the header in the image's own
    #[arg(long, value_name = "POOL")]
    pub data_pool: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CloneFormatArg {
    #[value(name = "1")]
    One,
    #[value(name = "2")]
    Two,
}

#[derive(Debug, Clone, Args)]
pub struct ChildrenArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Print JSON instead of names
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct SnapListArgs {
    #[command(flatten)]
    pub image: ImageArgs,
    /// Also snapshots outside of the user namespace: removed ones that still have clones, and those of
    /// groups and mirroring
    #[arg(short, long)]
    pub all: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct SnapRenameArgs {
    #[command(flatten)]
    pub snap: SnapArgs,
    /// The new name, without the image's
    pub new: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_named_behind_their_image() {
        let snap = snap_name("pool/disk@monday").unwrap();
        assert_eq!((snap.to_string(), snap.snap.as_str()), ("pool/disk@monday".into(), "monday"));
        assert_eq!(source_name("disk").unwrap().snap, None);
        for bad in ["disk", "disk@", "disk@a@b", "@a", "disk@a/b"] {
            assert!(snap_name(bad).is_err(), "{bad}");
        }
    }
}
