//! `crash`: crash reports of daemons, as `ceph-crash` posts them. They are stored where Ceph's manager stores
//! them, below `mgr/crash/crash/` among the configuration keys.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::crashes::{Crash, PREFIX, crashes, seconds};
use crate::keys;
use crate::table::Table;
use serde_json::{Map, Value, json};
use types::{Errno, UTime};

/// Bound of the reports; the oldest is dropped, so that a daemon in a crash loop does not fill the control
/// store.
pub const CRASHES_MAX: usize = 200;
/// Bound of a report's size, which contains a backtrace.
const CRASH_BYTES_MAX: usize = 64 << 10;
const FIELDS: [&str; 3] = ["crash_id", "timestamp", "entity_name"];
const SECONDS_PER_DAY: u64 = 24 * 3600;

pub const COMMANDS: &[Command] = &[
    command("crash ls", "Show new and archived crash dumps", "mgr", "r", |context| {
        Ok(list(context, |_| true))
    }),
    command("crash ls-new", "Show new crash dumps", "mgr", "r", |context| {
        Ok(list(context, Crash::is_new))
    }),
    command("crash stat", "Summarize recorded crashes", "mgr", "r", stat),
    command("crash info name=id,type=CephString", "show crash dump metadata", "mgr", "r", info),
    command("crash post", "Add a crash dump (use -i <jsonfile>)", "mgr", "rw", post),
    command("crash rm name=id,type=CephString", "Remove a saved crash <id>", "mgr", "rw", remove),
    command(
        "crash archive name=id,type=CephString",
        "Acknowledge a crash and silence health warning(s)",
        "mgr",
        "rw",
        archive,
    ),
    command(
        "crash archive-all",
        "Acknowledge all new crashes and silence health warning(s)",
        "mgr",
        "rw",
        archive_all,
    ),
    command(
        "crash prune name=keep,type=CephInt,range=0",
        "Remove crashes older than <keep> days",
        "mgr",
        "rw",
        prune,
    ),
    command(
        "crash json_report name=hours,type=CephInt,range=0",
        "Crashes in the last <hours> hours",
        "mgr",
        "r",
        json_report,
    ),
];

fn key(id: &str) -> String {
    keys::config_key(&format!("{PREFIX}{id}"))
}

fn find(context: &Context<'_>, id: &str) -> Option<Crash> {
    crashes(context.state).into_iter().find(|crash| crash.id == id)
}

fn store(context: &mut Context<'_>, crash: &Crash) {
    context.change.put(key(&crash.id), crash.json().to_string().into_bytes());
}

fn list(context: &Context<'_>, shows: impl Fn(&Crash) -> bool) -> Answer {
    let shown: Vec<Crash> =
        crashes(context.state).into_iter().filter(|crash| shows(crash)).collect();
    let json = || shown.iter().map(Crash::json).collect();
    let plain = || {
        if shown.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&["ID", "ENTITY", "NEW"]);
        for crash in &shown {
            let new = if crash.is_new() { "*" } else { "" };
            table.row([crash.id.clone(), crash.entity().to_owned(), new.to_owned()]);
        }
        table.to_string()
    };
    context.show(json, plain)
}

/// The number of reports, and of those older than some limits. As in Ceph, text in every format.
fn stat(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (all, now) = (crashes(context.state), now(context));
    let mut text = format!("{} crashes recorded\n", all.len());
    for days in [1, 3, 7] {
        let limit = now.saturating_sub(days * SECONDS_PER_DAY);
        let older: Vec<&Crash> = all.iter().filter(|crash| crash.seconds() < limit).collect();
        if !older.is_empty() {
            text += &format!("{} older than {days} days old:\n", older.len());
            older.iter().for_each(|crash| text += &format!("{}\n", crash.id));
        }
    }
    Ok(Answer::output(text))
}

fn now(context: &Context<'_>) -> u64 {
    u64::from(context.change.now().seconds)
}

fn unknown(id: &str) -> Answer {
    Answer::said(format!("crash info: {id} not found"))
}

fn info(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = context.arguments.text("id");
    Ok(find(context, id).map_or_else(|| unknown(id), |crash| context.json(&crash.json())))
}

/// Stores a report; a known report stays unchanged, so that it does not become new again.
fn post(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let size = context.input.len();
    if size > CRASH_BYTES_MAX {
        let text = format!("the crash report has {size} bytes, at most {CRASH_BYTES_MAX} are kept");
        return Err(Refusal::new(Errno::FBIG, text));
    }
    let wrong = |why: String| Refusal::invalid(format!("malformed crash metadata: {why}"));
    let meta: Map<String, Value> =
        serde_json::from_slice(&context.input).map_err(|error| wrong(error.to_string()))?;
    for field in FIELDS {
        if meta.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(wrong(format!("'{field}' is missing")));
        }
    }
    let id = meta["crash_id"].as_str().unwrap_or_default().to_owned();
    let crash = Crash { id, meta };
    if seconds(crash.timestamp()).is_none() {
        return Err(wrong(format!("timestamp '{}' is no time", crash.timestamp())));
    }
    if find(context, &crash.id).is_some() {
        return Ok(Answer::default());
    }
    let all = crashes(context.state);
    let surplus = (all.len() + 1).saturating_sub(CRASHES_MAX);
    for old in &all[..surplus] {
        context.change.delete(key(&old.id));
    }
    store(context, &crash);
    Ok(Answer::default())
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = context.arguments.text("id").to_owned();
    if find(context, &id).is_some() {
        context.change.delete(key(&id));
    }
    Ok(Answer::default())
}

fn archive(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let id = context.arguments.text("id").to_owned();
    let Some(crash) = find(context, &id) else { return Ok(unknown(&id)) };
    archive_one(context, crash);
    Ok(Answer::default())
}

fn archive_one(context: &mut Context<'_>, mut crash: Crash) {
    if crash.is_new() {
        let now = UTime { nanoseconds: 0, ..context.change.now() }.to_iso();
        crash.meta.insert("archived".to_owned(), json!(now[..19].replace('T', " ")));
        store(context, &crash);
    }
}

fn archive_all(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    for crash in crashes(context.state) {
        archive_one(context, crash);
    }
    Ok(Answer::default())
}

fn prune(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let days = context.arguments.int("keep").and_then(|days| u64::try_from(days).ok()).unwrap_or(0);
    let limit = now(context).saturating_sub(days.saturating_mul(SECONDS_PER_DAY));
    for crash in crashes(context.state).iter().filter(|crash| crash.seconds() < limit) {
        context.change.delete(key(&crash.id));
    }
    Ok(Answer::default())
}

fn json_report(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let hours = context.arguments.int("hours").and_then(|hours| u64::try_from(hours).ok());
    let limit = now(context).saturating_sub(hours.unwrap_or(0).saturating_mul(3600));
    let recent = crashes(context.state).into_iter().filter(|crash| crash.seconds() >= limit);
    let recent: Vec<Value> = recent.map(|crash| crash.json()).collect();
    Ok(context.json(&json!(recent)))
}
