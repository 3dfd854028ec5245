//! One connection: heads of requests out of bytes, and bytes of responses.

use crate::message::{Method, Request, Response, Status};
use bytes::{Bytes, BytesMut};

/// Bound for the head of a request; a longer one is answered with 431.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// Bound for the header fields of a request; more are answered with 431.
const FIELDS_MAX: usize = 64;

/// One connection.
#[derive(Debug, Default)]
pub struct Connection {
    input: BytesMut,
    output: Vec<Bytes>,
    /// The longest body of a request; `None` where only GET and HEAD are taken.
    body_max: Option<usize>,
    /// The request that is being answered.
    current: Option<Current>,
    is_streaming: bool,
    /// No further request is read.
    is_over: bool,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    method: Method,
    /// The client may send another request.
    stays: bool,
}

/// The head of a request, or the reason why there is none.
enum Head {
    Complete { request: Request, stays: bool, length: usize, body: usize },
    Partial,
    Refused(Status),
}

impl Connection {
    /// A connection that was accepted. It takes GET and HEAD.
    pub fn new() -> Self {
        Connection::default()
    }

    /// A connection that also takes POST and DELETE, with bodies of up to this length.
    pub fn with_bodies(body_max: usize) -> Self {
        Connection { body_max: Some(body_max), ..Connection::default() }
    }

    /// Takes received bytes.
    pub fn handle_received(&mut self, bytes: &[u8]) {
        let room = self.input_max() + 1 - self.input.len();
        if !self.is_over && !self.is_streaming {
            self.input.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn input_max(&self) -> usize {
        HEAD_BYTES_MAX + self.body_max.unwrap_or(0)
    }

    /// The next request; `None` while one is being answered, or more bytes are needed.
    pub fn poll_request(&mut self) -> Option<Request> {
        if self.current.is_some() || self.is_streaming || self.is_over {
            return None;
        }
        match head(&self.input, self.body_max) {
            Head::Partial => None,
            Head::Complete { length, body, .. } if self.input.len() < length + body => None,
            Head::Complete { mut request, stays, length, body } => {
                // Beyond the bound bytes were dropped, so what follows may be incomplete.
                let is_whole = self.input.len() <= self.input_max();
                drop(self.input.split_to(length));
                request.body = self.input.split_to(body).freeze();
                // Browsers do not pipeline; else few bytes could ask for many answers before any is sent.
                let is_alone = self.body_max.is_none() || self.input.is_empty();
                self.current =
                    Some(Current { method: request.method, stays: stays && is_whole && is_alone });
                Some(request)
            }
            Head::Refused(status) => {
                self.current = Some(Current { method: Method::Get, stays: false });
                self.respond(Response::text(status, format!("{}\n", status.line())));
                None
            }
        }
    }

    /// Answers the request that [`Connection::poll_request`] returned.
    pub fn respond(&mut self, response: Response) {
        let Current { method, stays } = self.current.take().expect("a request is being answered");
        let connection = if stays { "keep-alive" } else { "close" };
        let length = format!("Content-Length: {}\r\n", response.body.len());
        self.output.push(response_head(&response, &length, connection));
        if method != Method::Head && !response.body.is_empty() {
            self.output.push(response.body);
        }
        self.is_over = !stays;
    }

    /// Answers the request by a body without end, which begins with that of the response:
    /// [`Connection::push`] continues it. No further request is read.
    pub fn respond_by_stream(&mut self, response: Response) {
        self.current.take().expect("a request is being answered");
        self.output.push(response_head(&response, "", "close"));
        self.output.push(response.body);
        self.is_streaming = true;
        self.input.clear();
    }

    /// Appends to the body of [`Connection::respond_by_stream`].
    pub fn push(&mut self, bytes: Bytes) {
        assert!(self.is_streaming, "the response has no end yet");
        self.output.push(bytes);
    }

    /// Ends that body.
    pub fn end_stream(&mut self) {
        self.is_streaming = false;
        self.is_over = true;
    }

    /// Whether a request is being answered, or a body without end goes on.
    pub fn is_busy(&self) -> bool {
        self.current.is_some() || self.is_streaming
    }

    /// Bytes to send.
    pub fn poll_transmit(&mut self, pieces: &mut Vec<Bytes>) {
        pieces.append(&mut self.output);
    }

    /// Set once the last response was made: the connection ends after its bytes.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

fn response_head(response: &Response, length: &str, connection: &str) -> Bytes {
    let (status, content_type) = (response.status.line(), response.content_type);
    let mut head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\n{length}Connection: {connection}\r\n\
         X-Content-Type-Options: nosniff\r\n",
    );
    for (name, value) in &response.fields {
        assert!(!value.contains(['\r', '\n']), "a header field is one line");
        head += &format!("{name}: {value}\r\n");
    }
    (head + "\r\n").into()
}

fn head(input: &[u8], body_max: Option<usize>) -> Head {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    let length = match parsed.parse(input) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => length,
        Ok(httparse::Status::Partial) if input.len() <= HEAD_BYTES_MAX => return Head::Partial,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Head::Refused(Status::HeadTooLarge),
        Err(_) => return Head::Refused(Status::BadRequest),
    };
    let body = match body_length(parsed.headers, body_max.unwrap_or(0)) {
        Ok(body) => body,
        Err(status) => return Head::Refused(status),
    };
    let method = match (parsed.method, body_max) {
        (Some("GET"), _) => Method::Get,
        (Some("HEAD"), _) => Method::Head,
        (Some("POST"), Some(_)) => Method::Post,
        (Some("DELETE"), Some(_)) => Method::Delete,
        _ => return Head::Refused(Status::MethodNotAllowed),
    };
    let target = parsed.path.unwrap_or_default();
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let wants_end = values(parsed.headers, "connection")
        .any(|value| value.to_ascii_lowercase().contains("close"));
    let stays = parsed.version == Some(1) && !wants_end;
    let fields = if body_max.is_some() { shown(parsed.headers) } else { Vec::new() };
    let request = Request { method, path, query, fields, body: Bytes::new() };
    Head::Complete { request, stays, length, body }
}

/// The length of the body. More than one length, or another coding, could be read in two ways.
fn body_length(fields: &[httparse::Header<'_>], most: usize) -> Result<usize, Status> {
    if values(fields, "transfer-encoding").next().is_some() {
        return Err(Status::ContentTooLarge);
    }
    let mut lengths = values(fields, "content-length");
    let Some(text) = lengths.next() else { return Ok(0) };
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || lengths.next().is_some() {
        return Err(Status::BadRequest);
    }
    match text.parse::<usize>() {
        Ok(length) if length <= most => Ok(length),
        _ => Err(Status::ContentTooLarge),
    }
}

fn values<'a>(
    fields: &'a [httparse::Header<'_>],
    name: &'a str,
) -> impl Iterator<Item = std::borrow::Cow<'a, str>> {
    let named = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
    named.map(|field| String::from_utf8_lossy(field.value))
}

