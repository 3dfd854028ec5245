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

/// A key as the file of metadata can have it: one that is read as it was written.
fn check_key(key: &str) -> Result<(), Failure> {
    let is_printable = key.chars().all(|one| one.is_ascii_graphic() || one == ' ');
    let is_marked = key.starts_with(['#', ';']) || key.contains(['=', ':', '[']);
    match is_printable && !is_marked && !key.is_empty() && key.trim() == key {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "'{}' is no valid key_name: it has printable ASCII characters but none of '=:[', begins with \
             none of '#;', and has no blanks around it",
            key.escape_debug()
        ))),
    }
}

fn check_value(value: &str) -> Result<(), Failure> {
    match value.chars().all(|one| one.is_ascii_graphic() || " \t\n\r".contains(one)) {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "'{value}' is no valid value: it has printable ASCII characters"
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
            check_key(key)?;
            check_value(value)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_such_as_are_read_again() {
        for bad in ["", " a", "a ", "a\tb", "a\r", "#a", ";a", "[a", "a=b", "a:b", "\u{7f}", "ä"] {
            assert_eq!(check_key(bad).unwrap_err().errno, Errno::INVAL, "{bad:?}");
        }
        for good in ["a", "a b", "csi.storage/name", "a#b", "a]"] {
            assert!(check_key(good).is_ok(), "{good:?}");
        }
    }
}
