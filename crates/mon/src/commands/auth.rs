//! `auth`: keys and capabilities of entities.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::keys;
use auth::{CryptoKey, EntityAuth, KeyType, Keyring};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::{EntityName, Errno};

const CREATE_PARAMS: &str = "add auth info for <entity> from input file, or random key if no \
     input is given, and/or any caps specified in the command";

pub const COMMANDS: &[Command] = &[
    command(
        "auth export name=entity,type=CephString,req=false",
        "write keyring for requested entity, or master keyring if none given",
        "auth",
        "rx",
        export,
    ),
    command(
        "auth get name=entity,type=CephString",
        "write keyring file with requested key",
        "auth",
        "rx",
        show,
    ),
    command(
        "auth get-key name=entity,type=CephString",
        "display requested key",
        "auth",
        "rx",
        show_key,
    ),
    command(
        "auth print-key name=entity,type=CephString",
        "display requested key",
        "auth",
        "rx",
        show_key,
    ),
    command(
        "auth print_key name=entity,type=CephString",
        "display requested key",
        "auth",
        "rx",
        show_key,
    ),
    command("auth list", "list authentication state", "auth", "rx", list),
    command("auth ls", "list authentication state", "auth", "rx", list),
    command("auth import", "auth import: read keyring file from -i <file>", "auth", "rwx", import),
    command(
        "auth add name=entity,type=CephString name=caps,type=CephString,n=N,req=false \
         name=key_type,type=CephString,req=false",
        CREATE_PARAMS,
        "auth",
        "rwx",
        add,
    ),
    command(
        "auth get-or-create-key name=entity,type=CephString \
         name=caps,type=CephString,n=N,req=false name=key_type,type=CephString,req=false",
        "get, or add, key for <name> from system/caps pairs specified in the command.  If key already \
         exists, any given caps must match the existing caps for that key.",
        "auth",
        "rwx",
        get_or_create_key,
    ),
    command(
        "auth get-or-create name=entity,type=CephString name=caps,type=CephString,n=N,req=false \
         name=key_type,type=CephString,req=false",
        CREATE_PARAMS,
        "auth",
        "rwx",
        get_or_create,
    ),
    command(
        "auth caps name=entity,type=CephString name=caps,type=CephString,n=N",
        "update caps for <name> from caps specified in the command",
        "auth",
        "rwx",
        set_caps,
    ),
    command(
        "auth del name=entity,type=CephString",
        "delete all caps for <name>",
        "auth",
        "rwx",
        remove,
    ),
    command(
        "auth rm name=entity,type=CephString",
        "remove all caps for <name>",
        "auth",
        "rwx",
        remove,
    ),
    command(
        "auth rotate name=entity,type=CephString name=key_type,type=CephString,req=false",
        "rotate entity key",
        "auth",
        "rwx",
        rotate,
    ),
    command(
        "auth get-or-create-pending name=entity,type=CephString",
        "generate and/or retrieve existing pending key (rotated into place on first use)",
        "auth",
        "rwx",
        get_or_create_pending,
    ),
    command(
        "auth clear-pending name=entity,type=CephString",
        "clear pending key",
        "auth",
        "rwx",
        clear_pending,
    ),
    command(
        "auth commit-pending name=entity,type=CephString",
        "rotate pending key into active position",
        "auth",
        "rwx",
        commit_pending,
    ),
];

fn entity_name(context: &Context<'_>) -> Result<EntityName, Refusal> {
    let text = context.arguments.text("entity");
    let name: Option<EntityName> = text.parse().ok();
    name.filter(|name| !name.id.is_empty()).ok_or_else(|| {
        Refusal::invalid(format!("bad entity name '{text}', expected one such as client.admin"))
    })
}

fn found(context: &Context<'_>) -> Result<(EntityName, EntityAuth), Refusal> {
    let name = entity_name(context)?;
    match context.state.entities.get(&name) {
        Some(entity) => Ok((name, entity.clone())),
        None => Err(Refusal::missing(format!("failed to find {name} in keyring"))),
    }
}

fn keyring_of(name: &EntityName, entity: &EntityAuth) -> Keyring {
    Keyring { entities: [(name.clone(), entity.clone())].into() }
}

