//! `log`: the cluster log.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::dump::addrs;
use serde_json::{Value, json};
use types::ParticipantName;
use wire::LogEntry;

/// Default number of entries that `log last` shows.
const LAST_DEFAULT: i64 = 20;
/// `clog_type` by number.
const LEVELS: [(&str, &str); 5] = [
    ("debug", "[DBG]"),
    ("info", "[INF]"),
    ("sec", "[SEC]"),
    ("warn", "[WRN]"),
    ("error", "[ERR]"),
];

pub const COMMANDS: &[Command] = &[
    command(
        "log name=logtext,type=CephString,n=N",
        "log supplied text to the monitor log",
        "mon",
        "rw",
        log,
    ),
    command(
        "log last name=num,type=CephInt,range=1,req=false \
         name=level,type=CephChoices,strings=debug|info|sec|warn|error,req=false \
         name=channel,type=CephChoices,strings=*|cluster|audit|cephadm,req=false",
        "print last few lines of the cluster log",
        "mon",
        "r",
        last,
    ),
];

fn log(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let entry = LogEntry {
        name: context.caller.name.clone(),
        rank: ParticipantName::new(context.caller.name.kind, -1),
        addrs: context.caller.addrs.clone(),
        stamp: context.now.wall(),
        sequence: 0,
        severity: 1,
        text: context.arguments.list("logtext").join(" "),
        channel: "cluster".to_owned(),
    };
    context.change.append_log(context.state, vec![entry]);
    Ok(Answer::default())
}

fn last(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let count = context.arguments.int("num").unwrap_or(LAST_DEFAULT) as usize;
    let level = context.arguments.optional("level").unwrap_or("info");
    let severity = LEVELS.iter().position(|(name, _)| *name == level).unwrap_or(1) as u16;
    let channel = context.arguments.optional("channel").unwrap_or("*");
    let wanted = |entry: &&LogEntry| {
        entry.severity >= severity && (channel == "*" || entry.channel == channel)
    };
    let mut entries: Vec<&LogEntry> =
        context.state.log.values().rev().filter(wanted).take(count).collect();
    entries.reverse();
    let json = || Value::from(entries.iter().map(|entry| entry_json(entry)).collect::<Vec<_>>());
    let plain = || entries.iter().map(|entry| line(entry)).collect();
    Ok(context.show(json, plain))
}

fn tag(entry: &LogEntry) -> &'static str {
    LEVELS.get(usize::from(entry.severity)).map_or("[???]", |(_, tag)| tag)
}

fn entry_json(entry: &LogEntry) -> Value {
    json!({
        "name": entry.name.to_string(),
        "rank": entry.rank.to_string(),
        "addrs": addrs::vector(&entry.addrs),
        "stamp": entry.stamp.to_iso(),
        "seq": entry.sequence,
        "channel": entry.channel,
        "priority": tag(entry),
        "message": entry.text,
    })
}

fn line(entry: &LogEntry) -> String {
    let LogEntry { name, rank, sequence, channel, text, .. } = entry;
    format!(
        "{} {name} ({rank}) {sequence} : {channel} {} {text}\n",
        entry.stamp.to_iso(),
        tag(entry)
    )
}
