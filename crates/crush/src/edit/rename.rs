//! Renaming of items and classes.

use super::shadows;
use crate::map::CrushMap;
use crate::names::is_valid_name;
use thiserror::Error;

/// Reason why an item, rule or class cannot be renamed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RenameError {
    /// Nothing has the name.
    #[error("'{name}' does not exist")]
    NoSuchName {
        /// Name that was given.
        name: String,
    },
    /// Most likely this command ran before.
    #[error("'{source_name}' does not exist and '{target_name}' does")]
    AlreadyDone {
        /// The old name.
        source_name: String,
        /// The new name.
        target_name: String,
    },
    /// Something else has the new name.
    #[error("'{name}' already exists")]
    NameTaken {
        /// The new name.
        name: String,
    },
    /// The new name is empty or has characters that names must not have.
    #[error("'{name}' does not match [-_.0-9a-zA-Z]+")]
    InvalidName {
        /// The new name.
        name: String,
    },
    /// The name is a device's.
    #[error("'{name}' is a device, not a bucket")]
    NotABucket {
        /// Name that was given.
        name: String,
    },
}

pub(super) fn rename_bucket(
    crush: &mut CrushMap,
    source: &str,
    target: &str,
) -> Result<(), RenameError> {
    let item = check(source, target, crush.item_id(source), crush.item_id(target))?;
    if item >= 0 {
        return Err(RenameError::NotABucket { name: source.into() });
    }
    crush.names.set(item, target);
    shadows::update_derived(crush);
    Ok(())
}

pub(super) fn rename_rule(
    crush: &mut CrushMap,
    source: &str,
    target: &str,
) -> Result<(), RenameError> {
    let (from, to) = (crush.rule_names.id(source), crush.rule_names.id(target));
    let rule = check(source, target, from, to)?;
    crush.rule_names.set(rule, target);
    Ok(())
}

pub(super) fn rename_class(
    crush: &mut CrushMap,
    source: &str,
    target: &str,
) -> Result<(), RenameError> {
    let class = check(source, target, crush.class_id(source), crush.class_id(target))?;
    crush.class_names.set(class, target);
    let shadows: Vec<(i32, i32)> = crush
        .shadows
        .iter()
        .filter_map(|(&original, shadows)| Some((original, *shadows.get(&class)?)))
        .collect();
    for (original, shadow) in shadows {
        let name = format!("{}~{target}", crush.item_name(original).unwrap_or(""));
        crush.names.set(shadow, name);
    }
    Ok(())
}

/// The id to rename.
fn check(
    source: &str,
    target: &str,
    source_id: Option<i32>,
    target_id: Option<i32>,
) -> Result<i32, RenameError> {
    match (source_id, target_id) {
        (None, None) => Err(RenameError::NoSuchName { name: source.into() }),
        (None, Some(_)) => {
            let (source_name, target_name) = (source.into(), target.into());
            Err(RenameError::AlreadyDone { source_name, target_name })
        }
        (Some(_), Some(_)) => Err(RenameError::NameTaken { name: target.into() }),
        (Some(_), None) if !is_valid_name(target) => {
            Err(RenameError::InvalidName { name: target.into() })
        }
        (Some(id), None) => Ok(id),
    }
}
