//! Capabilities for a file system (`MDSAuthCaps`); the text is validated and not evaluated.
//!
//! ```text
//! grant = "allow" FLAGS [fsname=NAME] [path=PATH] [root_squash] [uid=N] [gids=N,N...] [network]
//! ```

use super::{CapsError, scanner::Scanner};

/// In order of parsing: the first match is taken, so longer flags come first.
const FLAGS: [&str; 11] =
    ["*", "all", "rwfps", "rwps", "rwfp", "rwfs", "rwp", "rws", "rwf", "rw", "r"];

/// Valid capability text for metadata servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdsCaps {
    text: String,
}

impl MdsCaps {
    /// Validates the text; the error names the position of the first token that does not fit.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        // Clients of the first file systems were given the word alone.
        if text != "allow" {
            Scanner::grants("mds", text, read_grant)?;
        }
        Ok(MdsCaps { text: text.to_owned() })
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn read_grant(s: &mut Scanner<'_>) -> Option<()> {
    s.expect("allow")?;
    s.spaces()?;
    if !FLAGS.iter().any(|flags| s.literal(flags)) {
        return s.expect("flags such as rw, or '*'");
    }
    s.attempt(|s| {
        s.spaced("fsname=")?;
        s.bare_word()
    });
    s.attempt(|s| {
        s.spaced("path=")?;
        s.word_or_empty()
    });
    s.spaced("root_squash");
    s.attempt(|s| {
        s.spaced("uid=")?;
        s.number()
    });
    s.attempt(read_gids);
    s.network_clause();
    Some(())
}

fn read_gids(s: &mut Scanner<'_>) -> Option<()> {
    s.spaced("gids=")?;
    s.number()?;
    while s.literal(",") {
        s.number()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_text_is_kept_as_it_is() {
        for text in [
            "allow",
            "allow *",
            "allow r",
            "allow rw path=/foo",
            "allow rw fsname=a path=\"/my dir\" root_squash",
            "allow rwps path=/ uid=1000 gids=1000,1001",
            "allow rw fsname=a, allow r fsname=b",
            "allow r network 10.0.0.0/8",
        ] {
            assert_eq!(MdsCaps::parse(text).unwrap().text(), text);
        }
    }

    #[test]
    fn invalid_text_is_refused_where_it_goes_wrong() {
        for (text, rest) in [
            ("allow w", "w"),
            ("allow rw path=", ""),
            ("allow rw uid=x", "x"),
            ("allow rw;", ""),
            ("", ""),
            ("deny *", "deny *"),
        ] {
            let error = MdsCaps::parse(text).unwrap_err();
            let CapsError::Syntax { rest: found, .. } = error else { panic!("{error}") };
            assert_eq!(found, rest, "{text}");
        }
    }
}
