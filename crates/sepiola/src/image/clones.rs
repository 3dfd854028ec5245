//! `sepiola image clone`, `children` and `flatten`

use super::target::begin;
use crate::cli::{ChildrenArgs, CloneArgs, CloneFormatArg};
use access::{ImageArgs, new_id, spec_of};
use anyhow::Result;
use rbd::{Child, CloneFormat, CloneSpec};
use serde_json::json;
use std::io::{self, Write};

/// `sepiola image clone`
pub fn clone(args: &CloneArgs) -> Result<()> {
    let (mut client, parent) = begin(&args.snap.cluster, &args.snap.snap.image)?;
    let image = spec_of(&mut client, &args.child)?;
    let data_pool = args.data_pool.as_ref().map(|name| client.pool(name)).transpose()?;
    client.run(rbd::clone_image(CloneSpec {
        parent,
        snapshot: args.snap.snap.snap.clone(),
        image,
        id: new_id()?,
        order: args.object_size,
        features: args.features,
        data_pool,
        striping: None,
        format: match args.clone_format {
            CloneFormatArg::One => CloneFormat::One,
            CloneFormatArg::Two => CloneFormat::Two,
        },
    }))
}

/// `sepiola image children`
pub fn children(args: &ChildrenArgs) -> Result<()> {
    let source = &args.source.source;
    let (mut client, image) = begin(&args.source.cluster, &source.image)?;
    let pools = client.pools();
    let children = client.run(rbd::children(image, source.snap.clone(), pools))?;
    let mut output = io::stdout().lock();
    let named: Vec<_> =
        children.into_iter().map(|child| (client.pool_name(child.pool), child)).collect();
    if args.json {
        let all: Vec<_> = named.iter().map(|(pool, child)| as_json(pool, child)).collect();
        writeln!(output, "{}", json!(all))?;
        return Ok(());
    }
    for (pool, Child { namespace, id, name, .. }) in named {
        let namespace = if namespace.is_empty() { namespace } else { format!("{namespace}/") };
        let name = name.unwrap_or_else(|| format!("(id {id}, in the trash)"));
        writeln!(output, "{pool}/{namespace}{name}")?;
    }
    Ok(())
}

/// Member names are those of `rbd children --format json`.
fn as_json(pool: &str, child: &Child) -> serde_json::Value {
    json!({
        "pool": pool,
        "pool_namespace": child.namespace,
        "image": child.name,
        "id": child.id,
        "snapshot": child.snapshot,
        "trash": child.name.is_none(),
    })
}

/// `sepiola image flatten`
pub fn flatten(args: &ImageArgs) -> Result<()> {
    let (mut client, image) = begin(&args.cluster, &args.image)?;
    client.run(rbd::flatten(image))
}
