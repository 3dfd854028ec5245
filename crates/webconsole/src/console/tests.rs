//! Tests: browsers that sign in, ask, and are refused.

use super::*;
use std::time::Duration;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const SECOND: Duration = Duration::from_secs(1);

/// A monitor with some entities, and one link of each.
#[derive(Default)]
struct Entities {
    caps: BTreeMap<EntityName, Bytes>,
    links: Vec<EntityName>,
}

impl Authority for Entities {
    fn redeem(&mut self, _now: Time, token: &str) -> Option<EntityName> {
        let place = self.links.iter().position(|entity| entity.to_string() == token)?;
        Some(self.links.remove(place))
    }

    fn caps(&self, entity: &EntityName) -> Option<Bytes> {
        self.caps.get(entity).cloned()
    }
}

/// A console with one browser at a time, whose connections are numbered.
struct Browser {
    console: Console,
    entities: Entities,
    now: Time,
    client: ClientId,
    cookie: String,
    csrf: String,
    conn: ConnId,
}

fn name() -> EntityName {
    EntityName::client("a")
}

impl Browser {
    fn new() -> Self {
        let mut entities = Entities::default();
        entities.caps.insert(name(), Bytes::from_static(b"Mallow r"));
        entities.links = vec![name(), name()];
        Browser {
            console: Console::new([5; 32], 8443),
            entities,
            now: Time(1),
            client: 0,
            cookie: String::new(),
            csrf: String::new(),
            conn: ConnId(0),
        }
    }

    fn outputs(&mut self) -> Vec<Output> {
        self.console.check_invariants();
        std::iter::from_fn(|| self.console.poll_output()).collect()
    }

    fn request(&self, method: Method, path: &str, body: &str) -> Request {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Request {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            fields: vec![
                field("host", "a:8443"),
                field("content-type", "application/json"),
                field("cookie", &self.cookie),
                field(CSRF, &self.csrf),
            ],
            body: Bytes::copy_from_slice(body.as_bytes()),
        }
    }

    fn ask(&mut self, request: &Request) -> Vec<Output> {
        self.client += 1;
        let (client, authority) = (self.client, &mut self.entities);
        self.console.handle_request(self.now, authority, client, HERE, request);
        self.outputs()
    }

    /// The response to a request that is answered at once.
    fn answer(&mut self, request: &Request) -> Response {
        let outputs = self.ask(request);
        let response = outputs.into_iter().find_map(|output| match output {
            Output::Respond(client, response) if client == self.client => Some(response),
            _ => None,
        });
        response.expect("it is answered")
    }

    fn status(&mut self, method: Method, path: &str, body: &str) -> Status {
        let request = self.request(method, path, body);
        self.answer(&request).status
    }

