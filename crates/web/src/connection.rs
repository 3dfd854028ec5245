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
    /// The request that is being answered.
    current: Option<Current>,
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
    Complete { request: Request, stays: bool, length: usize },
    Partial,
    Refused(Status),
}

impl Connection {
    /// A connection that was accepted.
    pub fn new() -> Self {
        Connection::default()
    }

    /// Takes received bytes.
    pub fn handle_received(&mut self, bytes: &[u8]) {
        let room = HEAD_BYTES_MAX + 1 - self.input.len();
        if !self.is_over {
            self.input.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// The next request; `None` while one is being answered, or more bytes are needed.
    pub fn poll_request(&mut self) -> Option<Request> {
        if self.current.is_some() || self.is_over {
            return None;
        }
        match head(&self.input) {
            Head::Partial => None,
            Head::Complete { request, stays, length } => {
                // Beyond the bound bytes were dropped, so what follows the head may be incomplete.
                let is_whole = self.input.len() <= HEAD_BYTES_MAX;
                drop(self.input.split_to(length));
                self.current = Some(Current { method: request.method, stays: stays && is_whole });
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
        let Response { status, content_type, body } = response;
        let connection = if stays { "keep-alive" } else { "close" };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\
             X-Content-Type-Options: nosniff\r\n\r\n",
            status.line(),
            body.len(),
        );
        self.output.push(head.into());
        if method == Method::Get && !body.is_empty() {
            self.output.push(body);
        }
        self.is_over = !stays;
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

fn head(input: &[u8]) -> Head {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    let length = match parsed.parse(input) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => length,
        Ok(httparse::Status::Partial) if input.len() <= HEAD_BYTES_MAX => return Head::Partial,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Head::Refused(Status::HeadTooLarge),
        Err(_) => return Head::Refused(Status::BadRequest),
    };
    let has = |name: &str, is: &dyn Fn(&str) -> bool| {
        let named = parsed.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        named
            .into_iter()
            .any(|field| is(&String::from_utf8_lossy(field.value).to_ascii_lowercase()))
    };
    if has("transfer-encoding", &|_| true) || has("content-length", &|value| value.trim() != "0") {
        return Head::Refused(Status::ContentTooLarge);
    }
    let method = match parsed.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        _ => return Head::Refused(Status::MethodNotAllowed),
    };
    let target = parsed.path.unwrap_or_default();
    let path = target.split(['?', '#']).next().unwrap_or_default().to_owned();
    let stays = match parsed.version {
        Some(1) => !has("connection", &|value| value.contains("close")),
        _ => false,
    };
    Head::Complete { request: Request { method, path }, stays, length }
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
        Some(Request { method: Method::Get, path: path.to_owned() })
    }

    #[test]
    fn requests_come_one_at_a_time_however_their_bytes_do() {
        let mut connection = Connection::new();
        let text = "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nConnection: close\r\n\r\n";
        for byte in text.bytes() {
            connection.handle_received(&[byte]);
        }
        assert_eq!(connection.poll_request(), get("/metrics"));
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
