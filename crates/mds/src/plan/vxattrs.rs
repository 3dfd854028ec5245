//! Plans of requests about extended attributes, stored and virtual ones, and about layouts in numbers.

use super::{Plan, Planner, Shown, change_of};
use crate::layouts::{LayoutField, ShownLayout, with_numbers};
use crate::vxattrs::{MIRROR_INFO, PinField, Vxattr};
use bytes::Bytes;
use fscaps::Groups;
use namespace::{AttributeChange, Ino, Inode, Kind, Pins};
use types::Errno;
use wire::client_request::{SetlayoutArguments, SetxattrArguments};
use wire::{ClientOp, ClientRequest, FileLayout, VirtualAttribute};

/// `CEPH_XATTR_CREATE`, `CEPH_XATTR_REPLACE` and `CEPH_XATTR_REMOVE`
const XATTR_FLAGS: [u32; 3] = [1, 2, 1 << 31];
/// Ranks that a map can have. A greater one is EDOM.
const RANKS_MAX: u32 = 256;
/// Greatest probability by which directories are distributed, Ceph's default. A greater one is EINVAL.
const RANDOM_MAX: f64 = 0.01;
/// Hexadecimal digits of the parts of a cluster's id.
const UUID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];

impl Planner<'_> {
    /// Sets or removes an extended attribute.
    pub(super) fn xattr(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let ino = self.walk(&request.path)?.existing()?;
        let SetxattrArguments { flags, .. } = request.arguments.read();
        let removes = request.op == ClientOp::RMXATTR || flags & XATTR_FLAGS[2] != 0;
        match request.path2.path.starts_with(b"ceph.") {
            true => self.set_vxattr(request, ino, removes),
            false => self.stored_xattr(request, ino, removes),
        }
    }

    fn stored_xattr(
        &self,
        request: &ClientRequest,
        ino: Ino,
        removes: bool,
    ) -> Result<Plan, Errno> {
        let name = request.path2.path.clone();
        let SetxattrArguments { flags, .. } = request.arguments.read();
        let [create, replace, _] = XATTR_FLAGS.map(|flag| flags & flag != 0);
        let change = match removes {
            true => AttributeChange::RemoveXattr { name },
            false => AttributeChange::SetXattr {
                name,
                value: request.data.clone(),
                must_create: create,
                must_replace: replace,
            },
        };
        Ok(self.changed(ino, Groups::XATTR, change))
    }

    /// Sets or removes a virtual attribute.
    fn set_vxattr(&self, request: &ClientRequest, ino: Ino, removes: bool) -> Result<Plan, Errno> {
        let inode = self.tree.get(ino).ok_or(Errno::STALE)?;
        // A part of a layout cannot be removed, but for the namespace.
        let value: &[u8] = if removes { b"" } else { &request.data };
        match Vxattr::named(&request.path2.path).ok_or(Errno::INVAL)? {
            Vxattr::DirectoryLayout(Some(LayoutField::Some)) if removes => {
                self.set_layout(inode, Kind::Directory, |_| Ok(None))
            }
            Vxattr::DirectoryLayout(field) => self.set_layout(inode, Kind::Directory, |layout| {
                field.ok_or(Errno::NODATA)?.set(layout, value, self.pools).map(Some)
            }),
            Vxattr::FileLayout(field) => self.set_layout(inode, Kind::File, |layout| {
                field.ok_or(Errno::NODATA)?.set(layout, value, self.pools).map(Some)
            }),
            Vxattr::Quota(field) => {
                let text = if removes { None } else { Some(text(value)?) };
                let quota = field.set(&inode.policy.quota, text)?;
                Ok(self.changed(ino, Groups::NONE, AttributeChange::SetQuota(quota)))
            }
            Vxattr::Pin(field) => self.set_pin(inode, field, (!removes).then_some(value)),
            Vxattr::MirrorInfo => self.set_mirror_info(request, inode, removes),
            Vxattr::MirrorSnapshot => self.stored_xattr(request, ino, removes),
        }
    }

    /// Sets a layout by numbers.
    pub(super) fn set_layout_numbers(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let arguments: SetlayoutArguments = request.arguments.read();
        let SetlayoutArguments { stripe_unit, stripe_count, object_size, pool, .. } = arguments;
        let ino = self.walk(&request.path)?.existing()?;
        let inode = self.tree.get(ino).ok_or(Errno::STALE)?;
        let kind = match request.op {
            ClientOp::SETDIRLAYOUT if !inode.is_directory() => return Err(Errno::NOTDIR),
            ClientOp::SETDIRLAYOUT => Kind::Directory,
            _ => Kind::File,
        };
        self.set_layout(inode, kind, |layout| {
            let sizes = [stripe_unit, stripe_count, object_size];
            with_numbers(layout, sizes, pool, self.pools).map(Some)
        })
    }

    fn set_layout(
        &self,
        inode: &Inode,
        kind: Kind,
        change: impl FnOnce(&FileLayout) -> Result<Option<FileLayout>, Errno>,
    ) -> Result<Plan, Errno> {
        if inode.kind() != kind {
            return Err(Errno::INVAL);
        }
        let layout = change(self.layout_of(inode.ino))?;
        // Clients may write by the layout, or create files by that of a directory, as long as they hold F.
        Ok(self.changed(inode.ino, Groups::FILE, AttributeChange::Layout(layout)))
    }

    fn set_pin(&self, inode: &Inode, field: PinField, value: Option<&[u8]>) -> Result<Plan, Errno> {
        if !inode.is_directory() || inode.ino == Ino::ROOT {
            return Err(Errno::INVAL);
        }
        let value = value.map(text).transpose()?;
        let mut pins = inode.policy.pins;
        match field {
            PinField::Rank => pins.rank = value.map(rank).transpose()?.flatten(),
            PinField::Distributed => {
                pins.is_distributed = value.map(truth).transpose()?.unwrap_or_default();
            }
            PinField::Random => pins.random = value.map(random).transpose()?.unwrap_or_default(),
        }
        Ok(self.changed(inode.ino, Groups::NONE, AttributeChange::Pins(pins)))
    }

    /// Two values, which are there together.
    fn set_mirror_info(
        &self,
        request: &ClientRequest,
        inode: &Inode,
        removes: bool,
    ) -> Result<Plan, Errno> {
        if inode.ino != Ino::ROOT {
            return Err(Errno::INVAL);
        }
        let SetxattrArguments { flags, .. } = request.arguments.read();
        let [create, replace, _] = XATTR_FLAGS.map(|flag| flags & flag != 0);
        let exists = |name: &&str| inode.xattrs.values.contains_key(name.as_bytes());
        // Both or none are changed.
        if create && MIRROR_INFO.iter().any(exists) {
            return Err(Errno::EXIST);
        }
        if (replace || removes) && !MIRROR_INFO.iter().all(exists) {
            return Err(Errno::NODATA);
        }
        let parts = if removes { None } else { Some(mirror_info(text(&request.data)?)?) };
        let change = |(at, name): (usize, &str)| match parts {
            None => AttributeChange::RemoveXattr { name: Bytes::copy_from_slice(name.as_bytes()) },
            Some(parts) => AttributeChange::SetXattr {
                name: Bytes::copy_from_slice(name.as_bytes()),
                value: Bytes::copy_from_slice(parts[at].as_bytes()),
                must_create: false,
                must_replace: false,
            },
        };
        let mut changes = MIRROR_INFO.into_iter().enumerate().map(change);
        let first = changes.next().expect("there are two values");
        let mut plan = self.changed(inode.ino, Groups::XATTR, first);
        plan.operations.extend(changes.map(|change| change_of(inode.ino, change)));
        Ok(plan)
    }

    /// Tells a virtual attribute that clients do not make of what they know of the inode.
    pub(super) fn get_vxattr(&self, request: &ClientRequest) -> Result<Plan, Errno> {
        let ino = self.walk(&request.path)?.existing()?;
        let inode = self.tree.get(ino).ok_or(Errno::STALE)?;
        let text = match Vxattr::named(&request.path2.path).ok_or(Errno::NODATA)? {
            Vxattr::DirectoryLayout(field) if inode.is_directory() => {
                self.shown_layout(inode, field)?
            }
            Vxattr::FileLayout(field) if inode.is_file() => self.shown_layout(inode, field)?,
            Vxattr::Quota(field) => field.show(&inode.policy.quota).ok_or(Errno::NODATA)?,
            Vxattr::Pin(field) if inode.is_directory() => shown_pin(&inode.policy.pins, field),
            _ => return Err(Errno::NODATA),
        };
        let told = codec::encode_to_bytes(&VirtualAttribute { value: text.into() });
        let shown = Shown { told: Some(told), ..Shown::default() };
        Ok(Plan { shown, told_of: Some(ino), ..Plan::default() })
    }

    fn shown_layout(&self, inode: &Inode, field: Option<LayoutField>) -> Result<String, Errno> {
        let layout = self.layout_of(inode.ino);
        let is_default = layout == self.default_layout;
        let shown = ShownLayout { layout, is_default, is_own: inode.layout.is_some() };
        field.and_then(|field| field.show(&shown, self.pools)).ok_or(Errno::NODATA)
    }
}

