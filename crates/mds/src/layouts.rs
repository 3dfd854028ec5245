//! Layouts as clients name them: by attributes such as `ceph.dir.layout.pool`, and by arguments of requests.

use serde_json::Value;
use std::collections::BTreeMap;
use types::{Epoch, Errno, PoolId};
use wire::FileLayout;

/// Longest RADOS namespace in bytes, as OSDs take it. A longer one is EINVAL.
const NAMESPACE_MAX_BYTES: usize = 256;

/// The data pools of the file system, as far as the server's maps show them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DataPools {
    /// Names by number; empty for a pool that the OSD map does not have.
    pub names: BTreeMap<PoolId, String>,
    /// Epoch of the map of metadata servers.
    pub map_epoch: u32,
    /// Epoch of the OSD map.
    pub osd_epoch: Epoch,
    /// Whether the metadata pool is nearly full, so that creates may be refused soon.
    pub is_short: bool,
    /// Whether it is full, so that creates are refused.
    pub is_full: bool,
}

impl DataPools {
    fn named(&self, name: &str) -> Option<PoolId> {
        self.names.iter().find(|(_, own)| !name.is_empty() && *own == name).map(|(id, _)| *id)
    }

    fn name(&self, pool: PoolId) -> &str {
        self.names.get(&pool).map_or("", String::as_str)
    }

    /// A layout that files can have.
    ///
    /// # Errors
    ///
    /// EINVAL: sizes do not fit each other, or the pool is no data pool of the file system.
    pub fn checked(&self, layout: FileLayout) -> Result<FileLayout, Errno> {
        let is_namespace = layout.namespace.len() <= NAMESPACE_MAX_BYTES;
        let is_fitting = layout.is_valid() && self.names.contains_key(&layout.pool) && is_namespace;
        if is_fitting { Ok(layout) } else { Err(Errno::INVAL) }
    }
}

/// A part of a layout that has an attribute of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayoutField {
    /// Parts that are named, as `stripe_unit=65536 pool=data`.
    Some,
    /// All, as a JSON object.
    Json,
    /// Bytes of a stripe unit.
    StripeUnit,
    /// Objects of a stripe.
    StripeCount,
    /// Bytes of an object.
    ObjectSize,
    /// Number or name of the pool.
    Pool,
    /// Number of the pool.
    PoolId,
    /// Name of the pool.
    PoolName,
    /// The RADOS namespace.
    Namespace,
}

impl LayoutField {
    /// The part that the rest of a name means.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "" => LayoutField::Some,
            ".json" => LayoutField::Json,
            ".stripe_unit" => LayoutField::StripeUnit,
            ".stripe_count" => LayoutField::StripeCount,
            ".object_size" => LayoutField::ObjectSize,
            ".pool" => LayoutField::Pool,
            ".pool_id" => LayoutField::PoolId,
            ".pool_name" => LayoutField::PoolName,
            ".pool_namespace" => LayoutField::Namespace,
            _ => return None,
        })
    }

    /// The layout with this part of it changed to a value.
    ///
    /// # Errors
    ///
    /// ENODATA if the value names a part that there is not; EINVAL if it does not parse or does not fit.
    pub fn set(
        self,
        layout: &FileLayout,
        value: &[u8],
        pools: &DataPools,
    ) -> Result<FileLayout, Errno> {
        // Programs in C may count the zero at the end.
        let value = std::str::from_utf8(value).map_err(|_| Errno::INVAL)?.trim_end_matches('\0');
        let mut changed = layout.clone();
        match self {
            LayoutField::Some => set_named(&mut changed, value, pools)?,
            LayoutField::Json => set_json(&mut changed, value, pools)?,
            field => field.set_part(&mut changed, value, pools)?,
        }
        pools.checked(changed)
    }

    fn set_part(
        self,
        layout: &mut FileLayout,
        value: &str,
        pools: &DataPools,
    ) -> Result<(), Errno> {
        let size = || value.parse::<u32>().map_err(|_| Errno::INVAL);
        let id = || value.parse::<i64>().map(PoolId).map_err(|_| Errno::INVAL);
        let named = || pools.named(value).ok_or(Errno::INVAL);
        match self {
            LayoutField::StripeUnit => layout.stripe_unit = size()?,
            LayoutField::StripeCount => layout.stripe_count = size()?,
            LayoutField::ObjectSize => layout.object_size = size()?,
            LayoutField::Pool => layout.pool = id().or_else(|_| named())?,
            LayoutField::PoolId => layout.pool = id()?,
            LayoutField::PoolName => layout.pool = named()?,
            LayoutField::Namespace => value.clone_into(&mut layout.namespace),
            LayoutField::Some | LayoutField::Json => return Err(Errno::NODATA),
        }
        Ok(())
    }

    /// The value that the server tells of this part. Clients know the other parts with the inode.
    pub fn show(self, shown: &ShownLayout<'_>, pools: &DataPools) -> Option<String> {
        let pool = shown.layout.pool;
        match self {
            LayoutField::Json => Some(json(shown, pools)),
            LayoutField::PoolId => Some(pool.0.to_string()),
            LayoutField::PoolName => Some(pools.name(pool).to_owned()),
            _ => None,
        }
    }
}

