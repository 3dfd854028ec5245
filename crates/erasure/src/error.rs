//! Errors of codes and decoders: each says which limit was violated and what is allowed.

use crate::technique::{DATA_MIN, SHARDS_MAX, Technique};
use std::fmt::{Display, Formatter, Result};

/// A reason why there is no such code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeError {
    /// No technique has these names.
    Unknown {
        /// Name of the plugin.
        plugin: String,
        /// Name of its technique.
        technique: String,
    },
    /// The technique does not have so many parities.
    Parities {
        /// Technique that was chosen.
        technique: Technique,
        /// Number of parities.
        m: usize,
    },
    /// The technique does not have so many data shards beside these parities.
    Data {
        /// Technique that was chosen.
        technique: Technique,
        /// Number of data shards.
        k: usize,
        /// Number of parities.
        m: usize,
    },
}

impl Display for CodeError {
    fn fmt(&self, to: &mut Formatter<'_>) -> Result {
        match self {
            CodeError::Unknown { plugin, technique } => {
                write!(to, "there is no erasure code of plugin {plugin:?} with technique ")?;
                write!(to, "{technique:?}; choose one of ")?;
                let names = Technique::ALL.map(|one| one.to_string());
                write!(to, "{}", names.join(", "))
            }
            CodeError::Parities { technique, m } => {
                let (min, max) = (technique.parities_min(), technique.parities_max());
                if min == max {
                    write!(to, "{technique} needs m = {min}, but m is {m}")
                } else {
                    write!(to, "{technique} allows m from {min} to {max}, but m is {m}")
                }
            }
            CodeError::Data { technique, k, m } => {
                let max = technique.data_max(*m);
                write!(to, "{technique} with m = {m} allows k from {DATA_MIN} to {max}")?;
                let is_total = max == SHARDS_MAX - m;
                if is_total {
                    write!(to, " (k + m is at most {SHARDS_MAX})")?;
                }
                write!(to, ", but k is {k}")
            }
        }
    }
}

impl std::error::Error for CodeError {}

/// A reason why erased shards cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// Fewer than k shards are available.
    TooFew {
        /// Number of available shards.
        available: usize,
        /// Number of shards that are needed.
        needed: usize,
    },
    /// A shard is said to be both available and erased.
    NotErased {
        /// The shard.
        shard: usize,
    },
    /// The code has no such shard.
    NoShard {
        /// The shard.
        shard: usize,
        /// Number of shards that the code has.
        shards: usize,
    },
}

impl Display for DecodeError {
    fn fmt(&self, to: &mut Formatter<'_>) -> Result {
        match self {
            DecodeError::TooFew { available, needed } => {
                write!(to, "{available} shards are available, but decoding needs {needed}")
            }
            DecodeError::NotErased { shard } => {
                write!(to, "shard {shard} is available and is to be decoded")
            }
            DecodeError::NoShard { shard, shards } => {
                write!(to, "there is no shard {shard} among {shards}")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_limits() {
        let technique = Technique::IsaVandermonde;
        let text = |error: CodeError| error.to_string();
        assert_eq!(
            text(CodeError::Parities { technique, m: 5 }),
            "isa reed_sol_van allows m from 1 to 4, but m is 5"
        );
        assert_eq!(
            text(CodeError::Data { technique, k: 22, m: 4 }),
            "isa reed_sol_van with m = 4 allows k from 2 to 21, but k is 22"
        );
        assert_eq!(
            text(CodeError::Data { technique, k: 31, m: 2 }),
            "isa reed_sol_van with m = 2 allows k from 2 to 30 (k + m is at most 32), but k is 31"
        );
        assert_eq!(
            text(CodeError::Parities { technique: Technique::JerasureRaid6, m: 3 }),
            "jerasure reed_sol_r6_op needs m = 2, but m is 3"
        );
    }
}
