//! `console`: sign-in to the web console, and what its page shows. Each view is a command with the
//! capability of the command that shows the same to users.

use super::console_views as views;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::image_tasks::MODULE;
use crate::image_traffic::Note;
use crate::links::LIFE;
use serde_json::{Value, json};
use types::{EntityType, Errno};

/// The name under which the manager's map has the console, as Ceph's.
pub const SERVICE: &str = "dashboard";

/// A view, which is asked for again and again.
const fn view(
    signature: &'static str,
    module: &'static str,
    permission: &'static str,
    handler: crate::command::Handler,
) -> Command {
    command(signature, "for the console", module, permission, handler).internal()
}

pub const COMMANDS: &[Command] = &[
    command(
        "console link",
        "make a one-time link by which a browser signs in to the console as you",
        "mon",
        "r",
        link,
    ),
    view("console overview", "mon", "r", |context| show(context, views::overview)),
    view("console history", "mon", "r", |context| Ok(context.json(&views::history(context)))),
    view("console osds", "osd", "r", |context| show(context, views::osds)),
    view("console pools", "osd", "r", |context| show(context, views::pools)),
    view("console groups", "pg", "r", |context| show(context, views::groups)),
    view("console clients", "mon", "rx", |context| show(context, views::clients)),
    view("console events", "mon", "r", |context| show(context, views::events)),
    view("console users", "auth", "rx", |context| show(context, views::users)),
    view("console files", "mds", "r", |context| show(context, views::files)),
    view("console images", MODULE, "r", |context| {
        context.change.note_images(Note::Asked);
        show(context, views::images)
    }),
];

/// The secret is in the fragment of the URL, which browsers neither send nor log.
fn link(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let Some(address) = context.state.mgrmap.services.get(SERVICE) else {
        let text = "the leading monitor serves no console: it was started with --console none";
        return Err(Refusal::new(Errno::NOTSUPP, text));
    };
    let caller = &context.caller.name;
    if caller.kind != EntityType::CLIENT {
        return Err(Refusal::invalid(format!("{caller} is a daemon: links are for clients")));
    }
    let secret = context.links.draw(context.now, context.entropy, caller);
    let url = format!("{}/#{secret}", address.trim_end_matches('/'));
    let fingerprint = &context.live.identity.console_fingerprint;
    let json = json!({
        "url": url,
        "entity": caller.to_string(),
        "seconds": LIFE.as_secs(),
        "fingerprint": fingerprint,
    });
    Ok(context.show(|| json, || format!("{url}\n")))
}

/// A view with what is above all views: the health, the monitor that leads, and what the user may change.
fn show(context: &mut Context<'_>, view: fn(&Context<'_>) -> Value) -> Result<Answer, Refusal> {
    let state = context.state;
    let health = crate::health::health(&context.view());
    let head = json!({
        "fsid": state.monmap.fsid.to_string(),
        "leader": state.leader_name(),
        "user": context.caller.name.to_string(),
        "changes": context.caller.changes,
        "status": health.severity().name(),
        "warnings": health.lines(),
    });
    let view = view(context);
    // One line, whatever the format: it becomes one event.
    Ok(Answer::output(json!({ "head": head, "view": view }).to_string()))
}

#[cfg(test)]
mod tests {
    use crate::command::Caller;
    use crate::commands::testing::{add_pool, run, run_as, state, text};
    use serde_json::{Value, json};
    use types::EntityName;

    fn as_client() -> Caller {
        Caller { name: EntityName::client("a"), changes: vec!["osd"], ..Caller::default() }
    }

    #[test]
    fn a_link_leads_to_the_console_of_the_leader() {
        let mut state = state();
        let link =
            |state: &mut _, caller: &Caller| run_as(caller, state, "console link", json!({}));
        let refused = link(&mut state, &as_client()).unwrap_err();
        assert!(refused.text.contains("--console none"), "{refused}");
        state.mgrmap.services.insert("dashboard".to_owned(), "https://10.0.0.1:8443/".to_owned());
        let link_text = text(&link(&mut state, &as_client()).unwrap());
        let secret = link_text.strip_prefix("https://10.0.0.1:8443/#").unwrap().trim();
        assert_eq!(secret.len(), 43);
        let daemon = Caller { name: EntityName::osd(1), ..Caller::default() };
        assert!(link(&mut state, &daemon).unwrap_err().text.contains("is a daemon"));
    }

    #[test]
    fn each_view_is_one_line_of_json_and_none_shows_a_key() {
        let mut state = state();
        add_pool(&mut state);
        let key = json!({ "entity": "client.x", "caps": ["mon", "allow r"] });
        run(&mut state, "auth get-or-create", key).unwrap();
        let secret =
            text(&run(&mut state, "auth get-key", json!({ "entity": "client.x" })).unwrap());
        for view in
            ["overview", "osds", "pools", "groups", "clients", "events", "users", "files", "images"]
        {
            let answer =
                run_as(&as_client(), &mut state, &format!("console {view}"), json!({})).unwrap();
            let shown = text(&answer);
            assert!(!shown.contains('\n') && !shown.contains(secret.trim()), "{view}");
            let value: Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(value["head"]["user"], "client.a");
            assert_eq!(value["head"]["changes"], json!(["osd"]));
            // The same again: what passes with time alone would be sent each second.
            let again = run_as(&as_client(), &mut state, &format!("console {view}"), json!({}));
            assert_eq!(text(&again.unwrap()), shown, "{view}");
        }
    }

    #[test]
    fn users_have_their_capabilities_and_groups_their_reasons() {
        let mut state = state();
        add_pool(&mut state);
        let key = json!({ "entity": "client.x", "caps": ["mon", "allow r"] });
        run(&mut state, "auth get-or-create", key).unwrap();
        let mut view = |name: &str| -> Value {
            let answer = run_as(&as_client(), &mut state, &format!("console {name}"), json!({}));
            serde_json::from_str::<Value>(&text(&answer.unwrap())).unwrap()["view"].take()
        };
        let users = json!({ "users": [{ "name": "client.x", "caps": { "mon": "allow r" } }] });
        assert_eq!(view("users"), users);
        let groups = view("groups");
        assert_eq!((&groups["total"], &groups["unclean"]), (&json!(8), &json!(8)));
        let reason = groups["groups"][0]["reason"].as_str().unwrap();
        assert!(reason.starts_with("no OSD has reported it"), "{reason}");
    }
}
