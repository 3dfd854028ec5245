//! Capabilities for a file system (`MDSAuthCaps`).
//!
//! ```text
//! grant = "allow" FLAGS [fsname=NAME] [path=PATH] [root_squash] [uid=N [gids=N,N...]] [network]
//! ```
//!
//! One grant must allow all that a request does to an inode. A grant with `uid` is for requests of that user
//! alone, who then needs the permissions of the inode, too: the client is not trusted to have checked them.
//! Nor is it believed which groups the user is in, beyond those that the grant names.

use super::{CapsError, network::Network, scanner::Scanner};
use crate::AuthCaps;
use std::net::IpAddr;

/// In order of parsing: the first match is taken, so longer flags come first.
const FLAGS: [&str; 11] =
    ["*", "all", "rwfps", "rwps", "rwfp", "rwfs", "rwp", "rws", "rwf", "rw", "r"];
/// Permission bits of an inode, of the last class.
const MODE_READ: u32 = 4;
const MODE_WRITE: u32 = 2;

/// Owner and permissions of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ownership {
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its mode.
    pub mode: u32,
}

/// A user of a client on whose behalf a request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caller<'a> {
    /// The user.
    pub uid: u32,
    /// Its first group.
    pub gid: u32,
    /// Its further groups.
    pub groups: &'a [u64],
}

/// Part of a request whose permission is checked.
#[derive(Debug, Clone, Copy)]
pub struct MdsAccess<'a> {
    /// The user.
    pub caller: Caller<'a>,
    /// Names of the path from the root to the inode.
    pub path: &'a [&'a [u8]],
    /// The inode.
    pub inode: Ownership,
    /// Owner and group after the request, if it changes them.
    pub new_owner: Option<(u32, u32)>,
    /// Owner and group of what the request creates in a directory.
    pub created: Option<(u32, u32)>,
    /// The request reads.
    pub reads: bool,
    /// The request changes the inode, or an entry of it.
    pub writes: bool,
    /// The change is one that only the owner may make, whatever the mode: of mode, owner or times.
    pub requires_owner: bool,
    /// The change is one of layout, quota or pin, for which a grant needs the flag `p`.
    pub sets_policy: bool,
    /// A snapshot is taken, removed or renamed, for which a grant needs the flag `s`.
    pub changes_snapshots: bool,
}

/// Level of access: the most that a client may do at a path, whatever its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MdsLevel {
    /// Nothing.
    Nothing,
    /// Reading.
    Read,
    /// Writing, by requests that are checked one by one: it depends on the user.
    CheckedWrite,
    /// Writing by any user.
    Write,
}

/// Parsed capabilities of one client for metadata servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MdsCaps {
    text: String,
    grants: Vec<MdsGrant>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct MdsGrant {
    writes: bool,
    /// Whether layouts, quotas and pins may be set.
    sets_policy: bool,
    /// `*`: also what is no access to files.
    everything: bool,
    /// `s`: snapshots.
    changes_snapshots: bool,
    file_system: Option<String>,
    /// Names from the root.
    path: Vec<String>,
    squashes_root: bool,
    uid: Option<u32>,
    gids: Vec<u32>,
    network: Option<Network>,
}

impl MdsCaps {
    /// Parses a whole text; the error names the position of the first token that does not fit.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        // Clients of the first file systems were given the word alone.
        if text == "allow" {
            return Ok(MdsCaps { text: text.to_owned(), ..MdsCaps::allow_all() });
        }
        let grants = Scanner::grants("mds", text, read_grant)?;
        Ok(MdsCaps { text: text.to_owned(), grants })
    }

    /// Capabilities of a ticket. A ticket without text grants nothing.
    ///
    /// # Errors
    ///
    /// The text does not parse.
    pub fn granted(caps: &AuthCaps) -> Result<Self, CapsError> {
        match caps.text.as_str() {
            _ if caps.allow_all => Ok(MdsCaps::allow_all()),
            "" => Ok(MdsCaps::default()),
            text => MdsCaps::parse(text),
        }
    }

    /// Capabilities of a client without authentication.
    pub fn allow_all() -> Self {
        let grant = MdsGrant {
            writes: true,
            everything: true,
            sets_policy: true,
            changes_snapshots: true,
            ..MdsGrant::default()
        };
        MdsCaps { text: "allow *".to_owned(), grants: vec![grant] }
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Those of the grants that are for a file system, and for a client at an address. `None` is in no
    /// network.
    pub fn within(&self, file_system: &str, peer: Option<IpAddr>) -> Self {
        let is_here = |grant: &&MdsGrant| {
            grant.file_system.as_deref().is_none_or(|name| name == file_system)
                && grant.network.as_ref().is_none_or(|network| network.contains(peer))
        };
        let grants = self.grants.iter().filter(is_here).cloned().collect();
        MdsCaps { text: self.text.clone(), grants }
    }

    /// Whether everything is allowed that has no permission of its own.
    pub fn allows_all(&self) -> bool {
        self.level_at(&[]) == MdsLevel::Write
    }

    /// Whether the server may be administered: `allow *` without a path or a user.
    pub fn administers(&self) -> bool {
        self.grants.iter().any(|grant| grant.everything && grant.is_unrestricted())
    }

    /// The most that is allowed at a path.
    pub fn level_at(&self, path: &[&[u8]]) -> MdsLevel {
        let grants = self.grants.iter().filter(|grant| grant.covers(path));
        grants.map(MdsGrant::level).max().unwrap_or(MdsLevel::Nothing)
    }

    /// The most that is allowed at any path.
    pub fn highest_level(&self) -> MdsLevel {
        self.grants.iter().map(MdsGrant::level).max().unwrap_or(MdsLevel::Nothing)
    }

    /// Whether one grant allows all of a request's part.
    pub fn allow(&self, access: &MdsAccess<'_>) -> bool {
        self.grants.iter().any(|grant| grant.allows(access))
    }
}

