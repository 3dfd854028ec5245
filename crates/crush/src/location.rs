//! Places in the tree, as commands give them: `root=default host=alpha`.

use crate::names::is_valid_name;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// Bucket names by type name. Omitted types are taken from existing buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    levels: BTreeMap<String, String>,
}

/// Reason why an argument is no location.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseLocationError {
    /// The argument is not of the form type=name.
    #[error("'{argument}' is not of the form type=name")]
    NoName {
        /// Argument that was given.
        argument: String,
    },
    /// The name has characters that names must not have.
    #[error("'{name}' in '{argument}' does not match [-_.0-9a-zA-Z]+")]
    InvalidName {
        /// Argument that was given.
        argument: String,
        /// Name in the argument.
        name: String,
    },
}

impl Location {
    /// Of several arguments for one type the last counts.
    pub fn parse<'a>(
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, ParseLocationError> {
        let mut levels = BTreeMap::new();
        for argument in arguments {
            let Some((type_name, name)) = argument.split_once('=') else {
                return Err(ParseLocationError::NoName { argument: argument.into() });
            };
            if let Some(bad) = [type_name, name].into_iter().find(|name| !is_valid_name(name)) {
                let (argument, name) = (argument.into(), bad.into());
                return Err(ParseLocationError::InvalidName { argument, name });
            }
            levels.insert(type_name.to_string(), name.to_string());
        }
        Ok(Location { levels })
    }

    /// The bucket name for a type.
    pub fn get(&self, type_name: &str) -> Option<&str> {
        self.levels.get(type_name).map(String::as_str)
    }

    /// True if no bucket is named.
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// (type, name) pairs by type name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.levels.iter().map(|(type_name, name)| (type_name.as_str(), name.as_str()))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (type_name, name)) in self.iter().enumerate() {
            let separator = if index > 0 { "," } else { "" };
            write!(f, "{separator}{type_name}={name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_location_is_refused_with_its_words() {
        let location = Location::parse(["root=default", "host=a"]).unwrap();
        assert_eq!(location.to_string(), "host=a,root=default");
        let error = Location::parse(["rack"]).unwrap_err();
        assert_eq!(error.to_string(), "'rack' is not of the form type=name");
        assert!(Location::parse(["host=a~ssd"]).is_err());
        assert!(Location::parse(["host="]).is_err());
    }
}
