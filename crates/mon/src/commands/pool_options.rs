//! Optional settings of pools (`pool_opts_t`): validation and output.

use crate::command::Refusal;
use crate::dump::pool::option_value;
use maps::{OptionType, Pool, PoolOption, PoolOptionValue};
use serde_json::{Value, json};
use types::Errno;

/// The value that resets an option to its default, as zero does for numbers.
pub const UNSET: &str = "unset";

/// `Checksummer::CSumType`; the first is 1, as zero means not set.
const CHECKSUMS: [&str; 6] = ["none", "xxhash32", "xxhash64", "crc32c", "crc32c_16", "crc32c_8"];
const COMPRESSION_MODES: [&str; 4] = ["none", "passive", "aggressive", "force"];
const COMPRESSION_ALGORITHMS: [&str; 6] = ["none", "snappy", "zlib", "zstd", "lz4", "brotli"];
const FINGERPRINTS: [&str; 4] = ["none", "sha1", "sha256", "sha512"];
/// Options that are sizes, with units.
const SIZES: [&str; 5] = [
    "target_size_bytes",
    "compression_max_blob_size",
    "compression_min_blob_size",
    "csum_max_block",
    "csum_min_block",
];
/// `OSD_POOL_PRIORITY_MAX`; the minimum is its negative.
const PRIORITY_MAX: i64 = 10;

/// Sets an option of a pool, or resets it.
pub(super) fn set(
    pool: &mut Pool,
    option: PoolOption,
    name: &str,
    text: &str,
) -> Result<(), Refusal> {
    if name.starts_with("dedup_") {
        let text = format!("{name} cannot be set: deduplication is not supported");
        return Err(Refusal::new(Errno::NOTSUPP, text));
    }
    let value = match text {
        UNSET | "" => None,
        text => parse(pool, option, name, text)?,
    };
    match value {
        None => pool.options.0.remove(&option),
        Some(value) => pool.options.0.insert(option, value),
    };
    Ok(())
}

/// The value of an option as shown to users.
pub(super) fn shown(option: PoolOption, value: &PoolOptionValue) -> Value {
    let checksum = |number: i64| CHECKSUMS.get(usize::try_from(number).ok()?.checked_sub(1)?);
    match value {
        PoolOptionValue::Int(number) if option.name() == Some("csum_type") => {
            json!(checksum(*number).unwrap_or(&"???"))
        }
        value => option_value(value),
    }
}

fn parse(
    pool: &Pool,
    option: PoolOption,
    name: &str,
    text: &str,
) -> Result<Option<PoolOptionValue>, Refusal> {
    Ok(match option.value_type() {
        Some(OptionType::Int) => {
            let number = parse_integer(pool, name, text)?;
            (number != 0).then_some(PoolOptionValue::Int(number))
        }
        Some(OptionType::Double) => {
            let number = parse_float(name, text)?;
            (number != 0.0).then_some(PoolOptionValue::Double(number))
        }
        _ => {
            check_word(name, text)?;
            Some(PoolOptionValue::Str(text.to_owned()))
        }
    })
}

fn check_word(name: &str, text: &str) -> Result<(), Refusal> {
    let (what, known): (&str, &[&str]) = match name {
        "compression_mode" => ("compression mode", &COMPRESSION_MODES),
        "compression_algorithm" => ("compression_algorithm", &COMPRESSION_ALGORITHMS),
        "fingerprint_algorithm" => ("fingerprint_algorithm", &FINGERPRINTS),
        _ => return Ok(()),
    };
    if known.contains(&text) {
        return Ok(());
    }
    let known = known.join(", ");
    Err(Refusal::invalid(format!("unrecognized {what} '{text}', known are {known}")))
}

/// Parses an integer; `EINVAL` if it is none.
pub(super) fn integer(text: &str) -> Result<i64, Refusal> {
    text.parse().map_err(|_| {
        Refusal::invalid(format!(
            "error parsing integer value '{text}': Expected option value to be integer, got '{text}'"
        ))
    })
}

fn parse_integer(pool: &Pool, name: &str, text: &str) -> Result<i64, Refusal> {
    if name == "csum_type" {
        let position = CHECKSUMS.iter().position(|known| *known == text);
        let known = || CHECKSUMS.join(", ");
        return position.map(|position| position as i64 + 1).ok_or_else(|| {
            Refusal::invalid(format!("unrecognized csum_type '{text}', known are {}", known()))
        });
    }
    if SIZES.contains(&name) {
        let size = stdx::parse_bytes(text).and_then(|size| i64::try_from(size).ok());
        return size.ok_or_else(|| {
            let text = format!("error parsing size '{text}', expected one such as 4096 or 64K");
            Refusal::invalid(text)
        });
    }
    let number = integer(text)?;
    check_integer(pool, name, number)?;
    Ok(number)
}

