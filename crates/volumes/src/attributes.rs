//! Attributes of directories of groups and subvolumes: owner, permissions, quota, layout, pins.

use crate::failure::{During, Failure};
use crate::order::{Order, Outcome, Printed};
use crate::tree::{Attributes, Tree};
use serde_json::{Value, json};
use types::{Errno, UTime};
use wire::InodeStat;

const MODE_DEFAULT: u32 = 0o755;
const QUOTA: &str = "ceph.quota.max_bytes";
const POOL: &str = "ceph.dir.layout.pool";
const NAMESPACE: &str = "ceph.dir.layout.pool_namespace";

/// Attributes that a command asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Wanted {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    pool: Option<String>,
    namespace: Option<String>,
}

impl Wanted {
    /// Those of a command's arguments.
    pub(crate) fn of(order: &Order) -> Result<Self, Failure> {
        Ok(Wanted {
            mode: order.mode()?,
            uid: order.id("uid")?,
            gid: order.id("gid")?,
            size: order.number("size")?.filter(|size| *size > 0),
            pool: order.pool_layout()?.map(str::to_owned),
            namespace: None,
        })
    }

    /// The same with a namespace for the data.
    pub(crate) fn in_namespace(self, namespace: Option<String>) -> Self {
        Wanted { namespace, ..self }
    }

    /// The same with the owner of a directory above, unless another one was given.
    pub(crate) fn below(self, parent: &InodeStat) -> Self {
        let (uid, gid) = (self.uid.or(Some(parent.uid)), self.gid.or(Some(parent.gid)));
        Wanted { uid, gid, ..self }
    }

    /// Permissions of a new directory.
    pub(crate) fn mode(&self) -> u32 {
        self.mode.unwrap_or(MODE_DEFAULT)
    }

    /// Gives them to a directory. A new one gets all; one that was there only those that were asked for.
    pub(crate) async fn apply(
        &self,
        tree: &Tree,
        order: &Order,
        path: &str,
        is_new: bool,
    ) -> Result<(), Failure> {
        let step = || format!("setting attributes of /{path}");
        if is_new || self.uid.is_some() || self.gid.is_some() || self.mode.is_some() {
            let stat = tree.stat(path).await.during(step)?;
            let owner = (self.uid.unwrap_or(stat.uid), self.gid.unwrap_or(stat.gid));
            let mode = if is_new { Some(self.mode()) } else { self.mode };
            let owner = Some(owner).filter(|owner| *owner != (stat.uid, stat.gid));
            tree.set(path, Attributes { mode, owner, times: None }).await.during(step)?;
        }
        if let Some(pool) = &self.pool {
            let set = tree.set_xattr(path, POOL, pool.clone()).await;
            set.map_err(|errno| match errno {
                // Files that are there keep their pool, so Ceph refuses nothing here either.
                Errno::INVAL => Failure::invalid(format!(
                    "Invalid pool layout '{pool}'. It must be a valid data pool of '{}'",
                    order.volume.name
                )),
                errno => Failure::new(errno, format!("{}: {}", step(), errno.text())),
            })?;
        }
        if let Some(namespace) = self.namespace.as_ref().filter(|_| is_new) {
            tree.set_xattr(path, NAMESPACE, namespace.clone()).await.during(step)?;
        }
        if let Some(size) = self.size {
            set_quota(tree, path, size).await?;
        }
        Ok(())
    }
}

/// Sets the quota of a directory in bytes; 0 for none.
pub(crate) async fn set_quota(tree: &Tree, path: &str, bytes: u64) -> Result<(), Failure> {
    let set = tree.set_xattr(path, QUOTA, bytes.to_string()).await;
    set.during(|| format!("setting the quota of /{path}"))
}

/// Gives a new directory the pool and the namespace of another one.
pub(crate) async fn copy_layout(
    tree: &Tree,
    order: &Order,
    from: &InodeStat,
    path: &str,
) -> Result<(), Failure> {
    let wanted = Wanted {
        mode: None,
        pool: Some(order.pool_name(from.layout.pool.0)).filter(|name| !name.is_empty()),
        namespace: Some(from.layout.namespace.clone()).filter(|name| !name.is_empty()),
        ..Wanted::default()
    };
    wanted.apply(tree, order, path, true).await
}

/// A new size, as a command tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resize {
    /// In bytes; `None` for no bound.
    size: Option<u64>,
    may_shrink: bool,
}

impl Resize {
    /// The size of a command's arguments.
    pub(crate) fn of(order: &Order) -> Result<Self, Failure> {
        let text = order.text("new_size");
        let size = match text.to_lowercase().as_str() {
            "inf" | "infinite" => None,
            text => {
                let size: Option<u64> = text.parse().ok().filter(|size| *size > 0);
                let invalid = || Failure::invalid(format!("invalid size option '{text}'"));
                Some(size.ok_or_else(invalid)?)
            }
        };
        Ok(Resize { size, may_shrink: !order.flag("no_shrink") })
    }

