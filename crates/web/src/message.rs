//! Requests and responses.

use bytes::Bytes;

/// Method of a request. Others are answered by the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Wants the content.
    #[default]
    Get,
    /// Wants the head of the response alone.
    Head,
    /// Has a body. Only on connections that take bodies.
    Post,
    /// Removes something. Only on connections that take bodies.
    Delete,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// The path without the query, as it was sent.
    pub path: String,
    /// The text after the question mark; empty if there is none.
    pub query: String,
    /// Header fields in the order of the request, on connections that take bodies; names in lower case.
    /// Fields whose values are not visible ASCII are left out.
    pub fields: Vec<(String, String)>,
    /// The body; empty if there is none.
    pub body: Bytes,
}

impl Request {
    /// The value of a header field; `None` also if the request has it more than once.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(known, _)| known == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value.as_str())
    }
}

/// Status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// 200
    Ok,
    /// 204: there is nothing more to say.
    NoContent,
    /// 400: the request is malformed.
    BadRequest,
    /// 401: the client has not signed in.
    Unauthorized,
    /// 403: the client may not do that.
    Forbidden,
    /// 404
    NotFound,
    /// 405: a method that the connection or the path does not take.
    MethodNotAllowed,
    /// 413: the request has a body where none is taken, or a longer one than is taken.
    ContentTooLarge,
    /// 429: the client has too many requests in progress.
    TooManyRequests,
    /// 431: the head of the request is too long.
    HeadTooLarge,
    /// 503: the server cannot answer now.
    Unavailable,
}

impl Status {
    /// As in the first line of a response.
    pub(crate) fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::NoContent => "204 No Content",
            Status::BadRequest => "400 Bad Request",
            Status::Unauthorized => "401 Unauthorized",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::ContentTooLarge => "413 Content Too Large",
            Status::TooManyRequests => "429 Too Many Requests",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// Its status.
    pub status: Status,
    /// Media type of the body.
    pub content_type: &'static str,
    /// Further header fields. Their values must not contain line breaks.
    pub fields: Vec<(&'static str, String)>,
    /// The body, which is not copied.
    pub body: Bytes,
}

impl Response {
    /// A response without further header fields.
    pub fn new(status: Status, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Response { status, content_type, fields: Vec::new(), body: body.into() }
    }

    /// A response in plain text.
    pub fn text(status: Status, text: impl Into<Bytes>) -> Self {
        Response::new(status, "text/plain; charset=utf-8", text)
    }
}