fn set_named(layout: &mut FileLayout, value: &str, pools: &DataPools) -> Result<(), Errno> {
    let mut parts = value.split(' ').filter(|part| !part.is_empty()).peekable();
    parts.peek().ok_or(Errno::INVAL)?;
    for part in parts {
        let (name, value) = part.split_once('=').ok_or(Errno::INVAL)?;
        let field = LayoutField::named(&format!(".{name}")).ok_or(Errno::NODATA)?;
        field.set_part(layout, value, pools)?;
    }
    Ok(())
}

/// Sizes must be there, and the pool by its name or number; a namespace that is not there is none.
fn set_json(layout: &mut FileLayout, value: &str, pools: &DataPools) -> Result<(), Errno> {
    let value: Value = serde_json::from_str(value).map_err(|_| Errno::INVAL)?;
    let object = value.as_object().ok_or(Errno::INVAL)?;
    let text = |name: &str| match object.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(Errno::INVAL),
    };
    let needed = |name: &str| text(name)?.ok_or(Errno::INVAL);
    let (pool, pool_name) = match text("pool_name")?.filter(|name| !name.is_empty()) {
        Some(name) => (LayoutField::PoolName, name),
        None => (LayoutField::PoolId, needed("pool_id")?),
    };
    let parts = [
        (LayoutField::StripeUnit, needed("stripe_unit")?),
        (LayoutField::StripeCount, needed("stripe_count")?),
        (LayoutField::ObjectSize, needed("object_size")?),
        (LayoutField::Namespace, text("pool_namespace")?.unwrap_or_default()),
        (pool, pool_name),
    ];
    parts.iter().try_for_each(|(field, value)| field.set_part(layout, value, pools))
}

/// The layout of an inode, and from where it has it.
#[derive(Debug)]
pub(crate) struct ShownLayout<'a> {
    /// The layout.
    pub layout: &'a FileLayout,
    /// Whether it is that of directories without one.
    pub is_default: bool,
    /// Whether the inode has it itself.
    pub is_own: bool,
}

fn json(shown: &ShownLayout<'_>, pools: &DataPools) -> String {
    let ShownLayout { layout, is_default, is_own } = shown;
    let FileLayout { stripe_unit, stripe_count, object_size, pool, namespace } = layout;
    let (pool_name, namespace) = (Value::from(pools.name(*pool)), Value::from(namespace.as_str()));
    let inheritance = match (is_default, is_own) {
        (true, _) => "@default",
        (false, true) => "@set",
        (false, false) => "@inherited",
    };
    // With the spaces that Ceph has: programs look for `"inheritance": "@default"`.
    format!(
        r#"{{"stripe_unit": {stripe_unit}, "stripe_count": {stripe_count}, "object_size": {object_size}, "pool_name": {pool_name}, "pool_id": {}, "pool_namespace": {namespace}, "inheritance": "{inheritance}"}}"#,
        pool.0
    )
}