fn entity_json(name: &EntityName, entity: &EntityAuth) -> Value {
    let mut value = json!({ "entity": name.to_string(), "key": entity.key.to_string() });
    if let Some(pending) = &entity.pending_key {
        value["pending_key"] = json!(pending.to_string());
    }
    value["caps"] = json!(entity.caps);
    value
}

fn keyring_answer(context: &Context<'_>, keyring: &Keyring) -> Answer {
    let entities = keyring.entities.iter();
    let json = || entities.map(|(name, entity)| entity_json(name, entity)).collect();
    context.show(json, || keyring.to_string())
}

fn export(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    if context.arguments.optional("entity").is_some() {
        return show(context);
    }
    let keyring = Keyring { entities: context.state.entities.clone() };
    Ok(keyring_answer(context, &keyring))
}

fn show(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (name, entity) = found(context)?;
    Ok(keyring_answer(context, &keyring_of(&name, &entity)))
}

fn key_answer(context: &Context<'_>, key: &CryptoKey) -> Answer {
    context.show(|| json!({ "key": key.to_string() }), || key.to_string())
}

fn show_key(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (_, entity) = found(context)?;
    Ok(key_answer(context, &entity.key))
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let entities = &context.state.entities;
    let json = || {
        let dump: Vec<Value> =
            entities.iter().map(|(name, entity)| entity_json(name, entity)).collect();
        json!({ "auth_dump": dump })
    };
    let plain = || {
        let mut text = String::new();
        for (name, entity) in entities {
            text += &format!("{name}\n\tkey: {}\n", entity.key);
            for (service, caps) in &entity.caps {
                text += &format!("\tcaps: [{service}] {caps}\n");
            }
        }
        text
    };
    Ok(context.show(json, plain))
}

/// Parses `mon 'allow r' osd 'allow rw'` into pairs, and checks each capability.
fn parse_caps(items: &[String]) -> Result<BTreeMap<String, String>, Refusal> {
    if !items.len().is_multiple_of(2) {
        let text = "bad capabilities request; odd number of arguments, expected pairs of service and \
                    capability";
        return Err(Refusal::invalid(text));
    }
    let mut caps = BTreeMap::new();
    for pair in items.chunks_exact(2) {
        check_caps(&pair[0], &pair[1])?;
        caps.insert(pair[0].clone(), pair[1].clone());
    }
    Ok(caps)
}

fn check_caps(service: &str, text: &str) -> Result<(), Refusal> {
    auth::caps::validate(service, text).map_err(|error| Refusal::invalid(error.to_string()))
}

fn input_keyring(context: &Context<'_>) -> Result<Option<Keyring>, Refusal> {
    if context.input.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(&context.input)
        .map_err(|_| Refusal::invalid("the keyring given as input is no text"))?;
    let keyring: Keyring = text
        .parse()
        .map_err(|error| Refusal::invalid(format!("error parsing keyring: {error}")))?;
    for (service, caps) in keyring.entities.values().flat_map(|entity| &entity.caps) {
        check_caps(service, caps)?;
    }
    if let Some((name, _)) = keyring.entities.iter().find(|(_, entity)| entity.key.is_empty()) {
        let text = format!("the keyring given as input has no key for {name}");
        return Err(Refusal::invalid(text));
    }
    Ok(Some(keyring))
}

fn import(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let keyring = input_keyring(context)?
        .ok_or_else(|| Refusal::invalid("auth import: no data supplied, give a keyring with -i"))?;
    for (name, entity) in keyring.entities {
        let stored = EntityAuth { pending_key: None, ..entity };
        store(context, &name, &stored);
    }
    Ok(Answer::said("imported keyring"))
}

fn store(context: &mut Context<'_>, name: &EntityName, entity: &EntityAuth) {
    context.change.put(keys::auth(name), codec::encode_to_bytes(entity));
}

fn new_key(context: &mut Context<'_>) -> Result<CryptoKey, Refusal> {
    let kind = match context.arguments.optional("key_type") {
        None => KeyType::Aes,
        Some(text) => {
            text.parse().map_err(|error: auth::KeyTextError| Refusal::invalid(error.to_string()))?
        }
    };
    Ok(CryptoKey::generate(kind, context.now.wall(), context.entropy))
}

