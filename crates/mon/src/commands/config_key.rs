//! `config-key`: the key-value store for clients.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::keys;
use serde_json::{Value, json};
use types::Errno;

/// `mon_config_key_max_entry_size`
const VALUE_LENGTH_MAX: usize = 64 << 10;

pub const COMMANDS: &[Command] = &[
    command("config-key get name=key,type=CephString", "get <key>", "config-key", "r", get),
    command(
        "config-key set name=key,type=CephString name=val,type=CephString,req=false",
        "set <key> to value <val>",
        "config-key",
        "rw",
        set,
    ),
    command(
        "config-key put name=key,type=CephString name=val,type=CephString,req=false",
        "put <key>, value <val>",
        "config-key",
        "rw",
        set,
    ),
    command("config-key del name=key,type=CephString", "delete <key>", "config-key", "rw", remove),
    command("config-key rm name=key,type=CephString", "rm <key>", "config-key", "rw", remove),
    command(
        "config-key exists name=key,type=CephString",
        "check for <key>'s existence",
        "config-key",
        "r",
        exists,
    ),
    command("config-key list", "list keys", "config-key", "r", list),
    command("config-key ls", "list keys", "config-key", "r", list),
    command(
        "config-key dump name=key,type=CephString,req=false",
        "dump keys and values (with optional prefix)",
        "config-key",
        "r",
        dump,
    ),
];

fn missing(key: &str) -> Refusal {
    Refusal::missing(format!("key '{key}' doesn't exist"))
}

fn get(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let key = context.arguments.text("key");
    let value = context.state.config_keys.get(key).ok_or_else(|| missing(key))?;
    Ok(Answer::output(value.clone()))
}

fn set(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let key = context.arguments.text("key").to_owned();
    let value = match context.arguments.optional("val") {
        Some(value) => bytes::Bytes::copy_from_slice(value.as_bytes()),
        None => context.input.clone(),
    };
    if key.is_empty() {
        return Err(Refusal::invalid("the key is empty"));
    }
    if value.len() > VALUE_LENGTH_MAX {
        let text =
            format!("the value has {} bytes, at most {VALUE_LENGTH_MAX} are allowed", value.len());
        return Err(Refusal::new(Errno::FBIG, text));
    }
    context.change.put(keys::config_key(&key), value);
    Ok(Answer::said(format!("set {key}")))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let key = context.arguments.text("key").to_owned();
    if context.state.config_keys.contains_key(&key) {
        context.change.delete(keys::config_key(&key));
    }
    Ok(Answer::said("key deleted"))
}

fn exists(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let key = context.arguments.text("key");
    match context.state.config_keys.contains_key(key) {
        true => Ok(Answer::said(format!("key '{key}' exists"))),
        false => Err(missing(key)),
    }
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&json!(context.state.config_keys.keys().collect::<Vec<_>>())))
}

fn dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let prefix = context.arguments.optional("key").unwrap_or_default();
    let matching = context.state.config_keys.iter().filter(|(key, _)| key.starts_with(prefix));
    let entry = |(key, value): (&String, &bytes::Bytes)| {
        let text = match std::str::from_utf8(value) {
            Ok(text) => text.to_owned(),
            Err(_) => format!("<<< binary blob of length {} >>>", value.len()),
        };
        (key.clone(), json!(text))
    };
    Ok(context.json(&Value::Object(matching.map(entry).collect())))
}
