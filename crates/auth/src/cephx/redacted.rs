//! Debug output of authenticated ends, with the lengths of their secrets only.

use super::{Authenticated, AuthorizedPeer, ClientSession};
use engine::Redacted;
use std::fmt::{Debug, Formatter, Result};

impl Debug for ClientSession {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let ClientSession { session_key, connection_secret } = self;
        f.debug_struct("ClientSession")
            .field("session_key", session_key)
            .field("connection_secret", &Redacted(connection_secret))
            .finish()
    }
}

impl Debug for Authenticated {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Authenticated { session_key, connection_secret, mon_caps, used_pending_key } = self;
        f.debug_struct("Authenticated")
            .field("session_key", session_key)
            .field("connection_secret", &Redacted(connection_secret))
            .field("mon_caps", mon_caps)
            .field("used_pending_key", used_pending_key)
            .finish()
    }
}

impl Debug for AuthorizedPeer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let AuthorizedPeer { name, global_id, caps, session_key, connection_secret, expires } =
            self;
        f.debug_struct("AuthorizedPeer")
            .field("name", name)
            .field("global_id", global_id)
            .field("caps", caps)
            .field("session_key", session_key)
            .field("connection_secret", &Redacted(connection_secret))
            .field("expires", expires)
            .finish()
    }
}
