//! Debug output of types that hold secrets: it has their lengths, so that a log or trace shows no key.

use crate::{AuthVerdict, ConnectingAnswer};
use std::fmt::{self, Debug, Formatter};

/// A secret in debug output: `64 bytes`.
pub struct Redacted<'a>(pub &'a [u8]);

impl Debug for Redacted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Debug for AuthVerdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            AuthVerdict::More { payload } => {
                f.debug_struct("More").field("payload", payload).finish()
            }
            AuthVerdict::Done {
                name,
                global_id,
                mode,
                payload,
                session_key,
                connection_secret,
                caps,
            } => f
                .debug_struct("Done")
                .field("name", name)
                .field("global_id", global_id)
                .field("mode", mode)
                .field("payload", payload)
                .field("session_key", &Redacted(session_key))
                .field("connection_secret", &Redacted(connection_secret))
                .field("caps", caps)
                .finish(),
            AuthVerdict::BadMethod { result, allowed_methods, allowed_modes } => f
                .debug_struct("BadMethod")
                .field("result", result)
                .field("allowed_methods", allowed_methods)
                .field("allowed_modes", allowed_modes)
                .finish(),
        }
    }
}

impl Debug for ConnectingAnswer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ConnectingAnswer::Start { method, preferred_modes, payload } => f
                .debug_struct("Start")
                .field("method", method)
                .field("preferred_modes", preferred_modes)
                .field("payload", payload)
                .finish(),
            ConnectingAnswer::More { payload } => {
                f.debug_struct("More").field("payload", payload).finish()
            }
            ConnectingAnswer::Finish { session_key, connection_secret } => f
                .debug_struct("Finish")
                .field("session_key", &Redacted(session_key))
                .field("connection_secret", &Redacted(connection_secret))
                .finish(),
            ConnectingAnswer::Refuse => f.write_str("Refuse"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use types::EntityName;

    #[test]
    fn debug_output_shows_no_secrets() {
        let (key, secret) = (Bytes::from_static(b"private"), Bytes::from_static(b"hidden"));
        let verdict = AuthVerdict::Done {
            name: EntityName::osd(3),
            global_id: 4,
            mode: 2,
            payload: Bytes::new(),
            session_key: key.clone(),
            connection_secret: secret.clone(),
            caps: Bytes::new(),
        };
        let answer = ConnectingAnswer::Finish { session_key: key, connection_secret: secret };
        for text in [format!("{verdict:?}"), format!("{answer:?}")] {
            assert!(!text.contains("private") && !text.contains("hidden"), "{text}");
            assert!(text.contains("7 bytes") && text.contains("6 bytes"), "{text}");
        }
    }
}
