//! `rbd task`: background tasks on images, and the reports of their workers.

use super::{image_perf, image_schedules};
use crate::command::{Answer, Arguments, Command, Context, Refusal, command, number};
use crate::image_tasks::{ImageTask, MODULE, POOL_DEFAULT, REPLAY_MAX, RETRY_AFTER, TASKS_MAX};
use crate::image_traffic::Note;
use crate::keys;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::{Errno, Uuid};

macro_rules! add {
    ($action:literal, $argument:literal, $help:literal) => {
        add!($action, $action, $argument, $help)
    };
    // For actions that clients know by another name than the command's.
    ($command:literal, $action:literal, $argument:literal, $help:literal) => {
        command(
            concat!("rbd task add ", $command, " name=", $argument, ",type=CephString"),
            $help,
            MODULE,
            "rw",
            |context| add(context, $action, $argument),
        )
    };
}

pub const COMMANDS: &[Command] = &[
    add!("flatten", "image_spec", "Flatten a cloned image asynchronously in the background"),
    add!("remove", "image_spec", "Remove an image asynchronously in the background"),
    add!(
        "trash remove",
        "image_id_spec",
        "Remove an image from the trash asynchronously in the background"
    ),
    add!(
        "migration execute",
        "migrate execute",
        "image_spec",
        "Execute an image migration asynchronously in the background"
    ),
    add!(
        "migration commit",
        "migrate commit",
        "image_spec",
        "Commit an executed migration asynchronously in the background"
    ),
    add!(
        "migration abort",
        "migrate abort",
        "image_spec",
        "Abort a prepared migration asynchronously in the background"
    ),
    command(
        "rbd task list name=task_id,type=CephString,req=false",
        "List pending or running asynchronous tasks",
        MODULE,
        "r",
        list,
    )
    .by_task(),
    command(
        "rbd task cancel name=task_id,type=CephString",
        "Cancel a pending or running asynchronous task",
        MODULE,
        "rw",
        cancel,
    )
    .by_task(),
    command(
        "rbd task take name=worker,type=CephString",
        "for workers: the next task that nobody is at",
        MODULE,
        "rwx",
        take,
    )
    .internal(),
    command(
        "rbd task report name=worker,type=CephString name=task_id,type=CephString \
         name=state,type=CephChoices,strings=going|done|failed \
         name=progress,type=CephFloat,req=false name=reason,type=CephString,req=false",
        "for workers: how far a task is",
        MODULE,
        "rwx",
        report,
    )
    .internal(),
];

/// Pool, namespace and image of `[POOL/[NAMESPACE/]]IMAGE`.
fn parts(spec: &str) -> Result<(&str, &str, &str), Refusal> {
    let parts: Vec<&str> = spec.split('/').collect();
    let found = match parts[..] {
        [image] => (POOL_DEFAULT, "", image),
        [pool, image] => (pool, "", image),
        [pool, namespace, image] => (pool, namespace, image),
        _ => ("", "", ""),
    };
    match found {
        (pool, _, image) if !pool.is_empty() && !image.is_empty() => Ok(found),
        _ => Err(Refusal::invalid(format!("'{spec}' is not [POOL/[NAMESPACE/]]IMAGE"))),
    }
}

/// The pool and namespace of a command's arguments, for capabilities that are limited to some.
pub fn scope(arguments: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let given = |name: &str| arguments.get(name).filter(|spec| !spec.is_empty());
    let image = given("image_spec").or_else(|| given("image_id_spec"));
    let image = image.and_then(|spec| parts(spec).ok()).map(|(pool, within, _)| (pool, within));
    let pool = || given("pool_spec").and_then(|spec| image_perf::parts(spec).ok());
    let level = || given("level_spec").and_then(|spec| image_schedules::scope(spec));
    let Some((pool, namespace)) = image.or_else(pool).or_else(level) else {
        return BTreeMap::new();
    };
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    BTreeMap::from([pair("pool", pool), pair("namespace", namespace)])
}