/// The layout with those numbers changed that are not 0.
///
/// # Errors
///
/// See [`DataPools::checked`].
pub(crate) fn with_numbers(
    layout: &FileLayout,
    [stripe_unit, stripe_count, object_size]: [u32; 3],
    pool: i32,
    pools: &DataPools,
) -> Result<FileLayout, Errno> {
    let or = |new: u32, old: u32| if new == 0 { old } else { new };
    pools.checked(FileLayout {
        stripe_unit: or(stripe_unit, layout.stripe_unit),
        stripe_count: or(stripe_count, layout.stripe_count),
        object_size: or(object_size, layout.object_size),
        pool: if pool > 0 { PoolId(pool.into()) } else { layout.pool },
        namespace: layout.namespace.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools() -> DataPools {
        let names = [(3, "data"), (5, "fast")].map(|(id, name)| (PoolId(id), name.to_owned()));
        DataPools { names: names.into(), ..DataPools::default() }
    }

    fn set(name: &str, value: &str) -> Result<FileLayout, Errno> {
        let field = LayoutField::named(name).ok_or(Errno::NODATA)?;
        field.set(&FileLayout::simple(PoolId(3)), value.as_bytes(), &pools())
    }

    #[test]
    fn a_part_is_set_by_its_name() {
        let plain = FileLayout::simple(PoolId(3));
        assert_eq!(set(".stripe_unit", "65536").unwrap().stripe_unit, 65536);
        assert_eq!(set(".stripe_count", "7").unwrap().stripe_count, 7);
        assert_eq!(set(".object_size", "8388608\0").unwrap().object_size, 8 << 20);
        for (name, value) in
            [(".pool", "5"), (".pool", "fast"), (".pool_id", "5"), (".pool_name", "fast")]
        {
            assert_eq!(set(name, value).unwrap(), FileLayout { pool: PoolId(5), ..plain.clone() });
        }
        let named = set(".pool_namespace", "theirs").unwrap();
        assert_eq!(named, FileLayout { namespace: "theirs".to_owned(), ..plain.clone() });
        let some = set("", "stripe_unit=65536 pool=fast").unwrap();
        assert_eq!(some, FileLayout { stripe_unit: 65536, pool: PoolId(5), ..plain });
    }

    #[test]
    fn a_layout_that_does_not_fit_is_refused() {
        for (name, value) in [
            (".stripe_unit", "65537"),
            (".stripe_unit", "12582912"),
            (".stripe_unit", "many"),
            (".stripe_count", "0"),
            (".object_size", "4194305"),
            (".pool", "9"),
            (".pool", "none"),
            (".pool_name", ""),
            (".pool_name", "5"),
            (".pool_id", "fast"),
            ("", ""),
            ("", "stripe_unit"),
            ("", "stripe_unit=0"),
            (".pool_namespace", &"n".repeat(257)),
            (".json", "{}"),
            (".json", r#""stripe_unit": 65536"#),
            (".json", r#"{"stripe_unit": 65536, "stripe_count": 1, "object_size": 65536}"#),
        ] {
            assert_eq!(set(name, value), Err(Errno::INVAL), "{name} {value}");
        }
        assert_eq!(set(".color", "1"), Err(Errno::NODATA));
        assert_eq!(set("", "color=1"), Err(Errno::NODATA));
    }

    #[test]
    fn json_that_is_shown_can_be_set() {
        let layout = FileLayout {
            stripe_unit: 65536,
            stripe_count: 2,
            object_size: 131_072,
            pool: PoolId(5),
            namespace: "a \"b\"".to_owned(),
        };
        let shown = ShownLayout { layout: &layout, is_default: false, is_own: true };
        let text = LayoutField::Json.show(&shown, &pools()).unwrap();
        assert!(text.contains(r#""pool_name": "fast", "pool_id": 5, "#), "{text}");
        assert!(text.ends_with(r#""inheritance": "@set"}"#), "{text}");
        assert_eq!(set(".json", &text), Ok(layout));
    }

    #[test]
    fn numbers_that_are_0_stay() {
        let plain = FileLayout::simple(PoolId(3));
        assert_eq!(with_numbers(&plain, [0; 3], 0, &pools()).as_ref(), Ok(&plain));
        assert_eq!(with_numbers(&plain, [0; 3], -1, &pools()).as_ref(), Ok(&plain));
        let changed = with_numbers(&plain, [65536, 3, 131_072], 5, &pools()).unwrap();
        assert_eq!((changed.stripe_count, changed.pool), (3, PoolId(5)));
        assert_eq!(with_numbers(&plain, [0, 0, 0], 4, &pools()), Err(Errno::INVAL));
    }
}