    /// Sets the quota of a directory, and tells it with the bytes that are used.
    pub(crate) async fn apply(
        self,
        tree: &Tree,
        path: &str,
        stat: &InodeStat,
        kind: &str,
    ) -> Outcome {
        let used = stat.rbytes;
        if let Some(size) = self.size.filter(|size| *size < used && !self.may_shrink) {
            let text = format!(
                "Can't resize the {kind}. The new size '{size}' would be lesser than the current used size '{used}'"
            );
            return Err(Failure::invalid(text));
        }
        set_quota(tree, path, self.size.unwrap_or(0)).await?;
        let quota = self.size.map_or(json!("infinite"), |size| json!(size));
        let parts = [
            json!({ "bytes_used": used }),
            json!({ "bytes_quota": quota }),
            json!({ "bytes_pcent": percentage(used, self.size) }),
        ];
        Ok(Printed::json(&json!(parts)))
    }
}

fn percentage(used: u64, quota: Option<u64>) -> String {
    match quota.filter(|quota| *quota > 0) {
        Some(quota) => format!("{:.2}", used as f64 / quota as f64 * 100.0),
        None => "undefined".to_owned(),
    }
}

/// Facts of a directory, for `info`.
pub(crate) fn info(order: &Order, stat: &InodeStat, place: &DataPlace) -> Value {
    let quota = Some(stat.quota.max_bytes).filter(|bytes| *bytes > 0);
    json!({
        "uid": stat.uid,
        "gid": stat.gid,
        "mode": stat.mode,
        "data_pool": place.pool,
        "created_at": time(stat.btime),
        "atime": time(stat.atime),
        "mtime": time(stat.mtime),
        "ctime": time(stat.ctime),
        "bytes_used": stat.rbytes,
        "bytes_quota": quota.map_or(json!("infinite"), |quota| json!(quota)),
        "bytes_pcent": percentage(stat.rbytes, quota),
        "mon_addrs": order.volume.mon_addrs,
    })
}

/// Pool and namespace of the data of new files in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DataPlace {
    pub(crate) pool: String,
    pub(crate) namespace: String,
}

impl DataPlace {
    /// By the layout of a directory, or by that of the nearest one above that has any.
    pub(crate) async fn of(
        tree: &Tree,
        order: &Order,
        path: &str,
        stat: &InodeStat,
    ) -> Result<DataPlace, Failure> {
        let (mut path, mut layout) = (path, stat.layout.clone());
        let is_known = |id| order.volume.data_pools.iter().any(|pool| pool.id == id);
        while !is_known(layout.pool.0) && !path.is_empty() {
            // The directory of snapshots has no layout.
            path = path.rsplit_once('/').map_or("", |(above, _)| above.trim_end_matches('/'));
            let step = || format!("looking at /{path}");
            layout = tree.stat(path).await.during(step)?.layout;
        }
        let default = order.volume.data_pools.first().map_or(-1, |pool| pool.id);
        let pool = if is_known(layout.pool.0) { layout.pool.0 } else { default };
        Ok(DataPlace { pool: order.pool_name(pool), namespace: layout.namespace })
    }
}

/// `ceph.dir.pin` and its kin.
pub(crate) async fn pin(tree: &Tree, order: &Order, path: &str) -> Outcome {
    let name = match order.text("pin_type") {
        "export" => "ceph.dir.pin",
        "distributed" => "ceph.dir.pin.distributed",
        _ => "ceph.dir.pin.random",
    };
    let value = order.text("pin_setting");
    match tree.set_xattr(path, name, value.to_owned()).await {
        Err(Errno::INVAL | Errno::DOM) => {
            Err(Failure::invalid(format!("invalid pin setting '{value}' of '{name}'")))
        }
        set => set.during(|| format!("pinning /{path}")).map(|()| Printed::json(&json!({}))),
    }
}

/// `YYYY-MM-DD HH:MM:SS` in UTC.
pub(crate) fn time(time: UTime) -> String {
    time.to_iso().replace('T', " ").chars().take(19).collect()
}

/// The same with microseconds.
pub(crate) fn precise_time(of: UTime) -> String {
    format!("{}.{:06}", time(of), of.nanoseconds / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resize(size: &str, no_shrink: bool) -> Result<Resize, Failure> {
        let pairs = [("new_size", size.to_owned()), ("no_shrink", no_shrink.to_string())];
        let arguments = pairs.map(|(key, value)| (key.to_owned(), value)).into();
        Resize::of(&Order { arguments, ..Order::default() })
    }

    #[test]
    fn sizes_are_numbers_or_infinite() {
        assert_eq!(resize("10", false), Ok(Resize { size: Some(10), may_shrink: true }));
        assert_eq!(resize("INF", true), Ok(Resize { size: None, may_shrink: false }));
        for bad in ["0", "-1", "x", ""] {
            let refusal = resize(bad, false).unwrap_err();
            assert_eq!(refusal.errno, Errno::INVAL);
        }
        assert_eq!(resize("x", false).unwrap_err().text, "invalid size option 'x'");
    }

    #[test]
    fn times_are_shown_as_python_shows_them() {
        let at = |seconds, nanoseconds| UTime { seconds, nanoseconds };
        assert_eq!(time(at(0, 0)), "1970-01-01 00:00:00");
        assert_eq!(time(at(951_827_696, 0)), "2000-02-29 12:34:56");
        assert_eq!(time(at(1_655_214_898, 0)), "2022-06-14 13:54:58");
        assert_eq!(precise_time(at(1_655_214_898, 618_769_000)), "2022-06-14 13:54:58.618769");
    }

    #[test]
    fn a_percentage_needs_a_quota() {
        assert_eq!(percentage(1, Some(3)), "33.33");
        assert_eq!(percentage(1, None), "undefined");
    }
}
