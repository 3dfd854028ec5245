//! The page of the documentation about options, made from the table.

use super::known::{Known, Permitted};
use super::table::TABLE;
use std::fmt::Write as _;

const HEAD: &str = "\
# Configuration

The options that daemons of this cluster read, under Ceph's names. They lie in the monitors' store, and daemons take a new
value at once:

```console
$ ceph config set osd osd_max_backfills 2     # all OSDs; osd.3 for one, global for everything
$ ceph config get osd.3 osd_max_backfills
$ ceph config rm osd osd_max_backfills        # the default again
$ ceph tell osd.3 config set osd_max_backfills 4   # until that daemon ends
$ ceph config help osd_max_backfills
```

A value of another type or outside of the range is refused. All other options of Ceph 18.2 are accepted, checked against
Ceph's own types and ranges, and passed on to clients; daemons do not read them. A name that is in neither list is refused.

`cargo run -p wire --example configuration > docs/CONFIGURATION.md` makes this page from `crates/wire/src/options/table.rs`.

";

/// The page as it stands in docs/CONFIGURATION.md.
pub fn document() -> String {
    let mut page = HEAD.to_owned();
    page.push_str(
        "| option | type | default | permitted | read by | |\n|---|---|---|---|---|---|\n",
    );
    for option in TABLE {
        let readers = option.readers().join(", ");
        let (name, kind) = (option.name, option.kind.name());
        let (meaning, advice) = (option.meaning, option.advice);
        let _ = writeln!(
            page,
            "| `{name}` | {kind} | {} | {} | {readers} | {meaning} *{advice}* |",
            default(option),
            permitted(option),
        );
    }
    page
}

fn default(option: &Known) -> String {
    if option.unit.is_empty() || option.unit.starts_with("share") {
        return option.default.to_owned();
    }
    format!("{} {}", option.default, option.unit)
}

fn permitted(option: &Known) -> String {
    match option.permitted {
        _ if !option.can_change => "fixed".to_owned(),
        Permitted::All => "all".to_owned(),
        _ => option.expected(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_the_documentation_is_that_of_the_table() {
        let kept = include_str!("../../../../docs/CONFIGURATION.md");
        assert!(
            kept == document(),
            "run: cargo run -p wire --example configuration > docs/CONFIGURATION.md"
        );
    }
}
