//! The code of an erasure-coded pool, as its profile describes it: how many shards, by which matrix, in
//! stripes of what size.
//!
//! A profile is text that users write. [`ErasureCode::parse`] accepts exactly the codes that OSDs compute,
//! and says of every other one why it is not served. All are over GF(2⁸).

use crate::{ErasureCodeProfile, OsdMap, Pool};
use erasure::Technique;
use thiserror::Error;
use types::ShardId;

/// Bytes of a stripe in one shard unless the profile says otherwise (`osd_pool_erasure_code_stripe_unit`).
pub const STRIPE_UNIT_DEFAULT: u32 = 4096;
/// Stripe units are multiples of it: OSDs keep, check and update shards in blocks of this size.
pub const STRIPE_UNIT_ALIGNMENT: u32 = 4096;
/// Largest stripe unit: a default object of an image would be within one shard.
pub const STRIPE_UNIT_MAX: u32 = 4 << 20;
/// The plugins and techniques that are served, for messages.
const SERVED: &str = "plugin=isa (technique=reed_sol_van or cauchy) and plugin=jerasure (technique=reed_sol_van or reed_sol_r6_op)";

/// Shards, matrix and stripes of an erasure-coded pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErasureCode {
    /// Shards of data, at least two (`k`).
    pub data: u8,
    /// Shards of parity, at least one (`m`); all shards together are at most [`ShardId::MAX_COUNT`].
    pub parity: u8,
    /// The matrix that computes parity from data.
    pub technique: Technique,
    /// Bytes of a stripe in one shard, a multiple of [`STRIPE_UNIT_ALIGNMENT`].
    pub stripe_unit: u32,
}

/// Why no pool can be made with a profile.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ErasureCodeError {
    /// No such plugin exists, in Ceph either.
    #[error("erasure code plugin '{0}' is not known; served are {SERVED}")]
    UnknownPlugin(String),
    /// A plugin of Ceph that OSDs do not have.
    #[error("erasure code plugin '{0}' is not served; served are {SERVED}")]
    UnservedPlugin(String),
    /// The plugin has no such technique, in Ceph either.
    #[error(
        "technique={technique} of erasure code plugin {plugin} is not known; served are {SERVED}"
    )]
    UnknownTechnique {
        /// Value of `plugin`.
        plugin: String,
        /// Value of `technique`.
        technique: String,
    },
    /// A technique of Ceph's plugin that OSDs do not have.
    #[error(
        "technique={technique} of erasure code plugin {plugin} is not served; served are {SERVED}"
    )]
    UnservedTechnique {
        /// Value of `plugin`.
        plugin: String,
        /// Value of `technique`.
        technique: String,
    },
    /// A property that changes the code in a way that OSDs do not know.
    #[error("erasure code profiles with {key}={value} are not served: leave {key} out")]
    UnservedProperty {
        /// Name of the property.
        key: String,
        /// Its value.
        value: String,
    },
    /// A property that is not a number, or is missing.
    #[error("could not convert {key}={value} to int")]
    NotANumber {
        /// Name of the property.
        key: String,
        /// Its value.
        value: String,
    },
    /// Numbers that contradict a bound; the text has both.
    #[error("{0}")]
    OutOfBounds(String),
    /// The map has no profile of that name.
    #[error("unknown erasure code profile '{0}'")]
    UnknownProfile(String),
}

impl ErasureCode {
    /// The code of a profile that has all its properties.
    pub fn parse(profile: &ErasureCodeProfile) -> Result<Self, ErasureCodeError> {
        let technique = parse_technique(profile)?;
        let (data, parity) = (number(profile, "k")?, number(profile, "m")?);
        check_shards(data, parity)?;
        check_shape(technique, data, parity)?;
        check_properties(profile)?;
        let stripe_unit = match profile.get("stripe_unit") {
            Some(text) => parse_stripe_unit(text)?,
            None => STRIPE_UNIT_DEFAULT,
        };
        Ok(ErasureCode { data, parity, technique, stripe_unit })
    }

    /// The code of an erasure-coded pool. Its stripes are those with which it was created, whatever its
    /// profile says by now.
    pub fn of_pool(map: &OsdMap, pool: &Pool) -> Result<Self, ErasureCodeError> {
        let name = &pool.erasure_code_profile;
        let unknown = || ErasureCodeError::UnknownProfile(name.clone());
        let code = ErasureCode::parse(map.erasure_code_profiles.get(name).ok_or_else(unknown)?)?;
        if code.shards() != pool.size {
            return out_of_bounds(format!(
                "profile '{name}' makes {} shards, its pool has {}",
                code.shards(),
                pool.size
            ));
        }
        let stripe_unit = pool.stripe_width / u32::from(code.data);
        let fits = |unit: u32| unit > 0 && unit.is_multiple_of(STRIPE_UNIT_ALIGNMENT);
        if !pool.stripe_width.is_multiple_of(code.data.into()) || !fits(stripe_unit) {
            return out_of_bounds(format!(
                "a stripe of {} bytes does not fit {} shards of data",
                pool.stripe_width, code.data
            ));
        }
        Ok(ErasureCode { stripe_unit, ..code })
    }

