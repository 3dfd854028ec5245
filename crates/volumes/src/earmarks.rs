//! `fs subvolume earmark`: the service that a subvolume is for, which is NFS or SMB.
//!
//! An earmark is an extended attribute of the content's directory, as in Ceph. Nothing is held to it here.

use crate::catalog::Subvolumes;
use crate::failure::{During, Failure};
use crate::order::{Outcome, Printed, unknown};
use types::Errno;
use wire::InodeStat;
use wire::inode_stat::decode_xattrs;

const ATTRIBUTE: &str = "user.ceph.subvolume.earmark";

pub(crate) async fn run(all: &Subvolumes<'_>, action: &str) -> Outcome {
    let subvolume = all.named().await?;
    subvolume.must_be_complete(&format!("earmark-{action}"))?;
    let stat = all.content(&subvolume).await?;
    let mark = match action {
        "get" => return Ok(Printed::text(of(&stat)?)),
        "set" => all.order().text("earmark"),
        "rm" => "",
        _ => return Err(unknown(all.order())),
    };
    check(mark)?;
    set(all, subvolume.content(), mark).await?;
    Ok(Printed::none())
}

/// The earmark of a directory; empty if it has none.
pub(crate) fn of(stat: &InodeStat) -> Result<String, Failure> {
    if stat.xattrs.is_empty() {
        return Ok(String::new());
    }
    let unreadable = |_| Failure::new(Errno::IO, "extended attributes do not decode");
    let xattrs = decode_xattrs(&stat.xattrs).map_err(unreadable)?;
    let mark = xattrs.into_iter().find(|(name, _)| name == ATTRIBUTE.as_bytes());
    Ok(mark.map_or_else(String::new, |(_, mark)| String::from_utf8_lossy(&mark).into_owned()))
}

/// Gives a directory the earmark of the command, if it has one.
pub(crate) async fn give(all: &Subvolumes<'_>, path: &str) -> Result<(), Failure> {
    match all.order().optional("earmark") {
        Some(mark) => set(all, path, mark).await,
        None => Ok(()),
    }
}

async fn set(all: &Subvolumes<'_>, path: &str, mark: &str) -> Result<(), Failure> {
    let stored = all.tree().set_xattr(path, ATTRIBUTE, mark.to_owned()).await;
    stored.during(|| format!("setting the earmark of /{path}"))
}

/// Empty; `nfs` with any sections behind it; `smb`, or `smb.cluster.ID`.
pub(crate) fn check(mark: &str) -> Result<(), Failure> {
    let sections: Vec<&str> = mark.split('.').collect();
    let is_valid = match sections[..] {
        [""] | ["smb"] => true,
        ["smb", "cluster", id] => !id.is_empty(),
        ["nfs", ref rest @ ..] => rest.iter().all(|section| !section.is_empty()),
        _ => false,
    };
    match is_valid && mark.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "Invalid earmark specified: '{}' is none of nfs, nfs.NAME, smb, smb.cluster.ID",
            mark.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earmarks_name_nfs_or_smb() {
        for good in ["", "nfs", "nfs.share3", "nfs.a.b", "smb", "smb.cluster.x"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["nfs.", "nfs..a", "smb.", "smb.x.y", "smb.cluster.", "invalid.share", "nfs.a b"]
        {
            assert_eq!(check(bad).unwrap_err().errno, Errno::INVAL, "{bad}");
        }
    }
}