fn shown_pin(pins: &Pins, field: PinField) -> String {
    match field {
        PinField::Rank => pins.rank.map_or("-1".to_owned(), |rank| rank.to_string()),
        PinField::Distributed => u8::from(pins.is_distributed).to_string(),
        PinField::Random => f64::from_bits(pins.random).to_string(),
    }
}

/// A value as programs in C may give it, with the zero at the end.
fn text(value: &[u8]) -> Result<&str, Errno> {
    let value = value.strip_suffix(b"\0").unwrap_or(value);
    std::str::from_utf8(value).map_err(|_| Errno::INVAL)
}

/// A rank; below 0 is none.
fn rank(value: &str) -> Result<Option<u32>, Errno> {
    let rank: i32 = value.parse().map_err(|_| Errno::INVAL)?;
    match u32::try_from(rank) {
        Ok(rank) if rank >= RANKS_MAX => Err(Errno::DOM),
        rank => Ok(rank.ok()),
    }
}

fn truth(value: &str) -> Result<bool, Errno> {
    match value {
        "0" | "false" | "no" | "off" => Ok(false),
        "1" | "true" | "yes" | "on" => Ok(true),
        _ => Err(Errno::INVAL),
    }
}

fn random(value: &str) -> Result<u64, Errno> {
    let probability: f64 = value.parse().map_err(|_| Errno::INVAL)?;
    match probability {
        _ if !(0.0..=1.0).contains(&probability) => Err(Errno::DOM),
        _ if probability > RANDOM_MAX => Err(Errno::INVAL),
        // One zero only.
        _ => Ok((probability + 0.0).to_bits()),
    }
}

/// The parts of `cluster_id=UUID fs_id=N`.
fn mirror_info(value: &str) -> Result<[&str; 2], Errno> {
    let (cluster, fs) = value.split_once(' ').ok_or(Errno::INVAL)?;
    let cluster = cluster.strip_prefix("cluster_id=").ok_or(Errno::INVAL)?;
    let fs = fs.strip_prefix("fs_id=").ok_or(Errno::INVAL)?;
    let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&str> = cluster.split('-').collect();
    let is_uuid =
        parts.iter().map(|part| part.len()).eq(UUID_PARTS) && parts.iter().all(|part| is_hex(part));
    let is_number = !fs.is_empty() && fs.bytes().all(|byte| byte.is_ascii_digit());
    if is_uuid && is_number { Ok([cluster, fs]) } else { Err(Errno::INVAL) }
}