fn add(context: &mut Context<'_>, action: &str, argument: &str) -> Result<Answer, Refusal> {
    let spec = context.arguments.text(argument).to_owned();
    let (pool, namespace, image) = parts(&spec)?;
    if context.state.osdmap.pool_id(pool).is_none() {
        return Err(Refusal::missing(format!("[errno 2] RBD pool not found: '{pool}'")));
    }
    let image_key = if argument == "image_spec" { "image_name" } else { "image_id" };
    let refs = [
        ("action", action),
        ("pool_name", pool),
        ("pool_namespace", namespace),
        (image_key, image),
    ];
    let refs: BTreeMap<String, String> =
        refs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let tasks = &context.state.images.tasks;
    let is_same = |task: &ImageTask| task.refs == refs && !task.is_canceled;
    if let Some((sequence, task)) = tasks.iter().find(|(_, task)| is_same(task)) {
        return Ok(context.json(&shown(context, *sequence, task)));
    }
    let completed = context.live.stats.images.completed.iter().rev();
    let mut recent = completed.take_while(|(at, ..)| context.now.since(*at) < REPLAY_MAX);
    if let Some((_, sequence, task)) = recent.find(|(_, _, task)| task.refs == refs) {
        return Ok(context.json(&shown(context, *sequence, task)));
    }
    if tasks.len() >= TASKS_MAX {
        let text = format!("{TASKS_MAX} tasks are waiting; `rbd task list` tells which");
        return Err(Refusal::new(Errno::BUSY, text));
    }
    let sequence = tasks.last_key_value().map_or(1, |(last, _)| last + 1);
    let task = new_task(context, message(action, &spec), refs);
    store(context, sequence, &task);
    Ok(context.json(&shown(context, sequence, &task)))
}

fn new_task(
    context: &mut Context<'_>,
    message: String,
    refs: BTreeMap<String, String>,
) -> ImageTask {
    ImageTask {
        id: Uuid::from_entropy(context.entropy.array()).to_string(),
        message,
        refs,
        worker: None,
        heard: 0,
        started: 0,
        progress: 0.0,
        is_canceled: false,
        failure: None,
        not_before: 0,
    }
}

fn message(action: &str, spec: &str) -> String {
    match action {
        "flatten" => format!("Flattening image {spec}"),
        "remove" => format!("Removing image {spec}"),
        "migrate execute" => format!("Migrating image {spec}"),
        "migrate commit" => format!("Committing image migration for {spec}"),
        "migrate abort" => format!("Aborting image migration for {spec}"),
        _ => format!("Removing image {spec} from trash"),
    }
}

fn store(context: &mut Context<'_>, sequence: u64, task: &ImageTask) {
    let text = serde_json::to_vec(task).expect("a task is JSON");
    context.change.put(keys::image_task(sequence), text);
}

fn seconds(context: &Context<'_>) -> u64 {
    u64::from(context.change.now().seconds)
}

fn shown(context: &Context<'_>, sequence: u64, task: &ImageTask) -> Value {
    let mut value = json!({
        "sequence": sequence,
        "id": task.id,
        "message": task.message,
        "refs": task.refs,
    });
    if task.is_under_way(seconds(context)) {
        value["in_progress"] = json!(true);
        value["progress"] = number(task.progress);
    }
    if task.is_canceled {
        value["canceled"] = json!(true);
    }
    if let Some(failure) = &task.failure {
        value["retry_message"] = json!(failure);
    }
    value
}

fn find(context: &Context<'_>, id: &str) -> Result<(u64, ImageTask), Refusal> {
    let tasks = &context.state.images.tasks;
    let found = tasks.iter().find(|(_, task)| task.id == id);
    let found = found.map(|(sequence, task)| (*sequence, task.clone()));
    found.ok_or_else(|| Refusal::missing(format!("No such task {id}")))
}

