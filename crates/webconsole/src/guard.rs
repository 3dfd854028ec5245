//! Conditions that a request must fulfil before it is listened to: it comes from the page itself, and asks
//! for something that the page asks for.

use serde_json::{Map, Value};
use web::Request;

/// The commands that the page sends. A session can do no more than these, whatever its capabilities are: a
/// key is not shown, and no further link is made.
const COMMANDS: [&str; 29] = [
    "balancer off",
    "balancer on",
    "console history",
    "crash archive",
    "crash archive-all",
    "health mute",
    "health unmute",
    "osd blocklist",
    "osd deep-scrub",
    "osd in",
    "osd ok-to-stop",
    "osd out",
    "osd pool application enable",
    "osd pool deep-scrub",
    "osd pool scrub",
    "osd pool set",
    "osd pool set-quota",
    "osd reweight",
    "osd safe-to-destroy",
    "osd scrub",
    "osd set",
    "osd unset",
    "pg deep-scrub",
    "pg force-backfill",
    "pg force-recovery",
    "pg repair",
    "pg scrub",
    "progress clear",
    "status",
];

/// Whether the request comes from the page of this server, as far as the browser says. Programs that are no
/// browsers say nothing, and have no cookies that they did not ask for.
pub(crate) fn is_same_origin(request: &Request) -> bool {
    let has = |name: &str| request.fields.iter().any(|(known, _)| known == name);
    let site_fits =
        !has("sec-fetch-site") || request.field("sec-fetch-site") == Some("same-origin");
    let origin = request.field("origin").and_then(|origin| origin.strip_prefix("https://"));
    let origin_fits = !has("origin") || origin.is_some() && origin == request.field("host");
    site_fits && origin_fits
}

/// Whether the body says that it is JSON: forms of other sites cannot say that.
pub(crate) fn is_json(request: &Request) -> bool {
    request.field("content-type").is_some_and(|kind| kind.starts_with("application/json"))
}

/// The command of a request, with JSON as the format of its answer. It is written anew, so that the monitor
/// reads it as it was checked here.
pub(crate) fn command(body: &[u8]) -> Result<String, String> {
    let mut command: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| format!("the command is not a JSON object: {error}"))?;
    let prefix = command.get("prefix").and_then(Value::as_str).unwrap_or_default();
    if !COMMANDS.contains(&prefix) {
        return Err(format!("the console does not send '{prefix}': use the ceph command"));
    }
    command.insert("format".to_owned(), "json".into());
    Ok(Value::Object(command).to_string())
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let pairs = request.field("cookie")?.split(';').filter_map(|pair| pair.trim().split_once('='));
    let mut named = pairs.filter(|(known, _)| *known == name);
    let (_, value) = named.next()?;
    named.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(fields: &[(&str, &str)]) -> Request {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Request { fields: fields.collect(), ..Request::default() }
    }

    #[test]
    fn requests_of_other_sites_are_known_by_what_browsers_say() {
        let fits = |fields: &[(&str, &str)]| is_same_origin(&with(fields));
        assert!(fits(&[]));
        assert!(fits(&[("host", "a:8443"), ("origin", "https://a:8443")]));
        assert!(fits(&[("sec-fetch-site", "same-origin")]));
        assert!(!fits(&[("sec-fetch-site", "cross-site")]));
        assert!(!fits(&[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "same-origin")]));
        assert!(!fits(&[("host", "a:8443"), ("origin", "https://b:8443")]));
        assert!(!fits(&[("host", "a:8443"), ("origin", "http://a:8443")]));
        assert!(!fits(&[("origin", "null")]));
        assert!(!fits(&[("origin", "https://a")]));
    }

    #[test]
    fn a_command_is_one_that_the_page_sends_and_is_written_anew() {
        let sent = command(br#"{"prefix":"auth ls","prefix":"osd out","ids":["1"]}"#).unwrap();
        assert_eq!(sent, r#"{"prefix":"osd out","ids":["1"],"format":"json"}"#);
        for refused in ["auth ls", "auth get-key", "console link", "config-key dump", ""] {
            let body = format!(r#"{{"prefix":"{refused}"}}"#);
            assert!(command(body.as_bytes()).unwrap_err().contains("use the ceph command"));
        }
        assert!(command(b"[]").is_err() && command(b"\xff").is_err());
    }

    #[test]
    fn a_cookie_is_found_among_others_unless_it_is_there_twice() {
        let found = |text: &str| cookie(&with(&[("cookie", text)]), "__Host-a").map(str::to_owned);
        assert_eq!(found("x=1; __Host-a=v"), Some("v".to_owned()));
        assert_eq!(found("__Host-a=v; __Host-a=w"), None);
        assert_eq!(found("__Host-ab=v"), None);
    }
}