    fn sign_in(&mut self) {
        let request = self.request(Method::Post, "/api/session", r#"{"token":"client.a"}"#);
        let outputs = self.ask(&request);
        let [Output::Open(conn, peer), Output::Respond(_, response)] = &outputs[..] else {
            panic!("{outputs:?}");
        };
        assert_eq!((&peer.name, &peer.caps[..]), (&name(), &b"Mallow r"[..]));
        assert_eq!(peer.seen_addr.socket.map(|socket| socket.ip()), Some(HERE));
        let set = response.fields.iter().find(|(field, _)| *field == "Set-Cookie").unwrap();
        let (cookie, attributes) = set.1.split_once("; ").unwrap();
        assert_eq!(attributes, "Path=/; Secure; HttpOnly; SameSite=Strict");
        assert!(cookie.starts_with("__Host-sepiola-8443="), "{cookie}");
        let body: Value = serde_json::from_slice(&response.body).unwrap();
        assert!(
            !String::from_utf8_lossy(&response.body).contains(&cookie[20..]),
            "scripts see no cookie"
        );
        self.csrf = body["csrf"].as_str().unwrap().to_owned();
        (self.cookie, self.conn) = (cookie.to_owned(), *conn);
    }

    /// Sends a command, and returns it as the monitor gets it.
    fn command(&mut self, body: &str) -> (ConnId, Message) {
        let request = self.request(Method::Post, "/api/command", body);
        let mut outputs = self.ask(&request);
        match outputs.pop() {
            Some(Output::Send(conn, message)) => (conn, message),
            other => panic!("{other:?}"),
        }
    }

    fn acknowledge(&mut self, conn: ConnId, tid: u64, result: i32, output: &str) -> Vec<Output> {
        let ack = MonCommandAck {
            version: 1,
            result,
            text: "said".to_owned(),
            command: Vec::new(),
            output: Bytes::copy_from_slice(output.as_bytes()),
        };
        self.console.handle_message(self.now, conn, &ack.encode(0).with_tid(tid));
        self.outputs()
    }

    fn wait(&mut self, time: Duration) -> Vec<Output> {
        self.now = self.now + time;
        self.console.handle_timeout(self.now, &self.entities);
        self.outputs()
    }
}

#[test]
fn the_page_is_for_all_and_everything_else_for_those_who_signed_in() {
    let mut browser = Browser::new();
    let request = browser.request(Method::Get, "/", "");
    let page = browser.answer(&request);
    assert_eq!(page.status, Status::Ok);
    let policy = page.fields.iter().find(|(name, _)| *name == "Content-Security-Policy").unwrap();
    assert!(policy.1.contains("default-src 'none'") && !policy.1.contains("unsafe"));
    for (method, path) in [
        (Method::Get, "/api/session"),
        (Method::Get, "/api/stream?view=osds"),
        (Method::Post, "/api/command"),
        (Method::Delete, "/api/session"),
        (Method::Get, "/nothing"),
    ] {
        assert_eq!(browser.status(method, path, r#"{"prefix":"status"}"#), Status::Unauthorized);
    }
    browser.sign_in();
    assert_eq!(browser.status(Method::Get, "/api/session", ""), Status::Ok);
    assert_eq!(browser.status(Method::Get, "/nothing", ""), Status::NotFound);
}

#[test]
fn a_link_signs_in_once() {
    let mut browser = Browser::new();
    browser.entities.links.truncate(1);
    browser.sign_in();
    let again = browser.status(Method::Post, "/api/session", r#"{"token":"client.a"}"#);
    assert_eq!(again, Status::Unauthorized);
    for body in ["", "{}", r#"{"token":7}"#, r#"{"token":""}"#, "[[[["] {
        assert_eq!(browser.status(Method::Post, "/api/session", body), Status::Unauthorized);
    }
}

#[test]
fn a_command_is_sent_in_the_session_of_the_user_and_its_answer_comes_back() {
    let mut browser = Browser::new();
    browser.sign_in();
    let (conn, message) = browser.command(r#"{"prefix":"osd out","ids":["1"]}"#);
    let sent = decode_from_peer::<MonCommand>(&message).unwrap();
    assert_eq!(sent.command, [r#"{"prefix":"osd out","ids":["1"],"format":"json"}"#]);
    assert_eq!(conn, browser.conn);
    let outputs = browser.acknowledge(conn, message.tid, 0, "[1]");
    let [Output::Respond(_, response)] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(response.body, r#"{"result":0,"text":"said","output":[1]}"#);
    // The monitor refuses, and so does the console.
    let (conn, message) = browser.command(r#"{"prefix":"osd out","ids":["1"]}"#);
    let outputs = browser.acknowledge(conn, message.tid, -13, "");
    let [Output::Respond(_, response)] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(response.status, Status::Forbidden);
}

#[test]
fn a_change_without_the_secret_of_the_page_or_from_another_site_is_refused() {
    let mut browser = Browser::new();
    browser.sign_in();
    let body = r#"{"prefix":"osd out","ids":["1"]}"#;
    let good = browser.request(Method::Post, "/api/command", body);
    let without = |name: &str| {
        let mut request = good.clone();
        request.fields.retain(|(field, _)| field != name);
        request
    };
    let with = |name: &str, value: &str| {
        let mut request = without(name);
        request.fields.push((name.to_owned(), value.to_owned()));
        request
    };
    for (request, status) in [
        (without(CSRF), Status::Forbidden),
        (with(CSRF, "guessed"), Status::Forbidden),
        (with("origin", "https://evil"), Status::Forbidden),
        (with("sec-fetch-site", "same-site"), Status::Forbidden),
        (with("content-type", "text/plain"), Status::BadRequest),
        (without("cookie"), Status::Unauthorized),
        (with("cookie", "__Host-sepiola-8443=guessed"), Status::Unauthorized),
    ] {
        assert_eq!(browser.answer(&request).status, status, "{request:?}");
    }
    let forbidden = browser.request(Method::Post, "/api/command", r#"{"prefix":"auth ls"}"#);
    assert_eq!(browser.answer(&forbidden).status, Status::Forbidden);
    assert!(matches!(browser.ask(&good)[..], [Output::Send(..)]));
}

#[test]
fn another_address_has_to_sign_in_itself() {
    let mut browser = Browser::new();
    browser.sign_in();
    let request = browser.request(Method::Get, "/api/session", "");
    let elsewhere = "10.0.0.9".parse().unwrap();
    browser.console.handle_request(browser.now, &mut browser.entities, 99, elsewhere, &request);
    let outputs = browser.outputs();
    assert!(matches!(&outputs[..], [Output::Respond(99, it)] if it.status == Status::Unauthorized));
}

#[test]
fn a_session_ends_with_its_entity_or_a_change_of_its_capabilities() {
    for change in [None, Some(Bytes::from_static(b"Mallow *"))] {
        let mut browser = Browser::new();
        browser.sign_in();
        let stream = browser.request(Method::Get, "/api/stream?view=osds", "");
        browser.ask(&stream);
        let (_, asked) = browser.command(r#"{"prefix":"status"}"#);
        browser.entities.caps.remove(&name());
        change.clone().map(|caps| browser.entities.caps.insert(name(), caps));
        let outputs = browser.wait(SECOND);
        let is_told = |output: &Output| matches!(output, Output::Push(_, event) if event.starts_with(b"event: ended"));
        assert!(outputs.iter().any(is_told), "{outputs:?}");
        assert!(outputs.iter().any(|output| matches!(output, Output::Close(_))));
        let is_refused = |output: &Output| matches!(output, Output::Respond(_, it) if it.status == Status::Unauthorized);
        assert!(outputs.iter().any(is_refused), "the request in progress is answered");
        assert!(browser.acknowledge(browser.conn, asked.tid, 0, "").is_empty());
        assert_eq!(browser.status(Method::Get, "/api/session", ""), Status::Unauthorized);
    }
}

#[test]
fn who_signs_out_or_is_idle_is_signed_in_no_more() {
    let mut browser = Browser::new();
    browser.sign_in();
    assert_eq!(browser.status(Method::Delete, "/api/session", ""), Status::NoContent);
    assert_eq!(browser.status(Method::Get, "/api/session", ""), Status::Unauthorized);
    browser.sign_in();
    let outputs = browser.wait(31 * 60 * SECOND);
    assert!(matches!(&outputs[..], [Output::Close(conn)] if *conn == browser.conn));
    assert_eq!(browser.status(Method::Get, "/api/session", ""), Status::Unauthorized);
}

#[test]
fn a_stream_shows_a_view_until_it_is_refused() {
    let mut browser = Browser::new();
    browser.sign_in();
    let stream = browser.request(Method::Get, "/api/stream?view=users", "");
    assert!(matches!(browser.ask(&stream)[..], [Output::Stream(..)]));
    let outputs = browser.wait(SECOND);
    let [Output::Send(conn, asked)] = &outputs[..] else { panic!("{outputs:?}") };
    let outputs = browser.acknowledge(*conn, asked.tid, 0, r#"{"a":1}"#);
    assert!(
        matches!(&outputs[..], [Output::Push(_, it)] if it == "event: state\ndata: {\"a\":1}\n\n")
    );
    let outputs = browser.wait(SECOND);
    let [Output::Send(conn, asked)] = &outputs[..] else { panic!("{outputs:?}") };
    assert!(browser.acknowledge(*conn, asked.tid, 0, r#"{"a":1}"#).is_empty(), "nothing is new");
    let outputs = browser.wait(SECOND);
    let [Output::Send(conn, asked)] = &outputs[..] else { panic!("{outputs:?}") };
    let outputs = browser.acknowledge(*conn, asked.tid, -13, "");
    assert!(
        matches!(&outputs[..], [Output::Push(_, it), Output::End(_)] if it.starts_with(b"event: refused"))
    );
    let unknown = browser.request(Method::Get, "/api/stream?view=secrets", "");
    assert_eq!(browser.answer(&unknown).status, Status::TooManyRequests);
}

#[test]
fn commands_in_progress_are_bounded_and_end_with_their_connection() {
    let mut browser = Browser::new();
    browser.sign_in();
    for _ in 0..WAITING_MAX {
        browser.command(r#"{"prefix":"status"}"#);
    }
    let more = browser.request(Method::Post, "/api/command", r#"{"prefix":"status"}"#);
    assert_eq!(browser.answer(&more).status, Status::TooManyRequests);
    for client in 0..=browser.client {
        browser.console.handle_gone(client);
    }
    assert!(browser.console.waiting.is_empty());
    browser.command(r#"{"prefix":"status"}"#);
}
