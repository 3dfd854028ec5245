//! `df`: usage of the cluster and its pools.

use crate::command::{Answer, Command, Context, Refusal, command, number};
use crate::table::{Table, bytes, count};
use crate::usage::{PoolUsage, pool_usage, usage_by_class};
use maps::Pool;
use serde_json::{Map, Value, json};
use wire::internal::OsdUsage;

pub const COMMANDS: &[Command] = &[command(
    "df name=detail,type=CephChoices,strings=detail,req=false",
    "show cluster free space stats",
    "mon",
    "r",
    df,
)];

fn df(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let detail = context.arguments.optional("detail").is_some();
    Ok(context.show(|| json(context, detail), || plain(context, detail)))
}

fn ratio(usage: &OsdUsage) -> f64 {
    match usage.bytes_total {
        0 => 0.0,
        total => usage.bytes_used as f64 / total as f64,
    }
}

fn usage_json(usage: &OsdUsage) -> Map<String, Value> {
    let fields = [
        ("total_bytes", json!(usage.bytes_total)),
        ("total_avail_bytes", json!(usage.bytes_available)),
        ("total_used_bytes", json!(usage.bytes_used)),
        ("total_used_raw_bytes", json!(usage.bytes_used)),
        ("total_used_raw_ratio", number(ratio(usage))),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn json(context: &Context<'_>, detail: bool) -> Value {
    let map = &context.state.osdmap;
    let mut stats = usage_json(&context.live.stats.usage(map));
    for name in ["num_osds", "num_per_pool_osds", "num_per_pool_omap_osds"] {
        stats.insert(name.to_owned(), json!(map.in_count()));
    }
    let classes = usage_by_class(&context.state.osdmap, context.live.stats).into_iter();
    let classes: Map<String, Value> =
        classes.map(|(class, usage)| (class, Value::Object(usage_json(&usage)))).collect();
    let pools = map.pools.iter().map(|(id, pool)| {
        let usage = pool_usage(map, context.live.stats, *id);
        let stats = if detail { detailed(&usage, pool) } else { brief(&usage) };
        json!({ "name": map.pool_name(*id), "id": id.0, "stats": stats })
    });
    json!({ "stats": stats, "stats_by_class": classes, "pools": pools.collect::<Vec<_>>() })
}

fn brief(usage: &PoolUsage) -> Value {
    json!({
        "stored": usage.stored,
        "objects": usage.objects,
        "kb_used": usage.used.div_ceil(1024),
        "bytes_used": usage.used,
        "percent_used": number(usage.percent),
        "max_avail": usage.available,
    })
}

fn detailed(usage: &PoolUsage, pool: &Pool) -> Value {
    let totals = &usage.totals;
    json!({
        "stored": usage.stored,
        "stored_data": totals.bytes,
        "stored_omap": totals.omap_bytes,
        "objects": usage.objects,
        "kb_used": usage.used.div_ceil(1024),
        "bytes_used": usage.used,
        "data_bytes_used": usage.used_data,
        "omap_bytes_used": usage.used_omap,
        "percent_used": number(usage.percent),
        "max_avail": usage.available,
        "quota_objects": pool.quota_max_objects,
        "quota_bytes": pool.quota_max_bytes,
        "dirty": 0,
        "rd": totals.traffic.reads,
        "rd_bytes": totals.traffic.read_bytes,
        "wr": totals.traffic.writes,
        "wr_bytes": totals.traffic.write_bytes,
        "compress_bytes_used": 0,
        "compress_under_bytes": 0,
        "stored_raw": usage.used,
        "avail_raw": usage.raw_available,
    })
}

fn plain(context: &Context<'_>, detail: bool) -> String {
    let columns = ["CLASS", ">SIZE", ">AVAIL", ">USED", ">RAW USED", ">%RAW USED"];
    let mut raw = Table::new(&columns);
    let total = context.live.stats.usage(&context.state.osdmap);
    for (name, usage) in usage_by_class(&context.state.osdmap, context.live.stats)
        .into_iter()
        .chain([("TOTAL".to_owned(), total)])
    {
        raw.row([
            name,
            bytes(usage.bytes_total),
            bytes(usage.bytes_available),
            bytes(usage.bytes_used),
            bytes(usage.bytes_used),
            format!("{:.2}", ratio(&usage) * 100.0),
        ]);
    }
    let pools = if detail { pools_detailed(context) } else { pools_brief(context) };
    format!("--- RAW STORAGE ---\n{raw} \n--- POOLS ---\n{pools}")
}

fn percent(usage: &PoolUsage) -> String {
    if usage.percent == 0.0 { "0".to_owned() } else { format!("{:.2}", usage.percent * 100.0) }
}

fn pools_brief(context: &Context<'_>) -> Table {
    let columns = ["POOL", ">ID", ">PGS", ">STORED", ">OBJECTS", ">USED", ">%USED", ">MAX AVAIL"];
    let mut table = Table::new(&columns);
    let map = &context.state.osdmap;
    for (id, pool) in &map.pools {
        let usage = pool_usage(map, context.live.stats, *id);
        table.row([
            map.pool_name(*id).unwrap_or_default().to_owned(),
            id.to_string(),
            pool.pg_num.to_string(),
            bytes(usage.stored),
            count(usage.objects),
            bytes(usage.used),
            percent(&usage),
            bytes(usage.available),
        ]);
    }
    table
}

fn pools_detailed(context: &Context<'_>) -> Table {
    let mut table = Table::new(&[
        "POOL",
        ">ID",
        ">PGS",
        ">STORED",
        ">(DATA)",
        ">(OMAP)",
        ">OBJECTS",
        ">USED",
        ">(DATA)",
        ">(OMAP)",
        ">%USED",
        ">MAX AVAIL",
        ">QUOTA OBJECTS",
        ">QUOTA BYTES",
        ">DIRTY",
        ">USED COMPR",
        ">UNDER COMPR",
    ]);
    let map = &context.state.osdmap;
    let quota = |limit: u64, text: fn(u64) -> String| match limit {
        0 => "N/A".to_owned(),
        limit => text(limit),
    };
    for (id, pool) in &map.pools {
        let usage = pool_usage(map, context.live.stats, *id);
        table.row([
            map.pool_name(*id).unwrap_or_default().to_owned(),
            id.to_string(),
            pool.pg_num.to_string(),
            bytes(usage.stored),
            bytes(usage.totals.bytes),
            bytes(usage.totals.omap_bytes),
            count(usage.objects),
            bytes(usage.used),
            bytes(usage.used_data),
            bytes(usage.used_omap),
            percent(&usage),
            bytes(usage.available),
            quota(pool.quota_max_objects, count),
            quota(pool.quota_max_bytes, bytes),
            "N/A".to_owned(),
            bytes(0),
            bytes(0),
        ]);
    }
    table
}