fn shown(fields: &[httparse::Header<'_>]) -> Vec<(String, String)> {
    let is_visible = |value: &[u8]| value.iter().all(|byte| (b' '..=b'~').contains(byte));
    let fields = fields.iter().filter(|field| is_visible(field.value));
    let text = |value: &[u8]| String::from_utf8_lossy(value).trim().to_owned();
    fields.map(|field| (field.name.to_ascii_lowercase(), text(field.value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(connection: &mut Connection) -> String {
        let mut pieces = Vec::new();
        connection.poll_transmit(&mut pieces);
        String::from_utf8(pieces.concat()).unwrap()
    }

    fn get(path: &str) -> Option<Request> {
        Some(Request { path: path.to_owned(), ..Request::default() })
    }

    #[test]
    fn requests_come_one_at_a_time_however_their_bytes_do() {
        let mut connection = Connection::new();
        let text = "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nConnection: close\r\n\r\n";
        for byte in text.bytes() {
            connection.handle_received(&[byte]);
        }
        let asked = connection.poll_request().unwrap();
        assert_eq!((asked.path.as_str(), asked.query.as_str()), ("/metrics", "x=1"));
        assert_eq!(connection.poll_request(), None, "the first is not answered");
        connection.respond(Response::text(Status::Ok, "up 1\n"));
        let answer = sent(&mut connection);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nup 1\n"));
        assert!(answer.contains("Content-Length: 5\r\n") && answer.contains("keep-alive"));
        assert!(!connection.is_over());
        assert_eq!(connection.poll_request().map(|request| request.method), Some(Method::Head));
        connection.respond(Response::text(Status::Ok, "up 1\n"));
        let answer = sent(&mut connection);
        assert!(
            answer.contains("Content-Length: 5\r\n") && answer.ends_with("\r\n\r\n"),
            "{answer}"
        );
        assert!(connection.is_over());
    }

    #[test]
    fn a_request_that_cannot_be_served_is_answered_and_ends_the_connection() {
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(HEAD_BYTES_MAX));
        let fields = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(FIELDS_MAX + 1));
        for (text, status) in [
            ("nonsense\r\n\r\n", "400"),
            ("\0\0\0\0", "400"),
            ("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "413"),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "413"),
            ("DELETE /metrics HTTP/1.1\r\n\r\n", "405"),
            (&long, "431"),
            (&fields, "431"),
        ] {
            let mut connection = Connection::new();
            connection.handle_received(text.as_bytes());
            assert_eq!(connection.poll_request(), None, "{text:.40}");
            let answer = sent(&mut connection);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{text:.40}: {answer}");
            assert!(connection.is_over());
            connection.handle_received(b"GET / HTTP/1.1\r\n\r\n");
            assert_eq!(connection.poll_request(), None, "nothing follows");
        }
    }

    #[test]
    fn a_body_comes_with_its_request_where_bodies_are_taken() {
        let mut connection = Connection::with_bodies(8);
        let text = "POST /a HTTP/1.1\r\nX-Csrf:  t \r\nCookie: a\r\nCookie: b\r\nContent-Length: 3\r\n\r\nabc";
        for byte in text.bytes() {
            connection.handle_received(&[byte]);
        }
        let asked = connection.poll_request().unwrap();
        assert_eq!(
            (asked.method, asked.path.as_str(), &asked.body[..]),
            (Method::Post, "/a", &b"abc"[..])
        );
        assert_eq!((asked.field("x-csrf"), asked.field("cookie")), (Some("t"), None));
        let fields = vec![("Set-Cookie", "a=b".to_owned())];
        connection.respond(Response { fields, ..Response::text(Status::NoContent, "") });
        assert!(sent(&mut connection).contains("\r\nSet-Cookie: a=b\r\n"));
        connection.handle_received(b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(connection.poll_request().map(|asked| asked.path).as_deref(), Some("/"));
    }

    #[test]
    fn requests_that_do_not_wait_for_answers_are_not_answered_where_bodies_are_taken() {
        let mut connection = Connection::with_bodies(8);
        connection.handle_received(b"GET / HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\n");
        assert_eq!(connection.poll_request().map(|asked| asked.path).as_deref(), Some("/"));
        connection.respond(Response::text(Status::NoContent, ""));
        assert!(sent(&mut connection).contains("\r\nConnection: close\r\n"));
        assert!(connection.is_over() && connection.poll_request().is_none());
    }

    #[test]
    fn a_body_that_is_too_long_or_could_be_read_in_two_ways_ends_the_connection() {
        for (fields, status) in [
            ("Content-Length: 9", "413"),
            ("Content-Length: 99999999999999999999999", "413"),
            ("Content-Length: +3", "400"),
            ("Content-Length: ", "400"),
            ("Content-Length: 3\r\nContent-Length: 3", "400"),
            ("Transfer-Encoding: chunked", "413"),
        ] {
            let mut connection = Connection::with_bodies(8);
            let head = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
            connection.handle_received(head.as_bytes());
            assert_eq!(connection.poll_request(), None, "{fields}");
            assert!(sent(&mut connection).starts_with(&format!("HTTP/1.1 {status} ")), "{fields}");
            assert!(connection.is_over());
        }
    }

    #[test]
    fn a_stream_goes_on_until_it_is_ended() {
        let mut connection = Connection::with_bodies(8);
        connection.handle_received(b"GET /events HTTP/1.1\r\n\r\n");
        assert!(connection.poll_request().is_some());
        connection.respond_by_stream(Response::new(Status::Ok, "text/event-stream", ""));
        connection.push("data: 1\n\n".into());
        let answer = sent(&mut connection);
        assert!(answer.ends_with("\r\n\r\ndata: 1\n\n") && !answer.contains("Content-Length"));
        connection.handle_received(b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!((connection.poll_request(), connection.is_busy()), (None, true));
        assert!(!connection.is_over());
        connection.end_stream();
        assert!(connection.is_over() && !connection.is_busy());
    }

    #[test]
    fn an_old_client_gets_one_answer() {
        let mut connection = Connection::new();
        connection.handle_received(b"GET / HTTP/1.0\r\n\r\n");
        assert_eq!(connection.poll_request(), get("/"));
        connection.respond(Response::text(Status::NotFound, ""));
        assert!(sent(&mut connection).starts_with("HTTP/1.1 404"));
        assert!(connection.is_over());
    }

    #[test]
    fn a_client_that_sends_ever_more_does_not_fill_the_memory() {
        let mut connection = Connection::new();
        connection.handle_received(b"GET / HTTP/1.1\r\n\r\n");
        assert!(connection.poll_request().is_some());
        for _ in 0..100 {
            connection.handle_received(&[b'x'; 4096]);
        }
        assert!(connection.input.len() <= HEAD_BYTES_MAX + 1);
    }
}
