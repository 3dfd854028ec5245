//! Features of images (`RBD_FEATURE_*`) and their flags (`RBD_FLAG_*`).

use crate::Error;
use std::fmt;

/// A set of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(pub u64);

const NAMES: [(&str, Features); 12] = [
    ("layering", Features::LAYERING),
    ("striping", Features::STRIPING),
    ("exclusive-lock", Features::EXCLUSIVE_LOCK),
    ("object-map", Features::OBJECT_MAP),
    ("fast-diff", Features::FAST_DIFF),
    ("deep-flatten", Features::DEEP_FLATTEN),
    ("journaling", Features::JOURNALING),
    ("data-pool", Features::DATA_POOL),
    ("operations", Features::OPERATIONS),
    ("migrating", Features::MIGRATING),
    ("non-primary", Features::NON_PRIMARY),
    ("dirty-cache", Features::DIRTY_CACHE),
];

/// An unknown feature name, and the list of all names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a feature that an image can be created with; possible are {1}")]
pub struct InvalidFeature(String, String);

impl Features {
    /// The empty set.
    pub const NONE: Features = Features(0);
    /// `RBD_FEATURE_LAYERING`: the image may be a clone.
    pub const LAYERING: Features = Features(1 << 0);
    /// `RBD_FEATURE_STRIPINGV2`: stripe unit and count are not the defaults.
    pub const STRIPING: Features = Features(1 << 1);
    /// `RBD_FEATURE_EXCLUSIVE_LOCK`: only the owner of the header's lock writes.
    pub const EXCLUSIVE_LOCK: Features = Features(1 << 2);
    /// `RBD_FEATURE_OBJECT_MAP`: an object map records which data objects exist.
    pub const OBJECT_MAP: Features = Features(1 << 3);
    /// `RBD_FEATURE_FAST_DIFF`: the object map records which objects changed since the newest snapshot.
    pub const FAST_DIFF: Features = Features(1 << 4);
    /// `RBD_FEATURE_DEEP_FLATTEN`: flattening detaches snapshots from the parent, too.
    pub const DEEP_FLATTEN: Features = Features(1 << 5);
    /// `RBD_FEATURE_JOURNALING`: writes go through a journal. This client does not write such images.
    pub const JOURNALING: Features = Features(1 << 6);
    /// `RBD_FEATURE_DATA_POOL`: data objects lie in another pool than the header.
    pub const DATA_POOL: Features = Features(1 << 7);
    /// `RBD_FEATURE_OPERATIONS`: the header has operation features (`RBD_OPERATION_FEATURE_*`).
    pub const OPERATIONS: Features = Features(1 << 8);
    /// `RBD_FEATURE_MIGRATING`: the image is source or target of a migration.
    pub const MIGRATING: Features = Features(1 << 9);
    /// `RBD_FEATURE_NON_PRIMARY`: the image is a mirror of an image of another cluster.
    pub const NON_PRIMARY: Features = Features(1 << 10);
    /// `RBD_FEATURE_DIRTY_CACHE`: a client-side cache has data that the cluster lacks.
    pub const DIRTY_CACHE: Features = Features(1 << 11);

    /// Features that do not keep this client from reading an image.
    const READABLE: Features = Features(Self::ALL.0 & !Self::MIGRATING.0 & !Self::DIRTY_CACHE.0);
    const ALL: Features = Features((1 << 12) - 1);
    /// Features that this client maintains when it writes.
    const WRITABLE: Features = Features(
        Self::LAYERING.0
            | Self::STRIPING.0
            | Self::EXCLUSIVE_LOCK.0
            | Self::OBJECT_MAP.0
            | Self::FAST_DIFF.0
            | Self::DEEP_FLATTEN.0
            | Self::DATA_POOL.0
            | Self::OPERATIONS.0,
    );
    /// Features that can be given at creation. Data-pool and striping follow from other options.
    const CREATABLE: Features = Features(
        Self::LAYERING.0
            | Self::EXCLUSIVE_LOCK.0
            | Self::OBJECT_MAP.0
            | Self::FAST_DIFF.0
            | Self::DEEP_FLATTEN.0,
    );
    /// Features of new images, unless the caller chooses others.
    pub const DEFAULT: Features = Self::CREATABLE;

    /// True if all of `other` is in this set.
    pub fn contains(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets.
    pub fn with(self, other: Features) -> Self {
        Features(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Features) -> Self {
        Features(self.0 & !other.0)
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().filter(move |(_, bit)| self.contains(*bit)).map(|(name, _)| *name)
    }

    /// Parses names separated by commas, as the `rbd` tool takes them.
    pub fn parse(text: &str) -> Result<Self, InvalidFeature> {
        let mut features = Features::NONE;
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let found = NAMES.iter().find(|(name, _)| *name == word).map(|(_, bit)| *bit);
            match found.filter(|bit| Self::CREATABLE.contains(*bit)) {
                Some(bit) => features = features.with(bit),
                None => return Err(InvalidFeature(word.into(), Self::CREATABLE.to_string())),
            }
        }
        Ok(features)
    }

    /// Checks that features on which others depend are present.
    pub(crate) fn check_dependencies(self) -> Result<(), Error> {
        let lacks = |feature, other| self.contains(feature) && !self.contains(other);
        if lacks(Features::OBJECT_MAP, Features::EXCLUSIVE_LOCK) {
            return Err(Error::refused("object-map needs the feature exclusive-lock"));
        }
        if lacks(Features::FAST_DIFF, Features::OBJECT_MAP) {
            return Err(Error::refused("fast-diff needs the feature object-map"));
        }
        Ok(())
    }

    /// Fails if this client cannot read an image with these features.
    pub fn check_readable(self, image: &str) -> Result<(), Error> {
        let unknown = self.without(Self::READABLE);
        match unknown {
            Self::NONE => Ok(()),
            unknown => Err(Error::refused(format!(
                "{image} has features that this client cannot read: {unknown}"
            ))),
        }
    }

    /// Fails if this client cannot write an image with these features.
    pub fn check_writable(self, image: &str) -> Result<(), Error> {
        self.check_readable(image)?;
        let unknown = self.without(Self::WRITABLE);
        match unknown {
            Self::NONE => Ok(()),
            unknown => Err(Error::refused(format!(
                "{image} has features that this client does not keep up when it writes: {unknown}; \
                 `rbd feature disable {image} NAME` takes them away, those that need others first \
                 (fast-diff, object-map, exclusive-lock)"
            ))),
        }
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.names().collect::<Vec<_>>().join(", ");
        let unknown = self.without(Self::ALL);
        match (known.is_empty(), unknown) {
            (_, Self::NONE) => f.write_str(&known),
            (true, unknown) => write!(f, "{:#x}", unknown.0),
            (false, unknown) => write!(f, "{known}, {:#x}", unknown.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        let features = Features::parse("layering, deep-flatten").unwrap();
        assert_eq!(features, Features::LAYERING.with(Features::DEEP_FLATTEN));
        assert_eq!(features.to_string(), "layering, deep-flatten");
        assert_eq!(Features::parse(""), Ok(Features::NONE));
        assert!(Features::parse("journaling").is_err() && Features::parse("layer").is_err());
        assert_eq!(Features(1 << 40 | 1).to_string(), "layering, 0x10000000000");
    }

    #[test]
    fn features_that_are_not_maintained_prevent_writing() {
        assert!(Features::DEFAULT.check_writable("a").is_ok());
        assert!(Features::JOURNALING.check_readable("a").is_ok());
        assert!(Features::JOURNALING.check_writable("a").is_err());
        assert!(Features(1 << 40).check_readable("a").is_err());
    }
}
