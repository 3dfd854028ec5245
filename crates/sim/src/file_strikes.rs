//! Deaths of the metadata server soon after an answer: when what it has told is
//! stored or not.

use crate::file_snapshots;
use crate::files::{SALT, parent};
use engine::{Duration, Time};
use fsclient::Call;
use stdx::Prng;

/// Time between two strikes.
const PAUSE: Duration = Duration::from_secs(3);
/// One in so many answers is followed by one.
const ONE_IN: u64 = 12;
/// Times in microseconds until the death.
const AFTER_US_MAX: [u64; 4] = [1_000, 20_000, 100_000, 400_000];
const AWAY_MS_MAX: u64 = 3_000;

/// Clients that die with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victims {
    /// No client.
    None,
    /// The client that was answered.
    One,
    /// All clients.
    All,
}

/// Events after an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strike {
    /// A call of other clients before the server dies.
    pub look: Option<Call>,
    /// Until then nothing that the server sends reaches OSDs.
    pub stifles: bool,
    /// When it dies.
    pub after: Duration,
    /// Clients that die, too.
    pub victims: Victims,
    /// How long they are away.
    pub away: Duration,
}

/// Draws strikes.
#[derive(Debug)]
pub struct Strikes {
    prng: Prng,
    left: usize,
    not_before: Time,
}

impl Strikes {
    /// So many strikes at most.
    pub fn new(seed: u64, left: usize) -> Self {
        Strikes { prng: Prng::new(seed ^ SALT ^ 2), left, not_before: Time::ZERO }
    }

    /// The strike that follows from the successful answer to a call, or from the news that it is durable.
    pub fn draw(&mut self, now: Time, call: &Call, is_durable: bool) -> Option<Strike> {
        let path = match call {
            Call::Mkdir(path) | Call::Rmdir(path) | Call::Unlink(path) | Call::Create(path) => {
                Some(path.clone())
            }
            Call::Rename(_, path) => Some(path.clone()),
            Call::TakeSnapshot { directory, name }
            | Call::RemoveSnapshot { directory, name }
            | Call::RenameSnapshot { directory, to: name, .. } => {
                Some(file_snapshots::path(directory, name))
            }
            Call::Fsync(_) | Call::Sync => None,
            _ => return None,
        };
        let p = &mut self.prng;
        if self.left == 0 || now < self.not_before || !p.chance(1, ONE_IN) {
            return None;
        }
        self.left -= 1;
        self.not_before = now + PAUSE;
        let looks = !is_durable && p.chance(2, 3);
        let look = path.filter(|_| looks).map(|path| match p.chance(1, 2) {
            false => Call::List(parent(&path)),
            true => Call::Stat(path),
        });
        let after_us = *p.choose(&AFTER_US_MAX);
        Some(Strike {
            look,
            stifles: p.chance(2, 3),
            after: Duration::from_micros(p.below(after_us)),
            victims: *p.choose(&[Victims::None, Victims::One, Victims::One, Victims::All]),
            away: Duration::from_millis(1 + p.below(AWAY_MS_MAX)),
        })
    }
}
