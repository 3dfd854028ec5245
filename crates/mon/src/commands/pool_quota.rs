//! `osd pool set-quota` and `get-quota`: limits of objects and bytes.

use super::named::pool_named;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::table::{bytes, count};
use serde_json::json;

pub const COMMANDS: &[Command] = &[
    command(
        "osd pool set-quota name=pool,type=CephPoolname \
         name=field,type=CephChoices,strings=max_objects|max_bytes name=val,type=CephString",
        "set object or byte limit on pool",
        "osd",
        "rw",
        set_quota,
    ),
    command(
        "osd pool get-quota name=pool,type=CephPoolname",
        "obtain object or byte limits for pool",
        "osd",
        "r",
        get_quota,
    ),
];

fn set_quota(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = pool_named(context, "pool")?;
    let (field, text) =
        (context.arguments.text("field").to_owned(), context.arguments.text("val").to_owned());
    let number = match field.as_str() {
        "max_bytes" => stdx::parse_bytes(&text),
        _ => parse_count(&text),
    };
    let number = number.ok_or_else(|| {
        Refusal::invalid(format!(
            "error parsing value '{text}' of {field}, expected a number such as 100 or 10M"
        ))
    })?;
    if let Some(pool) = context.change.pool(context.state, id) {
        match field.as_str() {
            "max_bytes" => pool.quota_max_bytes = number,
            _ => pool.quota_max_objects = number,
        }
    }
    let pool = context.arguments.text("pool");
    Ok(Answer::said(format!("set-quota {field} = {number} for pool {pool}")))
}

/// Parses a number of objects, with units of a thousand: `10k`.
fn parse_count(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

fn get_quota(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = pool_named(context, "pool")?;
    let Some(pool) = context.state.osdmap.pool(id) else { return Ok(Answer::default()) };
    let (name, totals) = (context.arguments.text("pool"), context.live.stats.pool_totals(id));
    let (objects, volume) = (pool.quota_max_objects, pool.quota_max_bytes);
    let json = || {
        json!({
            "pool_name": name,
            "pool_id": id.0,
            "quota_max_objects": objects,
            "current_num_objects": totals.objects,
            "quota_max_bytes": volume,
            "current_num_bytes": totals.bytes,
        })
    };
    let plain = || {
        let objects = match objects {
            0 => "N/A".to_owned(),
            limit => format!(
                "{} objects  (current num objects: {} objects)",
                count(limit),
                totals.objects
            ),
        };
        let volume = match volume {
            0 => "N/A".to_owned(),
            limit => format!("{}  (current num bytes: {} bytes)", bytes(limit), totals.bytes),
        };
        format!("quotas for pool '{name}':\n  max objects: {objects}\n  max bytes  : {volume}\n")
    };
    Ok(context.show(json, plain))
}
