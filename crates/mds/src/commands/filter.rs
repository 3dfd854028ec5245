//! Filters of sessions, as `session ls` and `session evict` take them: `id=4123`, `state=open`,
//! `reconnecting=true`, `client_metadata.hostname=node1`, and `*` for all.

use serde_json::Value;
use types::Errno;
use wire::tell::Sentence;

/// Conditions for sessions. All must fit.
#[derive(Debug, Default)]
pub(crate) struct Filter(Vec<Part>);

#[derive(Debug)]
enum Part {
    All,
    Id(u64),
    State(String),
    Reconnecting(bool),
    Metadata(String, String),
}

impl Filter {
    /// Reads the arguments of a command.
    ///
    /// # Errors
    ///
    /// One of them is no filter.
    pub fn parse(words: &[String]) -> Result<Filter, Sentence> {
        let words = words.iter().flat_map(|text| text.split_whitespace());
        words
            .map(|word| part(word).ok_or_else(|| refusal(word)))
            .collect::<Result<_, _>>()
            .map(Filter)
    }

    /// Whether no condition was given, not even that all are meant.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a session, as `session ls` shows it, is one of those that are meant.
    pub fn fits(&self, session: &Value) -> bool {
        self.0.iter().all(|part| match part {
            Part::All => true,
            Part::Id(id) => session["id"] == *id,
            Part::State(state) => session["state"] == **state,
            Part::Reconnecting(is) => session["reconnecting"] == *is,
            Part::Metadata(name, value) => session["client_metadata"][name] == **value,
        })
    }
}

fn part(word: &str) -> Option<Part> {
    if word == "*" {
        return Some(Part::All);
    }
    let Some((name, value)) = word.split_once('=') else { return word.parse().ok().map(Part::Id) };
    match name {
        "id" => value.parse().ok().map(Part::Id),
        "state" => Some(Part::State(value.to_owned())),
        "reconnecting" => match value {
            "true" | "1" => Some(Part::Reconnecting(true)),
            "false" | "0" => Some(Part::Reconnecting(false)),
            _ => None,
        },
        _ => {
            let fact = name.strip_prefix("client_metadata.")?;
            Some(Part::Metadata(fact.to_owned(), value.to_owned()))
        }
    }
}

fn refusal(word: &str) -> Sentence {
    let text = format!(
        "'{word}' is no filter of sessions: use id=NUMBER, state=STATE, reconnecting=true, \
         client_metadata.NAME=VALUE, or '*' for all"
    );
    Sentence::new(Errno::INVAL, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fits(filter: &str) -> bool {
        let session = json!({
            "id": 4123, "state": "open", "reconnecting": false,
            "client_metadata": { "hostname": "node1" },
        });
        Filter::parse(&[filter.to_owned()]).unwrap().fits(&session)
    }

    #[test]
    fn all_parts_of_a_filter_must_fit() {
        for filter in ["4123", "*", "id=4123 state=open", "client_metadata.hostname=node1", ""] {
            assert!(fits(filter), "{filter}");
        }
        for filter in ["4124", "id=4123 state=stale", "client_metadata.root=/", "reconnecting=1"] {
            assert!(!fits(filter), "{filter}");
        }
        for filter in ["id=x", "name=a", "x"] {
            assert!(Filter::parse(&[filter.to_owned()]).is_err(), "{filter}");
        }
    }
}
