//! Requests and responses.

use bytes::Bytes;

/// Method of a request. Others are answered by the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Wants the content.
    Get,
    /// Wants the head of the response alone.
    Head,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its method.
    pub method: Method,
    /// The path without the query, as it was sent.
    pub path: String,
}

/// Status of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// 200
    Ok,
    /// 400: the request is malformed.
    BadRequest,
    /// 404
    NotFound,
    /// 405: another method than GET and HEAD.
    MethodNotAllowed,
    /// 413: the request has a body.
    ContentTooLarge,
    /// 431: the head of the request is too long.
    HeadTooLarge,
}

impl Status {
    /// As in the first line of a response.
    pub(crate) fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::ContentTooLarge => "413 Content Too Large",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
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
    /// The body, which is not copied.
    pub body: Bytes,
}

impl Response {
    /// A response in plain text.
    pub fn text(status: Status, text: impl Into<Bytes>) -> Self {
        Response { status, content_type: "text/plain; charset=utf-8", body: text.into() }
    }
}