impl MdsGrant {
    fn covers(&self, path: &[&[u8]]) -> bool {
        let mut names = self.path.iter().zip(path);
        self.path.len() <= path.len() && names.all(|(own, name)| own.as_bytes() == *name)
    }

    fn is_unrestricted(&self) -> bool {
        self.covers(&[]) && self.level() == MdsLevel::Write
    }

    fn level(&self) -> MdsLevel {
        match self.writes {
            false => MdsLevel::Read,
            true if self.uid.is_some() || self.squashes_root => MdsLevel::CheckedWrite,
            true => MdsLevel::Write,
        }
    }

    fn allows(&self, access: &MdsAccess<'_>) -> bool {
        let Caller { uid, gid, .. } = access.caller;
        let is_squashed = self.squashes_root && (uid == 0 || gid == 0);
        self.covers(access.path)
            && self.is_for(&access.caller)
            && (!access.writes || self.writes && !is_squashed)
            && (!access.sets_policy || self.sets_policy)
            && (!access.changes_snapshots || self.changes_snapshots)
            && (self.uid.is_none() || self.permits(access))
    }

    fn is_for(&self, caller: &Caller<'_>) -> bool {
        let is_in = |gid: u64| self.gids.iter().any(|own| u64::from(*own) == gid);
        let is_member = || is_in(caller.gid.into()) || caller.groups.iter().any(|gid| is_in(*gid));
        self.uid.is_none_or(|uid| uid == caller.uid) && (self.gids.is_empty() || is_member())
    }

    /// Whether the permissions of the inode allow the access, as a kernel would decide.
    fn permits(&self, access: &MdsAccess<'_>) -> bool {
        let MdsAccess { caller, inode, .. } = access;
        if caller.uid == 0 {
            return true;
        }
        if access.requires_owner && caller.uid != inode.uid {
            return false;
        }
        let is_in_group = |gid: u32| {
            let is_claimed = caller.gid == gid || caller.groups.contains(&u64::from(gid));
            is_claimed && self.gids.contains(&gid)
        };
        // Else a file of another user could be made, which other hosts would execute as that user.
        if let Some((uid, gid)) = access.created
            && (uid != caller.uid || !self.gids.is_empty() && !is_in_group(gid))
        {
            return false;
        }
        // An owner may give the inode to a group that it is in, and to no other owner.
        if let Some((uid, gid)) = access.new_owner
            && (uid != inode.uid || gid != inode.gid && !is_in_group(gid))
        {
            return false;
        }
        let bits = match inode.uid == caller.uid {
            true => inode.mode >> 6,
            false if is_in_group(inode.gid) => inode.mode >> 3,
            false => inode.mode,
        };
        let needs_bit = access.writes && !access.requires_owner;
        (!access.reads || bits & MODE_READ != 0) && (!needs_bit || bits & MODE_WRITE != 0)
    }
}

fn read_grant(s: &mut Scanner<'_>) -> Option<MdsGrant> {
    s.expect("allow")?;
    s.spaces()?;
    let Some(flags) = FLAGS.into_iter().find(|flags| s.literal(flags)) else {
        s.expect("flags such as rw, or '*'")?;
        return None;
    };
    let file_system = s.attempt(|s| {
        s.spaced("fsname=")?;
        s.bare_word()
    });
    let path = s.attempt(|s| {
        s.spaced("path=")?;
        s.word_or_empty()
    });
    let squashes_root = s.spaced("root_squash").is_some();
    let uid = s.attempt(|s| {
        s.spaced("uid=")?;
        s.number()
    });
    let gids = uid.and_then(|_| s.attempt(read_gids)).unwrap_or_default();
    let network = s.network_clause().map(|text| Network::parse(&text));
    let names = path.iter().flat_map(|path| path.split('/')).filter(|name| !name.is_empty());
    let path = names.map(str::to_owned).collect();
    let everything = matches!(flags, "*" | "all");
    let (writes, sets_policy) = (flags != "r", everything || flags.contains('p'));
    let changes_snapshots = everything || flags.ends_with('s');
    Some(MdsGrant {
        writes,
        sets_policy,
        changes_snapshots,
        everything,
        file_system,
        path,
        squashes_root,
        uid,
        gids,
        network,
    })
}

fn read_gids(s: &mut Scanner<'_>) -> Option<Vec<u32>> {
    s.spaced("gids=")?;
    let mut gids = vec![s.number()?];
    while s.literal(",") {
        gids.push(s.number()?);
    }
    Some(gids)
}

#[cfg(test)]
#[path = "mds/tests.rs"]
mod tests;
