//! Clocks of processes, which differ and jump.

use crate::node::NodeId;
use engine::Duration;

/// By how much each clock is ahead of the agenda's time.
pub struct Clocks {
    /// Total of all clock jumps.
    jumped: Duration,
    skews: Vec<Duration>,
}

impl Clocks {
    /// Clocks that agree.
    pub fn new(nodes: usize) -> Self {
        Clocks { jumped: Duration::ZERO, skews: vec![Duration::ZERO; nodes] }
    }

    /// By how much the clock of that process is ahead.
    pub fn skew(&self, node: NodeId) -> Duration {
        self.skews[node]
    }

    /// By how much the clocks of all processes are ahead.
    pub fn skews(&self) -> &[Duration] {
        &self.skews
    }

    /// Sets how far a clock is ahead, apart from jumps. Called at a start, so clocks do not go back while a
    /// process runs.
    pub fn set_ahead(&mut self, node: NodeId, ahead: Duration) {
        self.skews[node] = self.jumped + ahead;
    }

    /// All clocks jump forward.
    pub fn jump(&mut self, by: Duration) {
        self.jumped += by;
        self.skews.iter_mut().for_each(|skew| *skew += by);
    }
}
