//! `ceph progress`: what moves data, and how far it is.

use crate::command::{Answer, Command, Context, Refusal, command, number};
use crate::progress::Event;
use crate::table::age;
use engine::Time;
use serde_json::{Value, json};
use types::Errno;

/// Cells of a bar.
const BAR: usize = 28;

pub const COMMANDS: &[Command] = &[
    command("progress", "Show progress of recovery operations", "mgr", "r", show),
    command("progress json", "Show machine readable progress information", "mgr", "r", show_json),
    command("progress clear", "Reset progress tracking", "mgr", "rw", unsupported),
    command("progress on", "Enable progress tracking", "mgr", "rw", |_| Ok(Answer::default())),
    command("progress off", "Disable progress tracking", "mgr", "rw", unsupported),
];

/// Two lines, as `status` has them.
pub(super) fn plain(event: &Event, now: Time) -> String {
    let passed = age(event.finished.unwrap_or(now).since(event.started).as_secs());
    let filled = (event.fraction() * BAR as f64) as usize;
    let bar: String = (0..BAR).map(|cell| if cell < filled { '=' } else { '.' }).collect();
    let remaining = match event.remaining(now) {
        Some(left) if event.finished.is_none() => format!(" (remaining: {})", age(left.as_secs())),
        _ => String::new(),
    };
    format!("    {} ({passed})\n      [{bar}]{remaining}\n", event.message)
}

fn show(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let progress = &context.overview.progress;
    let all = progress.completed().chain(progress.events());
    let plain = || all.map(|event| plain(event, context.now)).collect();
    Ok(context.show(|| value(context), plain))
}

fn show_json(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(context.json(&value(context)))
}

fn value(context: &Context<'_>) -> Value {
    let seconds = |time: Time| number(time.0 as f64 / 1e9);
    let event = |event: &Event| {
        let mut value = json!({
            "id": event.id,
            "message": event.message,
            "refs": [],
            "add_to_ceph_s": true,
            "started_at": seconds(event.started),
        });
        match event.finished {
            Some(finished) => value["finished_at"] = seconds(finished),
            None => {
                value["progress"] = number(event.fraction());
                let left = event.remaining(context.now);
                value["time_remaining"] = left.map_or(json!(null), |left| json!(left.as_secs()));
            }
        }
        value
    };
    let progress = &context.overview.progress;
    json!({
        "events": progress.events().map(event).collect::<Vec<_>>(),
        "completed": progress.completed().map(event).collect::<Vec<_>>(),
    })
}

fn unsupported(_: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = "progress is always followed; finished events go by themselves";
    Err(Refusal::new(Errno::NOTSUPP, text))
}
