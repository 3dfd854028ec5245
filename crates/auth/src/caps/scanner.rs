//! Cursor over capability text, with the words that all four languages share.
//!
//! The parsers are recursive descent with ordered choice: [`Scanner::attempt`] restores the cursor when a
//! phrase does not match. The furthest position at which a token was missing is remembered and reported in
//! the error.

use super::permissions::Rwx;

/// Reason why capability text is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapsError {
    #[error(
        "{service} capability parse failed, stopped at '{rest}' of '{text}': expected {expected}"
    )]
    /// The text does not fit the language of its service.
    Syntax {
        /// Service whose language the text is in.
        service: &'static str,
        /// The whole text.
        text: String,
        /// The text from the furthest position that was reached.
        rest: String,
        /// The token that was missing there.
        expected: &'static str,
    },
    /// A profile that managers do not have.
    #[error("mgr capability parse failed during profile evaluation: unrecognized profile '{0}'")]
    UnknownMgrProfile(String),
    #[error(
        "mgr capability parse failed during profile evaluation: profile '{profile}' does not \
         recognize key '{key}'"
    )]
    /// A condition that the profile does not have.
    UnknownMgrProfileKey {
        /// Name of the profile.
        profile: String,
        /// The key that it does not have.
        key: String,
    },
    /// There are no capabilities for such a service.
    #[error("unknown cap type '{service}', known are mon, osd, mgr and mds")]
    UnknownService {
        /// The name in front of the text.
        service: String,
    },
}

pub(super) struct Scanner<'a> {
    text: &'a str,
    offset: usize,
    missed: (usize, &'static str),
}

impl<'a> Scanner<'a> {
    /// Parses a whole list of grants.
    pub fn grants<T>(
        service: &'static str,
        text: &'a str,
        mut grant: impl FnMut(&mut Scanner<'a>) -> Option<T>,
    ) -> Result<Vec<T>, CapsError> {
        let mut scanner = Scanner { text, offset: 0, missed: (0, "a grant") };
        let mut grants = Vec::new();
        loop {
            scanner.blanks();
            let Some(next) = grant(&mut scanner) else {
                return Err(scanner.error(service));
            };
            grants.push(next);
            scanner.blanks();
            if scanner.rest().is_empty() {
                return Ok(grants);
            }
            if !scanner.literal(",") && !scanner.literal(";") {
                scanner.miss("',' or the end");
                return Err(scanner.error(service));
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    fn miss(&mut self, expected: &'static str) {
        if self.offset >= self.missed.0 {
            self.missed = (self.offset, expected);
        }
    }

    fn error(&self, service: &'static str) -> CapsError {
        let (at, expected) = self.missed;
        let (text, rest) = (self.text.to_owned(), self.text[at..].to_owned());
        CapsError::Syntax { service, text, rest, expected }
    }

    /// Parses a phrase, or restores the cursor and returns `None`.
    pub fn attempt<T>(&mut self, phrase: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let start = self.offset;
        let value = phrase(self);
        if value.is_none() {
            self.offset = start;
        }
        value
    }

    /// Consumes a literal and returns true if it follows.
    pub fn literal(&mut self, literal: &'static str) -> bool {
        let found = self.rest().starts_with(literal);
        if found {
            self.offset += literal.len();
        }
        found
    }

    /// Requires a literal.
    pub fn expect(&mut self, literal: &'static str) -> Option<()> {
        if self.literal(literal) {
            return Some(());
        }
        self.miss(literal);
        None
    }

    /// Skips any number of blanks, including none.
    pub fn blanks(&mut self) {
        self.take_while(|c| c.is_ascii_whitespace());
    }

    /// Requires at least one blank.
    pub fn spaces(&mut self) -> Option<()> {
        if self.take_while(|c| c.is_ascii_whitespace()).is_empty() {
            self.miss("a blank");
            return None;
        }
        Some(())
    }

    /// Requires blanks and then `word`.
    pub fn spaced(&mut self, word: &'static str) -> Option<()> {
        self.attempt(|s| {
            s.spaces()?;
            s.expect(word)
        })
    }

    /// Requires `word=` or `word `, in front of a value.
    pub fn label(&mut self, word: &'static str) -> Option<()> {
        self.expect(word)?;
        if self.literal("=") { Some(()) } else { self.spaces() }
    }

    /// Parses a bare or quoted word.
    pub fn word(&mut self) -> Option<String> {
        self.quoted(1).or_else(|| self.bare_word())
    }

    /// Parses a bare or quoted word; a quoted word may be empty.
    pub fn word_or_empty(&mut self) -> Option<String> {
        self.quoted(0).or_else(|| self.bare_word())
    }

    /// Parses a word without quotes.
    pub fn bare_word(&mut self) -> Option<String> {
        self.run("a word", |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-'))
    }

    /// Parses an address with or without a prefix length, which is not validated.
    pub fn network(&mut self) -> Option<String> {
        self.run("a network such as 10.0.0.0/8", |c| {
            c.is_ascii_hexdigit() || matches!(c, '/' | '.' | ':' | '[' | ']')
        })
    }

    /// Parses a decimal number.
    pub fn number(&mut self) -> Option<u32> {
        self.run("a number", |c| c.is_ascii_digit())?.parse().ok()
    }

    /// Consumes a `*` and returns true if one follows.
    pub fn star(&mut self) -> bool {
        self.literal("*")
    }

    /// Parses `*`, `all`, or some of `r`, `w`, `x` in this order.
    pub fn rwx(&mut self) -> Option<Rwx> {
        if self.literal("*") || self.literal("all") {
            return Some(Rwx::ANY);
        }
        let found = Rwx::new(self.literal("r"), self.literal("w"), self.literal("x"));
        if found == Rwx::NONE {
            self.miss("some of 'rwx', or '*'");
            return None;
        }
        Some(found)
    }

    /// Parses ` network 10.0.0.0/8` if it follows.
    pub fn network_clause(&mut self) -> Option<String> {
        self.attempt(|s| {
            s.spaced("network")?;
            s.spaces()?;
            s.network()
        })
    }

    fn quoted(&mut self, length_min: usize) -> Option<String> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let Some(end) = rest[1..].find(quote).filter(|end| *end >= length_min) else {
            self.miss("a quoted word");
            return None;
        };
        self.offset += end + 2;
        Some(rest[1..=end].to_owned())
    }

    fn run(&mut self, what: &'static str, accept: impl Fn(char) -> bool) -> Option<String> {
        let found = self.take_while(accept).to_owned();
        if found.is_empty() {
            self.miss(what);
            return None;
        }
        Some(found)
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.offset += end;
        &rest[..end]
    }
}
