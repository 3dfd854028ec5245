//! Listings and details of images, as text and JSON.

use super::target::begin;
use crate::cli::{ImagePoolArgs, InfoArgs, UsageArgs};
use access::{BlockingClient, pool_of};
use anyhow::Result;
use rbd::{Features, Info};
use serde_json::json;
use std::fmt;
use std::io::{self, Write};
use stdx::format_bytes;

/// `sepiola image ls`
pub fn list(args: &ImagePoolArgs) -> Result<()> {
    let mut client = BlockingClient::open(&args.cluster)?;
    let pool = pool_of(&mut client, &args.pool)?;
    let names = client.run(rbd::list(pool))?;
    let mut output = io::stdout().lock();
    if args.json {
        writeln!(output, "{}", json!(names))?;
        return Ok(());
    }
    for name in names {
        writeln!(output, "{name}")?;
    }
    Ok(())
}

/// `sepiola image info`
pub fn info(args: &InfoArgs) -> Result<()> {
    let source = &args.source.source;
    let (mut client, image) = begin(&args.source.cluster, &source.image)?;
    let info = client.run(rbd::info(image, source.snap.clone()))?;
    let parent = parent_names(&mut client, &info);
    let text = match args.json {
        true => format!("{}\n", as_json(&info, parent.as_ref())),
        false => as_table(&info, parent.as_ref()),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Member names are those of `rbd du --format json`.
pub fn usage(args: &UsageArgs) -> Result<()> {
    let (mut client, image) = begin(&args.image.cluster, &args.image.image)?;
    let name = image.name.clone();
    let usage = client.run(rbd::usage(image))?;
    let mut output = io::stdout().lock();
    if args.json {
        let sizes =
            json!({ "name": name, "provisioned_size": usage.size, "used_size": usage.used });
        writeln!(output, "{}", json!({ "images": [sizes] }))?;
        return Ok(());
    }
    let (used, size) = (format_bytes(usage.used), format_bytes(usage.size));
    writeln!(output, "{name}: {used} of {size} are in objects")?;
    Ok(())
}

/// Names of a clone's parent.
struct ParentNames {
    pool: String,
    namespace: String,
    image: String,
    snapshot: String,
    overlap: u64,
}

fn parent_names(client: &mut BlockingClient, info: &Info) -> Option<ParentNames> {
    let (parent, names) = (info.header.parent.as_ref()?, info.parent.as_ref()?);
    let unnamed = || format!("(id {})", parent.image);
    Some(ParentNames {
        pool: client.pool_name(parent.pool),
        namespace: parent.namespace.clone(),
        image: names.image.clone().unwrap_or_else(unnamed),
        snapshot: names.snapshot.clone().unwrap_or_else(|| format!("(id {})", parent.snapshot)),
        overlap: parent.overlap,
    })
}

impl fmt::Display for ParentNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.pool)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{}@{}, {} of it", self.image, self.snapshot, format_bytes(self.overlap))
    }
}

/// Member names are those of `rbd info --format json`.
fn as_json(info: &Info, parent: Option<&ParentNames>) -> serde_json::Value {
    let header = &info.header;
    let features = header.features.to_string();
    json!({
        "name": header.spec.name,
        "id": header.id,
        "size": header.size,
        "objects": header.objects(),
        "order": header.order,
        "object_size": header.layout.object_size(),
        "data_pool_id": header.data_pool.map(|pool| pool.0),
        "snapshot_count": header.snap_context.snaps.len(),
        "block_name_prefix": header.data_prefix,
        "format": 2,
        "features": features.split(", ").filter(|name| !name.is_empty()).collect::<Vec<_>>(),
        "flags": header.flags,
        "stripe_unit": header.layout.stripe_unit(),
        "stripe_count": header.layout.stripe_count(),
        "create_timestamp": info.created.to_iso(),
        "parent": parent.map(|parent| json!({
            "pool": parent.pool,
            "pool_namespace": parent.namespace,
            "image": parent.image,
            "snapshot": parent.snapshot,
            "overlap": parent.overlap,
        })),
        "protected": info.snapshot.as_ref().map(|snapshot| snapshot.is_protected().to_string()),
    })
}

fn as_table(info: &Info, parent: Option<&ParentNames>) -> String {
    let header = &info.header;
    let (layout, objects) = (header.layout, header.objects());
    let object_size = format_bytes(layout.object_size());
    let mut rows = vec![
        ("size", format!("{} in {objects} objects of {object_size}", format_bytes(header.size))),
        ("id", header.id.clone()),
        ("data objects", format!("{}.*", header.data_prefix)),
        ("features", header.features.to_string()),
        ("snapshots", header.snap_context.snaps.len().to_string()),
        ("created", info.created.to_iso()),
    ];
    if header.features.contains(Features::STRIPING) {
        let (unit, count) = (format_bytes(layout.stripe_unit()), layout.stripe_count());
        rows.push(("striping", format!("{unit} over {count} objects")));
    }
    if let Some(pool) = header.data_pool {
        rows.push(("data pool", format!("number {pool}")));
    }
    if let Some(snapshot) = &info.snapshot {
        rows.push(("taken", snapshot.created.to_iso()));
        rows.push(("protected", snapshot.is_protected().to_string()));
    }
    if let Some(parent) = parent {
        rows.push(("parent", parent.to_string()));
    }
    let rows = rows.into_iter().map(|(name, value)| format!("  {name:<13} {value}\n"));
    let snap = info.snapshot.iter().map(|snapshot| format!("@{}", snapshot.name));
    format!("{}{}\n{}", header.spec, snap.collect::<String>(), rows.collect::<String>())
}
