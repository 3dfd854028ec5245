//! `progress`: data movement and background tasks in progress.

use crate::command::{Answer, Command, Context, Refusal, command, number};
use crate::image_tasks::ImageTask;
use crate::progress::Event;
use crate::table::age;
use crate::volume_work::CloneProgress;
use engine::Time;
use serde_json::{Value, json};
use types::Errno;

/// Width of a progress bar.
const BAR: usize = 28;

pub const COMMANDS: &[Command] = &[
    command("progress", "Show progress of recovery operations", "mgr", "r", show),
    command("progress json", "Show machine readable progress information", "mgr", "r", show_json),
    command("progress clear", "Reset progress tracking", "mgr", "rw", unsupported),
    command("progress on", "Enable progress tracking", "mgr", "rw", |_| Ok(Answer::default())),
    command("progress off", "Disable progress tracking", "mgr", "rw", unsupported),
];

/// An event in two lines, as in `status`.
pub(super) fn plain(event: &Event, now: Time) -> String {
    let passed = age(event.finished.unwrap_or(now).since(event.started).as_secs());
    let bar = bar(event.fraction());
    let remaining = match event.remaining(now) {
        Some(left) if event.finished.is_none() => format!(" (remaining: {})", age(left.as_secs())),
        _ => String::new(),
    };
    format!("    {} ({passed})\n      [{bar}]{remaining}\n", event.message)
}

fn bar(fraction: f64) -> String {
    let filled = (fraction * BAR as f64) as usize;
    (0..BAR).map(|cell| if cell < filled { '=' } else { '.' }).collect()
}

/// Tasks on images that a worker runs, each with the seconds since it began.
fn tasks<'a>(context: &'a Context<'_>) -> impl Iterator<Item = (&'a ImageTask, u64)> {
    let now = u64::from(context.change.now().seconds);
    let all = context.state.images.tasks.values();
    let going = all.filter(move |task| task.is_under_way(now));
    going.map(move |task| (task, now.saturating_sub(task.started)))
}

/// Clones of snapshots that a worker copies, each with the seconds since it began.
fn clones<'a>(context: &'a Context<'_>) -> impl Iterator<Item = (&'a CloneProgress, u64)> {
    let now = u64::from(context.change.now().seconds);
    let all = context.live.volumes.clones.iter();
    all.map(move |clone| (clone, now.saturating_sub(clone.started)))
}

/// The running tasks as in `status` and `progress`.
pub(super) fn tasks_plain(context: &Context<'_>) -> String {
    let line = |message: &str, passed: u64, progress: f64| {
        format!("    {message} ({})\n      [{}]\n", age(passed), bar(progress))
    };
    let tasks = tasks(context).map(|(task, passed)| line(&task.message, passed, task.progress));
    let clones =
        clones(context).map(|(clone, passed)| line(&clone.message, passed, clone.progress));
    tasks.chain(clones).collect()
}

fn clone_value(clone: &CloneProgress) -> Value {
    json!({
        "id": clone.id,
        "message": clone.message,
        "refs": ["mds", "clone"],
        "add_to_ceph_s": true,
        "started_at": clone.started,
        "progress": number(clone.progress),
        "time_remaining": Value::Null,
    })
}

fn task_value(task: &ImageTask) -> Value {
    json!({
        "id": task.id,
        "message": task.message,
        "refs": [["rbd_support", task.refs]],
        "add_to_ceph_s": true,
        "started_at": task.started,
        "progress": number(task.progress),
        "time_remaining": Value::Null,
    })
}

/// The running tasks as `progress_events` of `status`: id and event.
pub(super) fn tasks_events(context: &Context<'_>) -> Vec<(String, Value)> {
    let event = |id: &str, message: &str, passed: u64, progress: f64| {
        let message = format!("{message} ({})", age(passed));
        let event =
            json!({ "message": message, "progress": number(progress), "add_to_ceph_s": true });
        (id.to_owned(), event)
    };
    let tasks =
        tasks(context).map(|(task, passed)| event(&task.id, &task.message, passed, task.progress));
    let clones = clones(context)
        .map(|(clone, passed)| event(&clone.id, &clone.message, passed, clone.progress));
    tasks.chain(clones).collect()
}

fn show(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let progress = &context.live.osds.progress;
    let all = progress.completed().chain(progress.events());
    // In every format: `progress json` is the command for programs.
    let text: String = all.map(|event| plain(event, context.now)).collect();
    Ok(Answer::output(text + &tasks_plain(context)))
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
    let progress = &context.live.osds.progress;
    let images = tasks(context).map(|(task, _)| task_value(task));
    let images = images.chain(clones(context).map(|(clone, _)| clone_value(clone)));
    json!({
        "events": progress.events().map(event).chain(images).collect::<Vec<_>>(),
        "completed": progress.completed().map(event).collect::<Vec<_>>(),
    })
}

fn unsupported(_: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = "progress is always followed; finished events go by themselves";
    Err(Refusal::new(Errno::NOTSUPP, text))
}