/// Whether a caller with limited capabilities may see or change a task.
fn may_use(context: &Context<'_>, task: &ImageTask, needed: &str) -> bool {
    let part = |key: &str| task.refs.get(key).map_or("", String::as_str);
    context.caller.may_use_images(part("pool_name"), part("pool_namespace"), needed)
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    if let Some(id) = context.arguments.optional("task_id") {
        let (sequence, task) = find(context, id)?;
        if !may_use(context, &task, "r") {
            return Err(Refusal::missing(format!("No such task {id}")));
        }
        return Ok(context.json(&shown(context, sequence, &task)));
    }
    let tasks = context.state.images.tasks.iter().filter(|(_, task)| may_use(context, task, "r"));
    let all: Vec<Value> = tasks.map(|(sequence, task)| shown(context, *sequence, task)).collect();
    Ok(context.json(&json!(all)))
}

/// Cancels a task. A running one stays until its worker has been told.
fn cancel(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (sequence, mut task) = find(context, context.arguments.text("task_id"))?;
    if !may_use(context, &task, "rw") {
        let id = &task.id;
        return Err(Refusal::missing(format!("No such task {id}")));
    }
    task.is_canceled = true;
    if task.is_under_way(seconds(context)) {
        store(context, sequence, &task);
    } else {
        context.change.delete(keys::image_task(sequence));
    }
    Ok(context.json(&shown(context, sequence, &task)))
}

fn take(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let now = seconds(context);
    let free = || context.state.images.tasks.iter().filter(|(_, task)| task.may_be_taken(now));
    let found = free().find(|(_, task)| !task.is_canceled);
    // Canceled tasks without a live worker can be deleted at once.
    for (sequence, _) in free().filter(|(_, task)| task.is_canceled) {
        context.change.delete(keys::image_task(*sequence));
    }
    let Some((sequence, task)) = found else { return Ok(context.json(&json!({}))) };
    let (sequence, mut task) = (*sequence, task.clone());
    task.worker = Some(context.arguments.text("worker").to_owned());
    (task.heard, task.started, task.progress) = (now, now, 0.0);
    store(context, sequence, &task);
    Ok(context.json(&shown(context, sequence, &task)))
}

/// Handles a worker's report. The answer says whether the worker is to continue.
fn report(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (sequence, mut task) = find(context, context.arguments.text("task_id"))?;
    let worker = context.arguments.text("worker");
    if task.worker.as_deref() != Some(worker) {
        return Err(Refusal::new(Errno::PERM, "somebody else is at this task"));
    }
    let now = seconds(context);
    let is_over = match context.arguments.text("state") {
        "done" => true,
        "failed" => {
            end_in_failure(&mut task, &context.arguments, now);
            task.is_canceled
        }
        _ => {
            (task.heard, task.progress) = (now, context.arguments.float("progress").unwrap_or(0.0));
            task.is_canceled
        }
    };
    if is_over {
        if context.arguments.text("state") == "done" {
            context.change.note_images(Note::Done(sequence, task));
        }
        context.change.delete(keys::image_task(sequence));
    } else {
        store(context, sequence, &task);
    }
    Ok(context.json(&json!({ "go_on": !is_over })))
}