    /// Shards of an object: the size of the pool.
    pub fn shards(&self) -> u8 {
        self.data + self.parity
    }

    /// Shards without which a new pool does not serve: one more than those that hold the data, so that a
    /// write survives the loss of another OSD. With one parity shard, those that hold the data.
    pub fn min_size(&self) -> u8 {
        self.data + (self.parity - 1).min(1)
    }

    /// Bytes of data of a stripe in all shards together.
    pub fn stripe_width(&self) -> u32 {
        u32::from(self.data) * self.stripe_unit
    }
}

/// The matrix that the profile names.
fn parse_technique(profile: &ErasureCodeProfile) -> Result<Technique, ErasureCodeError> {
    const JERASURES: [&str; 5] =
        ["cauchy_orig", "cauchy_good", "liberation", "blaum_roth", "liber8tion"];
    let value = |key: &str| profile.get(key).cloned().unwrap_or_default();
    let (plugin, technique) = (value("plugin"), value("technique"));
    if let Some(served) = Technique::from_names(&plugin, &technique) {
        return Ok(served);
    }
    Err(match (plugin.as_str(), technique.as_str()) {
        ("jerasure", name) if JERASURES.contains(&name) => {
            ErasureCodeError::UnservedTechnique { plugin, technique }
        }
        ("isa" | "jerasure", _) => ErasureCodeError::UnknownTechnique { plugin, technique },
        ("clay" | "lrc" | "shec", _) => ErasureCodeError::UnservedPlugin(plugin),
        _ => ErasureCodeError::UnknownPlugin(plugin),
    })
}

/// Refuses shapes of which not every loss could be restored. All shards together are within bounds already.
fn check_shape(technique: Technique, data: u8, parity: u8) -> Result<(), ErasureCodeError> {
    const RESTORE: &str =
        "or some losses could not be restored; technique=cauchy has no such limit";
    let [least, most] = [technique.parities_min(), technique.parities_max()];
    let data_max = technique.data_max(parity.into());
    match technique {
        _ if least == most && usize::from(parity) != least => {
            out_of_bounds(format!("m={parity} must be {least} with technique={}", technique.name()))
        }
        Technique::IsaVandermonde if usize::from(parity) > most => out_of_bounds(format!(
            "m={parity} must be <= {most} with plugin=isa technique=reed_sol_van, {RESTORE}"
        )),
        Technique::IsaVandermonde if usize::from(data) > data_max => out_of_bounds(format!(
            "k={data} must be <= {data_max} with plugin=isa technique=reed_sol_van m={parity}, {RESTORE}"
        )),
        _ => Ok(()),
    }
}

fn out_of_bounds<T>(text: String) -> Result<T, ErasureCodeError> {
    Err(ErasureCodeError::OutOfBounds(text))
}

fn number(profile: &ErasureCodeProfile, key: &str) -> Result<u8, ErasureCodeError> {
    let value = profile.get(key).cloned().unwrap_or_default();
    value.parse().map_err(|_| ErasureCodeError::NotANumber { key: key.to_owned(), value })
}

fn check_shards(data: u8, parity: u8) -> Result<(), ErasureCodeError> {
    if data < 2 {
        return out_of_bounds(format!("k={data} must be >= 2"));
    }
    if parity < 1 {
        return out_of_bounds(format!("m={parity} must be >= 1"));
    }
    let shards = usize::from(data) + usize::from(parity);
    if shards > ShardId::MAX_COUNT {
        return out_of_bounds(format!("(k+m)={shards} must be <= {}", ShardId::MAX_COUNT));
    }
    Ok(())
}

/// Refuses properties by which Ceph would encode otherwise: another field, or shards in another order.
fn check_properties(profile: &ErasureCodeProfile) -> Result<(), ErasureCodeError> {
    if let Some(width) = profile.get("w").filter(|width| *width != "8") {
        return out_of_bounds(format!("w={width} must be 8"));
    }
    match profile.get("mapping").filter(|value| !value.is_empty()) {
        None => Ok(()),
        Some(value) => Err(ErasureCodeError::UnservedProperty {
            key: "mapping".to_owned(),
            value: value.clone(),
        }),
    }
}

fn parse_stripe_unit(text: &str) -> Result<u32, ErasureCodeError> {
    let Some(unit) = binary_size(text) else {
        return out_of_bounds(format!("could not parse stripe_unit '{text}'"));
    };
    let fits = |unit: &u32| {
        (STRIPE_UNIT_ALIGNMENT..=STRIPE_UNIT_MAX).contains(unit)
            && unit.is_multiple_of(STRIPE_UNIT_ALIGNMENT)
    };
    u32::try_from(unit).ok().filter(fits).ok_or_else(|| {
        ErasureCodeError::OutOfBounds(format!(
            "stripe_unit {unit} must be a multiple of {STRIPE_UNIT_ALIGNMENT} bytes, at most \
             {STRIPE_UNIT_MAX}: shards are kept in blocks of {STRIPE_UNIT_ALIGNMENT}"
        ))
    })
}

