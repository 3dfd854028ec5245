//! Faults, and the kinds of which they are drawn.

use crate::node::{NodeId, Way};
use engine::Duration;

/// One fault that is applied to the world at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Processes die and lose all state that is not durable.
    Crash(Vec<NodeId>),
    /// Processes die with their host: peers are not told that their connections are closed.
    Vanish(Vec<NodeId>),
    Start(Vec<NodeId>),
    /// Nothing that these processes send reaches OSDs, until they fall.
    Stifle(Vec<NodeId>),
    /// Processes die with their host, and with all that is on its way from them.
    Fall(Vec<NodeId>),
    /// About this percentage of a process's connections breaks.
    Cut {
        node: NodeId,
        share: u64,
    },
    /// Messages between these processes and all others are blocked.
    Partition(Vec<NodeId>),
    /// Messages of others to these processes are blocked.
    Deafness(Vec<NodeId>),
    /// Messages of these processes to others are blocked.
    Muteness(Vec<NodeId>),
    Slow(Vec<Way>, u64),
    Lossy(Vec<Way>, u64),
    Storm {
        factor: u64,
    },
    /// Ends partitions, weak links and storms.
    Mend,
    /// Processes are suspended.
    Pause(Vec<NodeId>),
    Resume(Vec<NodeId>),
    /// Clocks stop and then jump, as on a machine that was suspended.
    ClockJump(Duration),
    CreatePool,
    /// All monitors lose the control store.
    StoreDown(Duration),
    /// The control store answers, and refuses writes.
    ControlRefuses(Duration),
    /// A backup of the control store is made; while all monitors are down, it is restored, with or without
    /// their high-water marks.
    BackUpControl,
    RestoreControl {
        with_marks: bool,
    },
    /// A command of an administrator.
    Command(String),
    /// A scrub or repair command of an administrator.
    Order(String),
    /// An administrator removes the OSD from the cluster, once no group depends on it alone.
    Remove(NodeId),
    /// One monitor loses the control store, the others keep it.
    StoreCut(NodeId, Duration),
    /// The device of an OSD that does not run loses data.
    Rot(NodeId),
    /// The same, once all data of the OSD is on others, too.
    RotSoon(NodeId),
    /// Other data takes this percentage of the device, and is removed later.
    Fill(NodeId, u64),
    Unfill(NodeId),
    /// The disk completes nothing until it resumes.
    DiskStops(NodeId),
    DiskGoesOn(NodeId),
    /// The disk fails all requests from now on.
    DiskDies(NodeId),
    /// Reads of the disk fail, so many per million.
    DiskMisreads(NodeId, u64),
    /// The disk is repaired, and its OSD restarted.
    DiskHeals(NodeId),
    /// An administrator replaces the OSD's disk, once that is safe.
    Replace(NodeId),
    /// One read of the disk fails, after so many others.
    FailRead(NodeId, u64),
    /// The pending read failure is cancelled; an OSD that shut down because of it is restarted.
    ReadsHeal(NodeId),
    /// A client resends its requests in flight over the same sessions.
    Resend(NodeId),
    /// Some OSD loses index entries of clones.
    Unindex,
    /// An administrator declares an OSD lost that is down, if no group needs it.
    Lose(NodeId),
    /// An OSD restarts, and cannot read the log of one of its shards from then on.
    FailCopy(NodeId),
    /// It can read all logs, and restarts.
    CopyHeals(NodeId),
}

/// Kinds of faults that are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    CrashOsd,
    CrashMonitor,
    CrashAll,
    CrashClient,
    CrashHost,
    Vanish,
    Cut,
    Partition,
    OneWay,
    Flap,
    Storm,
    WeakLink,
    Pause,
    ClockJump,
    StoreDown,
    CreatePool,
    Churn,
    AddOsd,
    DivideGroups,
    CutStore,
    FailDisk,
    OrderScrub,
    RemoveOsd,
    Rot,
    BreakBackfill,
    FailRead,
    Resend,
    PauseRequests,
    MergeRepaired,
    RefuseWrites,
    Scale,
    LateReports,
    FillDisk,
    /// An administrator sets the `min_size` of the erasure-coded pool, to a value within these.
    ChangeMinSize {
        least: u8,
        most: u8,
    },
    LoseOsd,
    FailCopy,
    CrashServer,
    CrashFileClient,
    /// A metadata server or a client of the file system stands still, or is cut off.
    HaltFiles,
}

impl Kind {
    /// True if requests may take very long while the fault lasts.
    pub fn is_slow(self) -> bool {
        use Kind::*;
        matches!(self, Partition | OneWay | Flap | Storm | WeakLink | Pause | Vanish)
    }
}

/// A fault that happens now, and later ones with their delays.
pub type Plan = (Fault, Vec<(Duration, Fault)>);