fn end_in_failure(task: &mut ImageTask, arguments: &Arguments, now: u64) {
    task.worker = None;
    task.failure = arguments.optional("reason").map(str::to_owned);
    task.not_before = now + RETRY_AFTER;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Signature;
    use crate::commands::testing::{add_pool, run, state, text};
    use crate::state::State;

    fn ask(state: &mut State, prefix: &str, given: Value) -> Result<Value, Refusal> {
        let answer = run(state, prefix, given)?;
        Ok(serde_json::from_str(&text(&answer)).unwrap())
    }

    fn with_task() -> (State, String) {
        let mut state = state();
        add_pool(&mut state);
        let spec = json!({ "image_spec": "x/image" });
        let task = ask(&mut state, "rbd task add remove", spec).unwrap();
        let id = task["id"].as_str().unwrap().to_owned();
        (state, id)
    }

    #[test]
    fn a_task_waits_is_taken_once_and_goes_when_it_is_done() {
        let (mut state, id) = with_task();
        let taken = ask(&mut state, "rbd task take", json!({ "worker": "a" })).unwrap();
        assert_eq!((&taken["id"], &taken["refs"]["action"]), (&json!(id), &json!("remove")));
        assert_eq!(ask(&mut state, "rbd task take", json!({ "worker": "b" })).unwrap(), json!({}));
        let say =
            |worker: &str, what: &str| json!({ "worker": worker, "task_id": id, "state": what });
        assert!(ask(&mut state, "rbd task report", say("b", "done")).is_err());
        let going = ask(&mut state, "rbd task report", say("a", "going")).unwrap();
        assert_eq!(going["go_on"], true);
        let done = ask(&mut state, "rbd task report", say("a", "done")).unwrap();
        assert_eq!(done["go_on"], false);
        assert_eq!(ask(&mut state, "rbd task list", json!({})).unwrap(), json!([]));
    }

    #[test]
    fn what_fails_says_why_and_waits_and_a_canceled_one_ends_at_the_next_word() {
        let (mut state, id) = with_task();
        let take = json!({ "worker": "a" });
        ask(&mut state, "rbd task take", take.clone()).unwrap();
        let failed = json!({ "worker": "a", "task_id": id, "state": "failed", "reason": "in use" });
        ask(&mut state, "rbd task report", failed).unwrap();
        let listed = ask(&mut state, "rbd task list", json!({ "task_id": id })).unwrap();
        assert_eq!(listed["retry_message"], "in use");
        assert_eq!(ask(&mut state, "rbd task take", take.clone()).unwrap(), json!({}), "not yet");
        state.images.tasks.values_mut().for_each(|task| task.not_before = 0);
        ask(&mut state, "rbd task take", take).unwrap();
        ask(&mut state, "rbd task cancel", json!({ "task_id": id })).unwrap();
        let going = json!({ "worker": "a", "task_id": id, "state": "going" });
        assert_eq!(ask(&mut state, "rbd task report", going).unwrap()["go_on"], false);
        assert!(state.images.tasks.is_empty());
    }

    #[test]
    fn what_was_canceled_is_done_if_it_is_ordered_anew() {
        let (mut state, id) = with_task();
        let take = |worker: &str| json!({ "worker": worker });
        ask(&mut state, "rbd task take", take("a")).unwrap();
        ask(&mut state, "rbd task cancel", json!({ "task_id": id })).unwrap();
        let again = json!({ "image_spec": "x/image" });
        assert_eq!(ask(&mut state, "rbd task add remove", again).unwrap()["sequence"], 2);
        // The worker of the first task never reports again.
        state.images.tasks.values_mut().for_each(|task| task.worker = None);
        assert_eq!(ask(&mut state, "rbd task take", take("b")).unwrap()["sequence"], 2);
        assert_eq!(state.images.tasks.len(), 1);
    }

    #[test]
    fn clients_are_told_to_ask_the_manager() {
        let registry = crate::services::registry();
        let is_listed = |(signature, _): &(&Signature, _)| signature.prefix == "rbd task list";
        let (signature, description) = registry.descriptions().iter().find(is_listed).unwrap();
        assert_eq!(description.describe(signature)["flags"], 8);
    }

    #[test]
    fn the_same_is_not_done_twice_and_nonsense_is_refused() {
        let (mut state, id) = with_task();
        let again = json!({ "image_spec": "x/image" });
        assert_eq!(ask(&mut state, "rbd task add remove", again).unwrap()["id"], json!(id));
        for spec in ["", "none/image", "a/b/c/d", "/image", "rbd/"] {
            let given = json!({ "image_spec": spec });
            assert!(ask(&mut state, "rbd task add remove", given).is_err(), "{spec}");
        }
        assert!(ask(&mut state, "rbd task cancel", json!({ "task_id": "5" })).is_err());
    }
}
