//! `fs volume info`.

use crate::failure::During;
use crate::order::{Order, Outcome, Pool, Printed, unknown};
use crate::paths;
use crate::tree::Tree;
use serde_json::{Value, json};
use types::Errno;

pub(crate) async fn run(tree: &Tree, order: &Order) -> Outcome {
    if order.prefix != "fs volume info" {
        return Err(unknown(order));
    }
    let root = tree.stat("").await.during(|| "looking at the root".to_owned())?;
    let deletions = match tree.list(paths::TRASH).await {
        Err(Errno::NOENT) => None,
        listed => Some(listed.during(|| format!("listing /{}", paths::TRASH))?.len()),
    };
    let is_for_people = order.flag("human_readable");
    let size = |bytes: u64| if is_for_people { json!(readable(bytes)) } else { json!(bytes) };
    let pool = |pool: &Pool| json!({ "name": pool.name, "used": size(pool.used), "avail": size(pool.available) });
    let volume = &order.volume;
    let mut info = json!({
        "mon_addrs": volume.mon_addrs,
        "pools": {
            "metadata": [pool(&volume.metadata_pool)],
            "data": volume.data_pools.iter().map(pool).collect::<Vec<Value>>(),
        },
    });
    // As in Ceph, only of a volume that has had subvolumes.
    if let Some(deletions) = deletions {
        info["used_size"] = size(root.rbytes);
        info["pending_subvolume_deletions"] = json!(deletions);
    }
    Ok(Printed::json(&info))
}

fn readable(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["", "k", "M", "G", "T", "P"] {
        if value < 1024.0 {
            return if unit.is_empty() { format!("{bytes}") } else { format!("{value:.1}{unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1}E")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        let shown = [0, 1023, 1024, 1_610_612_736].map(readable);
        assert_eq!(shown, ["0", "1023", "1.0k", "1.5G"]);
    }
}
