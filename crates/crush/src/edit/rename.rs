//! Renaming of items and classes.

use crate::map::{CrushMap, is_valid_name};
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RenameError {
    #[error("'{name}' does not exist")]
    NoSuchName { name: String },
    /// Most likely this command ran before.
    #[error("'{source_name}' does not exist and '{target_name}' does")]
    AlreadyDone { source_name: String, target_name: String },
    #[error("'{name}' already exists")]
    NameTaken { name: String },
    #[error("'{name}' does not match [-_.0-9a-zA-Z]+")]
    InvalidName { name: String },
    #[error("'{name}' is a device, not a bucket")]
    NotABucket { name: String },
}

impl CrushMap {
    /// Renames a bucket and its shadows.
    pub fn rename_bucket(&mut self, source: &str, target: &str) -> Result<(), RenameError> {
        let item = check(source, target, self.item_id(source), self.item_id(target))?;
        if item >= 0 {
            return Err(RenameError::NotABucket { name: source.into() });
        }
        self.names.set(item, target);
        self.settle();
        Ok(())
    }

    pub fn rename_rule(&mut self, source: &str, target: &str) -> Result<(), RenameError> {
        let (from, to) = (self.rule_names.id(source), self.rule_names.id(target));
        let rule = check(source, target, from, to)?;
        self.rule_names.set(rule, target);
        Ok(())
    }

    /// Renames a device class, and with it the shadow buckets of that class.
    pub fn rename_class(&mut self, source: &str, target: &str) -> Result<(), RenameError> {
        let class = check(source, target, self.class_id(source), self.class_id(target))?;
        self.class_names.set(class, target);
        let shadows: Vec<(i32, i32)> = self
            .shadows
            .iter()
            .filter_map(|(&original, shadows)| Some((original, *shadows.get(&class)?)))
            .collect();
        for (original, shadow) in shadows {
            let name = format!("{}~{target}", self.item_name(original).unwrap_or(""));
            self.names.set(shadow, name);
        }
        Ok(())
    }
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