fn check_integer(pool: &Pool, name: &str, number: i64) -> Result<(), Refusal> {
    let pg_num = i64::from(pool.pg_num_target);
    match name {
        "recovery_priority" if !(-PRIORITY_MAX..=PRIORITY_MAX).contains(&number) => {
            Err(Refusal::invalid(format!(
                "pool recovery_priority must be between -{PRIORITY_MAX} and {PRIORITY_MAX}"
            )))
        }
        "pg_num_min" if number > pg_num => {
            Err(Refusal::invalid(format!("specified pg_num_min {number} > pg_num {pg_num}")))
        }
        "pg_num_max" if number > 0 && number < pg_num => {
            Err(Refusal::invalid(format!("specified pg_num_max {number} < pg_num {pg_num}")))
        }
        "read_ratio" if !(0..=100).contains(&number) => {
            Err(Refusal::new(Errno::RANGE, "read_ratio must be between 0 and 100"))
        }
        "recovery_priority" => Ok(()),
        _ if number < 0 => Err(Refusal::invalid(format!("{name} cannot be negative"))),
        _ => Ok(()),
    }
}

fn parse_float(name: &str, text: &str) -> Result<f64, Refusal> {
    let number: Option<f64> = text.parse().ok().filter(|number: &f64| number.is_finite());
    let number = number.ok_or_else(|| {
        let text = format!("error parsing floating point value '{text}', expected a finite number");
        Refusal::invalid(text)
    })?;
    match name {
        "compression_required_ratio" if !(0.0..=1.0).contains(&number) => Err(Refusal::invalid(
            format!("compression_required_ratio is out of range (0-1): '{text}'"),
        )),
        "pg_autoscale_bias" if !(0.0..=1000.0).contains(&number) => {
            Err(Refusal::invalid("pg_autoscale_bias must be between 0 and 1000"))
        }
        _ if number < 0.0 => Err(Refusal::invalid(format!("{name} cannot be negative"))),
        _ => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{add_pool, run, state};
    use super::*;

    #[test]
    fn values_are_taken_or_refused_with_the_reason() {
        let mut state = state();
        add_pool(&mut state);
        let mut set = |name: &str, value: &str| {
            let given = json!({ "pool": "x", "var": name, "val": value });
            run(&mut state, "osd pool set", given).map(|answer| answer.text)
        };
        for (name, value) in [
            ("recovery_priority", "-10"),
            ("compression_required_ratio", ".875"),
            ("target_size_ratio", "4"),
            ("target_size_bytes", "10M"),
            ("pg_autoscale_bias", "1000"),
            ("pg_num_min", "8"),
            ("pg_num_max", "8"),
            ("pg_num_max", "0"),
            ("read_ratio", "70"),
            ("csum_type", "xxhash64"),
            ("csum_max_block", "64K"),
            ("compression_algorithm", "zstd"),
            ("compression_mode", "passive"),
            ("scrub_min_interval", "0"),
        ] {
            let said = set(name, value).unwrap();
            assert_eq!(said, format!("set pool 1 {name} to {value}"));
        }
        for (name, value, errno) in [
            ("target_size_ratio", "NaN", Errno::INVAL),
            ("target_size_ratio", "inf", Errno::INVAL),
            ("target_size_ratio", "-1", Errno::INVAL),
            ("recovery_priority", "11", Errno::INVAL),
            ("compression_required_ratio", "1.5", Errno::INVAL),
            ("target_size_bytes", "-5", Errno::INVAL),
            ("target_size_bytes", "9E", Errno::INVAL),
            ("pg_autoscale_bias", "1001", Errno::INVAL),
            ("pg_num_min", "9", Errno::INVAL),
            ("pg_num_max", "7", Errno::INVAL),
            ("read_ratio", "101", Errno::RANGE),
            ("csum_type", "md5", Errno::INVAL),
            ("csum_max_block", "big", Errno::INVAL),
            ("compression_algorithm", "rar", Errno::INVAL),
            ("compression_mode", "always", Errno::INVAL),
            ("dedup_tier", "x", Errno::NOTSUPP),
        ] {
            let refusal = set(name, value).unwrap_err();
            assert_eq!((refusal.errno, refusal.text.is_empty()), (errno, false), "{name} {value}");
        }
        let pool = &state.osdmap.pools[&types::PoolId(1)];
        let option = |name: &str| pool.options.0.get(&PoolOption::from_name(name).unwrap());
        assert_eq!(option("csum_max_block"), Some(&PoolOptionValue::Int(65536)));
        assert_eq!(option("csum_type"), Some(&PoolOptionValue::Int(3)));
        assert_eq!(option("scrub_min_interval"), None);
    }

    #[test]
    fn options_of_every_type_can_be_unset() {
        let mut state = state();
        add_pool(&mut state);
        let mut set = |name: &str, value: &str| {
            let given = json!({ "pool": "x", "var": name, "val": value });
            run(&mut state, "osd pool set", given).unwrap().text
        };
        for (name, value) in
            [("compression_mode", "force"), ("recovery_priority", "5"), ("target_size_ratio", ".1")]
        {
            set(name, value);
            assert_eq!(set(name, UNSET), format!("unset pool 1 {name}"));
        }
        assert!(state.osdmap.pools[&types::PoolId(1)].options.0.is_empty());
    }
}
