//! Keys and values of users about a subvolume or a snapshot.

use crate::catalog::{Subvolume, Subvolumes};
use crate::failure::Failure;
use crate::metadata::{USER, snapshot_section};
use crate::order::{Order, Outcome, Printed, unknown};
use serde_json::json;
use types::Errno;

/// `fs subvolume metadata`.
pub(crate) async fn run(all: &Subvolumes<'_>, action: &str) -> Outcome {
    let mut subvolume = all.named().await?;
    subvolume.must_be_complete(action)?;
    act(all, &mut subvolume, USER, action.strip_prefix("metadata ").unwrap_or_default()).await
}

/// `fs subvolume snapshot metadata`, of a snapshot that is there.
pub(crate) async fn run_of_snapshot(
    all: &Subvolumes<'_>,
    subvolume: &mut Subvolume,
    snapshot: &str,
    action: &str,
) -> Outcome {
    act(all, subvolume, &snapshot_section(snapshot), action).await
}

fn check(text: &str, what: &str) -> Result<(), Failure> {
    let is_printable = text.chars().all(|one| one.is_ascii_graphic() || " \t\n\r".contains(one));
    let is_key = what != "key_name" || !(text.is_empty() || text.contains(['=', ':', '[', '\n']));
    match is_printable && is_key {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "'{text}' is no valid {what}: it has printable ASCII characters, and a key none of '=:['"
        ))),
    }
}

async fn act(
    all: &Subvolumes<'_>,
    subvolume: &mut Subvolume,
    section: &str,
    action: &str,
) -> Outcome {
    let order: &Order = all.order();
    let key = order.text("key_name");
    let missing = || Failure::missing(format!("key '{key}' does not exist."));
    match action {
        "set" => {
            let value = order.text("value");
            check(key, "key_name")?;
            check(value, "value")?;
            subvolume.metadata.set(section, key, value);
            all.store(subvolume).await?;
            Ok(Printed::none())
        }
        "get" => {
            let value = subvolume.metadata.get(section, key).ok_or_else(missing)?;
            Ok(Printed::text(value))
        }
        "ls" => Ok(Printed::json(&json!(subvolume.metadata.keys(section)))),
        "rm" => match subvolume.metadata.remove(section, key) {
            true => {
                all.store(subvolume).await?;
                Ok(Printed::none())
            }
            false if order.flag("force") => Ok(Printed::none()),
            false => Err(Failure::new(Errno::NOENT, missing().text)),
        },
        _ => Err(unknown(order)),
    }
}
