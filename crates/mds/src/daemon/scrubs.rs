//! Commands about scrubs and what they have found.

use crate::store::scrub::Scrubs;
use engine::Time;
use namespace::{Ino, Tree};
use serde_json::{Value, json};
use types::Errno;
use wire::tell::{Arguments, Sentence, integer, text, words};

/// Whether a command is one of them.
pub(super) fn has(prefix: &str) -> bool {
    prefix.starts_with("scrub ") || prefix.starts_with("damage ")
}

/// Runs one of them.
pub(super) fn run(
    now: Time,
    tree: &Tree,
    scrubs: Option<&mut Scrubs>,
    prefix: &str,
    arguments: &Arguments,
) -> Result<Value, Sentence> {
    let Some(scrubs) = scrubs else {
        if prefix == "damage ls" {
            return Ok(json!([]));
        }
        return Err(Sentence::new(Errno::NOTSUPP, "this server stores nothing (--volatile)"));
    };
    match prefix {
        "scrub start" => return start(now, tree, scrubs, arguments),
        "scrub status" => return Ok(scrubs.status()),
        "damage ls" => return Ok(scrubs.damage()),
        "damage rm" => {
            let id = integer(arguments, "damage_id")?.and_then(|id| u64::try_from(id).ok());
            if !id.is_some_and(|id| scrubs.forget(id)) {
                let text = "there is no damage of that number; see 'damage ls'";
                return Err(Sentence::new(Errno::NOENT, text));
            }
        }
        "scrub abort" => scrubs.abort(),
        "scrub pause" => scrubs.pause(now, true),
        "scrub resume" => scrubs.pause(now, false),
        other => {
            return Err(Sentence::new(Errno::NOTSUPP, format!("mds does not serve '{other}'")));
        }
    }
    Ok(json!({ "return_code": 0 }))
}

fn start(
    now: Time,
    tree: &Tree,
    scrubs: &mut Scrubs,
    arguments: &Arguments,
) -> Result<Value, Sentence> {
    let path = text(arguments, "path");
    let (directory, path) = (directory(tree, path)?, path.to_owned());
    let operations = words(arguments.get("scrubops"));
    let operations: Vec<&str> = operations.iter().flat_map(|word| word.split(',')).collect();
    let known = ["recursive", "repair", "force"];
    if let Some(other) = operations.iter().find(|word| !known.contains(*word)) {
        let text = format!("'{other}' is no option of a scrub here: use recursive, repair, force");
        return Err(Sentence::new(Errno::INVAL, text));
    }
    let tag = Some(text(arguments, "tag")).filter(|tag| !tag.is_empty());
    let has = |word| operations.contains(&word);
    let (is_recursive, repairs) = (has("recursive"), has("repair"));
    let started =
        scrubs.start(now, (path, directory), tag.map(str::to_owned), is_recursive, repairs);
    let busy = "a scrub runs already: see 'scrub status', or end it by 'scrub abort'";
    let tag = started.ok_or_else(|| Sentence::new(Errno::BUSY, busy))?;
    Ok(json!({ "return_code": 0, "scrub_tag": tag, "mode": "asynchronous" }))
}

fn directory(tree: &Tree, path: &str) -> Result<Ino, Sentence> {
    let names = path.split('/').filter(|name| !name.is_empty()).map(str::as_bytes);
    let found = tree.walk(Ino::ROOT, names).and_then(|place| place.existing());
    let ino = found.map_err(|error| Sentence::new(error, format!("{path}: {error}")))?;
    match tree.get(ino).is_some_and(|inode| inode.is_directory()) {
        true => Ok(ino),
        false => Err(Sentence::new(
            Errno::NOTDIR,
            format!("{path} is no directory; scrub the one above"),
        )),
    }
}