/// `4096`, `4K`, `4Ki`, `1M`: suffixes are powers of 1024.
fn binary_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match &text[digits..] {
        "" | "B" => 0,
        "K" | "Ki" => 10,
        "M" | "Mi" => 20,
        "G" | "Gi" => 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolType;
    use types::Uuid;

    fn profile(text: &str) -> ErasureCodeProfile {
        let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn refused(text: &str) -> String {
        ErasureCode::parse(&profile(text)).unwrap_err().to_string()
    }

    #[test]
    fn every_served_code_is_recognised_with_its_sizes() {
        for (text, technique, sizes) in [
            ("plugin=isa technique=reed_sol_van k=2 m=2", Technique::IsaVandermonde, (4, 3, 8192)),
            (
                "plugin=isa technique=reed_sol_van k=21 m=4",
                Technique::IsaVandermonde,
                (25, 22, 86016),
            ),
            ("plugin=isa technique=cauchy k=4 m=5 w=8", Technique::IsaCauchy, (9, 5, 16384)),
            (
                "plugin=jerasure technique=reed_sol_van k=2 m=1 stripe_unit=12K",
                Technique::JerasureVandermonde,
                (3, 2, 24576),
            ),
            (
                "plugin=jerasure technique=reed_sol_r6_op k=30 m=2",
                Technique::JerasureRaid6,
                (32, 31, 122_880),
            ),
        ] {
            let code = ErasureCode::parse(&profile(text)).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(code.technique, technique, "{text}");
            assert_eq!((code.shards(), code.min_size(), code.stripe_width()), sizes, "{text}");
        }
    }

    #[test]
    fn codes_that_osds_do_not_compute_are_refused_with_those_that_they_do() {
        for (text, starts) in [
            ("plugin=clay technique=reed_sol_van", "erasure code plugin 'clay' is not served"),
            ("plugin=shec", "erasure code plugin 'shec' is not served"),
            ("plugin=xor", "erasure code plugin 'xor' is not known"),
            (
                "plugin=jerasure technique=cauchy_good",
                "technique=cauchy_good of erasure code plugin jerasure is not served",
            ),
            (
                "plugin=isa technique=liberation",
                "technique=liberation of erasure code plugin isa is not known",
            ),
        ] {
            let error = refused(text);
            assert!(error.starts_with(starts) && error.ends_with(SERVED), "{error}");
        }
    }

    #[test]
    fn numbers_are_within_the_bounds_of_the_code() {
        let isa = |rest: &str| refused(&format!("plugin=isa technique=reed_sol_van {rest}"));
        assert_eq!(isa("k=1 m=1"), "k=1 must be >= 2");
        assert_eq!(isa("k=2 m=0"), "m=0 must be >= 1");
        assert_eq!(isa("k=30 m=3"), "(k+m)=33 must be <= 32");
        assert_eq!(isa("m=3"), "could not convert k= to int");
        assert_eq!(isa("k=two m=3"), "could not convert k=two to int");
        assert!(isa("k=2 m=5").starts_with("m=5 must be <= 4"));
        assert!(isa("k=22 m=4").starts_with("k=22 must be <= 21"));
        assert_eq!(isa("k=4 m=2 w=16"), "w=16 must be 8");
        assert!(isa("k=4 m=2 mapping=_DD").contains("leave mapping out"));
        for unit in ["0", "1000", "6000", "8M", "99999999999G", "4Q"] {
            assert!(isa(&format!("k=4 m=2 stripe_unit={unit}")).contains("stripe_unit"), "{unit}");
        }
        let raid6 = refused("plugin=jerasure technique=reed_sol_r6_op k=4 m=3");
        assert_eq!(raid6, "m=3 must be 2 with technique=reed_sol_r6_op");
    }

    #[test]
    fn a_pool_keeps_the_stripes_with_which_it_was_created() {
        let mut map = OsdMap::new(Uuid::default());
        let mut pool = Pool::new(PoolType::Erasure, 6, 8, 0);
        pool.erasure_code_profile = "p".to_owned();
        pool.stripe_width = 32768;
        let unknown = ErasureCodeError::UnknownProfile("p".to_owned());
        assert_eq!(ErasureCode::of_pool(&map, &pool), Err(unknown));
        let text = "plugin=isa technique=reed_sol_van k=4 m=2 stripe_unit=16K";
        map.erasure_code_profiles.insert("p".to_owned(), profile(text));
        assert_eq!(ErasureCode::of_pool(&map, &pool).unwrap().stripe_unit, 8192);
        pool.stripe_width = 32770;
        assert!(ErasureCode::of_pool(&map, &pool).is_err());
        pool.size = 5;
        assert!(
            ErasureCode::of_pool(&map, &pool).unwrap_err().to_string().contains("its pool has 5")
        );
    }
}
