//! Access patterns, with fio's names.

use clap::ValueEnum;

/// Order and kind of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// Write one block after the other
    Write,
    /// Read one block after the other
    Read,
    /// Write blocks at random
    Randwrite,
    /// Read blocks at random
    Randread,
    /// Read and write blocks at random
    Randrw,
}

impl Pattern {
    /// True if blocks are drawn at random instead of in order.
    pub fn is_random(self) -> bool {
        matches!(self, Pattern::Randwrite | Pattern::Randread | Pattern::Randrw)
    }

    /// True if every request reads; `None` if it is random.
    pub fn always_reads(self) -> Option<bool> {
        match self {
            Pattern::Write | Pattern::Randwrite => Some(false),
            Pattern::Read | Pattern::Randread => Some(true),
            Pattern::Randrw => None,
        }
    }

    /// True if some requests write.
    pub fn writes(self) -> bool {
        self.always_reads() != Some(true)
    }

    /// The name that fio gives it.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Write => "write",
            Pattern::Read => "read",
            Pattern::Randwrite => "randwrite",
            Pattern::Randread => "randread",
            Pattern::Randrw => "randrw",
        }
    }
}