/// The entity described by the arguments or the input of a creating command, with a new key unless one is
/// given.
fn described(context: &mut Context<'_>, name: &EntityName) -> Result<EntityAuth, Refusal> {
    let mut caps = parse_caps(context.arguments.list("caps"))?;
    let given = match input_keyring(context)? {
        None => None,
        Some(keyring) => Some(keyring.entities.get(name).cloned().ok_or_else(|| {
            Refusal::invalid(format!("the keyring given as input has no entity {name}"))
        })?),
    };
    let key = match given {
        Some(entity) => {
            if caps.is_empty() {
                caps = entity.caps;
            }
            entity.key
        }
        None => new_key(context)?,
    };
    Ok(EntityAuth { key, caps, pending_key: None })
}

fn add(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = entity_name(context)?;
    let entity = described(context, &name)?;
    if let Some(existing) = context.state.entities.get(&name) {
        let has_input = !context.input.is_empty();
        if has_input && existing.key != entity.key {
            let text = format!("entity {name} exists but key does not match");
            return Err(Refusal::invalid(text));
        }
        if existing.caps != entity.caps {
            let text = format!("entity {name} exists but caps do not match");
            return Err(Refusal::invalid(text));
        }
    } else {
        store(context, &name, &entity);
    }
    Ok(Answer::said(format!("added key for {name}")))
}

/// The existing entity, whose capabilities must equal those that are given, or a new one.
fn existing_or_new(context: &mut Context<'_>) -> Result<(EntityName, EntityAuth), Refusal> {
    let name = entity_name(context)?;
    let Some(existing) = context.state.entities.get(&name).cloned() else {
        let entity = described(context, &name)?;
        store(context, &name, &entity);
        return Ok((name, entity));
    };
    for (service, caps) in parse_caps(context.arguments.list("caps"))? {
        if existing.caps.get(&service) != Some(&caps) {
            let text = format!("key for {name} exists but cap {service} does not match");
            return Err(Refusal::invalid(text));
        }
    }
    Ok((name, existing))
}

fn get_or_create(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (name, entity) = existing_or_new(context)?;
    let json = || json!([entity_json(&name, &entity)]);
    // Without capabilities, so that the text can be appended to a client's keyring.
    Ok(context.show(json, || format!("[{name}]\n\tkey = {}\n", entity.key)))
}

fn get_or_create_key(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (_, entity) = existing_or_new(context)?;
    Ok(key_answer(context, &entity.key))
}

fn set_caps(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = entity_name(context)?;
    let Some(mut entity) = context.state.entities.get(&name).cloned() else {
        return Err(Refusal::missing(format!("couldn't find entry {name}")));
    };
    entity.caps = parse_caps(context.arguments.list("caps"))?;
    store(context, &name, &entity);
    Ok(Answer::said(format!("updated caps for {name}")))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = entity_name(context)?;
    if context.state.entities.contains_key(&name) {
        context.change.delete(keys::auth(&name));
    }
    Ok(Answer::default())
}

fn rotate(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (name, mut entity) = found(context)?;
    if name == context.caller.name {
        let text = format!("{name} cannot rotate its own key: it would lose access");
        return Err(Refusal::new(Errno::PERM, text));
    }
    entity.key = new_key(context)?;
    store(context, &name, &entity);
    Ok(keyring_answer(context, &keyring_of(&name, &entity)))
}

fn get_or_create_pending(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (name, mut entity) = found(context)?;
    if entity.pending_key.is_none() {
        entity.pending_key = Some(new_key(context)?);
        store(context, &name, &entity);
    }
    Ok(keyring_answer(context, &keyring_of(&name, &entity)))
}

fn clear_pending(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (name, mut entity) = found(context)?;
    if entity.pending_key.take().is_some() {
        store(context, &name, &entity);
    }
    Ok(Answer::default())
}

fn commit_pending(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (name, mut entity) = found(context)?;
    if let Some(key) = entity.pending_key.take() {
        entity.key = key;
        store(context, &name, &entity);
    }
    Ok(Answer::default())
}
