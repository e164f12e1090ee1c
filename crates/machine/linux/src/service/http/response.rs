//! An answer over HTTP.

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status line, such as `200 OK`.
    pub status: &'static str,
    /// Content type.
    pub kind: &'static str,
    /// Body.
    pub body: String,
}

impl Response {
    /// A found document.
    pub fn ok(kind: &'static str, body: impl Into<String>) -> Response {
        Response { status: "200 OK", kind, body: body.into() }
    }

    /// Plain text with a status.
    pub fn text(status: &'static str, body: impl Into<String>) -> Response {
        Response { status, kind: "text/plain", body: body.into() }
    }
}
