//! Special conditions of a seed: small pieces, short logs that require backfill, reads that fail once,
//! resent requests, pauses, copies of objects, quotas.
//!
//! Each is drawn from a generator of its own, with faults of its own.

use crate::fault::Kind;
use crate::fault_mix::FaultMix;
use stdx::Prng;

const TRIALS: u64 = 0x7472_6961_6c73;
const MAPS: u64 = 0x6d61_7073;
/// One in so many seeds has small pieces and short logs.
const PIECES_ONE_IN: u64 = 3;
/// One in so many seeds with faults has, each independently: reads that fail once; resent requests; pauses;
/// merges of groups under repair.
const READS_ONE_IN: u64 = 2;
const RESENDS_ONE_IN: u64 = 4;
const PAUSES_ONE_IN: u64 = 5;
const MERGES_ONE_IN: u64 = 4;
/// One in so many seeds copies objects.
const COPIES_ONE_IN: u64 = 4;
/// One in so many seeds has a pool over its quota.
const QUOTA_ONE_IN: u64 = 8;
/// One in so many seeds with faults runs the autoscaler, with late reports.
const SCALES_ONE_IN: u64 = 4;
/// One in so many seeds with faults that allow it has full disks for a while, one at a time or several.
const FILLS_ONE_IN: u64 = 4;
/// One in so many seeds has OSDs that pass a map to few groups per turn.
const FEW_GROUPS_ONE_IN: u64 = 3;
/// Groups per turn that receive a map.
const GROUPS_PLACED: [usize; 3] = [1, 2, 5];
/// One in so many seeds has clients that read from any member of a group.
const BALANCES_ONE_IN: u64 = 4;
/// One in so many seeds with faults has monitors that keep few maps, so many at least.
const MAPS_ONE_IN: u64 = 3;
const MAPS_KEPT: [u64; 3] = [1, 3, 10];
/// Weight of the faults of one condition relative to all other faults.
const SHARES: [u64; 3] = [1, 3, 8];
const PIECE_DATA: [u64; 4] = [48, 256, 1_000, 4_096];
/// Pieces of the largest object of clients, also for a slow device; and the smallest piece of an image's
/// objects.
const PIECES_MAX: u64 = 100;
const PIECES_SLOW_MAX: u64 = 10;
const IMAGE_PIECE_MIN: u64 = 4_096;
/// One in so many seeds has small budgets for requests, per session and for so many sessions together.
const BUDGETS_ONE_IN: u64 = 4;
const SESSION_REQUESTS: [usize; 3] = [2, 4, 16];
const SESSION_BYTES: [usize; 3] = [1 << 10, 16 << 10, 1 << 20];
const SESSIONS: [usize; 3] = [1, 2, 4];
/// Enough for any one request.
const EXPANSION: u64 = 64 << 20;
const EARLY_MESSAGES: [usize; 3] = [1, 4, 64];
const EARLY_BYTES: [usize; 2] = [1 << 10, 1 << 20];
const PIECE_ENTRIES: [usize; 3] = [1, 2, 5];
const PAGE_OBJECTS: [usize; 3] = [1, 2, 5];
/// Lengths from which a log is trimmed, and lengths to which.
const LOGS: [(usize, usize); 4] = [(6, 4), (20, 12), (60, 50), (1100, 1000)];

/// Special conditions of a seed.
#[derive(Debug, Clone, Default)]
pub struct Trials {
    /// Bounds of OSDs; small ones in some seeds.
    pub sizes: osd::Sizes,
    /// Objects span many pieces, and logs are short.
    pub has_pieces: bool,
    /// Reads of any disk fail once, at any time.
    pub fails_reads: bool,
    /// Clients resend requests in flight.
    pub resends: bool,
    /// An administrator pauses reads or writes.
    pub pauses: bool,
    /// Groups are merged while they are repaired.
    pub merges_repaired: bool,
    /// Some clients read from any member of a group.
    pub balances_reads: bool,
    /// Objects are copied from others that do not change.
    pub has_copies: bool,
    /// A pool is over its quota from the beginning.
    pub has_quota: bool,
    /// The autoscaler sets numbers of groups.
    pub scales: bool,
    /// Disks are full for a while, one at a time or several.
    pub fills: bool,
    /// Monitors keep so many maps that no group needs; an OSD that was away may have a gap in its history.
    pub maps_kept: Option<u64>,
}

/// Parts of the scenario that the conditions depend on.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// The user of an image tolerates no error.
    pub has_image: bool,
    /// Devices are so small that space runs out.
    pub is_tight: bool,
    /// Data may be lost: a replaced copy may have been the only one.
    pub may_lose_data: bool,
    /// Clients take and remove snapshots.
    pub has_snapshots: bool,
}

impl Trials {
    /// Draws the conditions, and adds their faults to the mix.
    pub fn draw(seed: u64, mix: &mut FaultMix, circumstances: Circumstances) -> Self {
        let mut prng = Prng::new(seed ^ TRIALS);
        let p = &mut prng;
        let Circumstances { has_image, is_tight, may_lose_data, has_snapshots } = circumstances;
        let has_faults = !mix.weights.is_empty();
        let mut trials = Trials {
            has_pieces: p.chance(1, PIECES_ONE_IN) && !is_tight,
            fails_reads: p.chance(1, READS_ONE_IN) && has_faults && !has_image && !may_lose_data,
            resends: p.chance(1, RESENDS_ONE_IN) && has_faults,
            pauses: p.chance(1, PAUSES_ONE_IN) && has_faults && !is_tight,
            merges_repaired: p.chance(1, MERGES_ONE_IN) && has_faults && has_snapshots,
            has_copies: p.chance(1, COPIES_ONE_IN) && !is_tight,
            has_quota: p.chance(1, QUOTA_ONE_IN) && !is_tight,
            balances_reads: p.chance(1, BALANCES_ONE_IN),
            scales: false,
            fills: false,
            maps_kept: draw_maps_kept(seed).filter(|_| has_faults),
            sizes: osd::Sizes::default(),
        };
        trials.has_pieces |= trials.fails_reads && p.chance(1, 2);
        let sizes = draw_sizes(p);
        if trials.has_pieces {
            trials.sizes = sizes;
        }
        let total: u64 = mix.weights.iter().map(|(_, weight)| weight).sum();
        let kinds = [
            (Kind::BreakBackfill, trials.has_pieces && has_faults),
            (Kind::FailRead, trials.fails_reads),
            (Kind::Resend, trials.resends),
            (Kind::PauseRequests, trials.pauses),
            (Kind::MergeRepaired, trials.merges_repaired),
        ];
        for (kind, is_drawn) in kinds {
            let share = *p.choose(&SHARES);
            if is_drawn {
                mix.weights.push((kind, 1 + total / share));
            }
        }
        if p.chance(1, BUDGETS_ONE_IN) {
            trials.sizes.budgets = draw_budgets(p);
        }
        if p.chance(1, FEW_GROUPS_ONE_IN) {
            trials.sizes.groups_placed = *p.choose(&GROUPS_PLACED);
        }
        trials.scales = p.chance(1, SCALES_ONE_IN) && has_faults && !is_tight;
        // Clients may receive ENOSPC.
        trials.fills = p.chance(1, FILLS_ONE_IN) && has_faults && !is_tight && !has_image;
        trials.fills &= !has_snapshots;
        let kinds = [
            (Kind::Scale, trials.scales),
            (Kind::LateReports, trials.scales),
            (Kind::FillDisk, trials.fills),
        ];
        for (kind, is_drawn) in kinds {
            let share = *p.choose(&SHARES);
            if is_drawn {
                mix.weights.push((kind, 1 + total / share));
            }
        }
        trials
    }

    /// Special traits of the seed.
    pub fn traits(&self) -> [(&'static str, bool); 10] {
        let is_placed_in_turns = self.sizes.groups_placed <= GROUPS_PLACED[GROUPS_PLACED.len() - 1];
        let has_small_budgets = self.sizes.budgets.expansion == EXPANSION;
        [
            ("maps are told over many turns", is_placed_in_turns),
            ("objects of many pieces", self.has_pieces),
            ("logs that backfill stands in for", self.sizes.groups.log_entries_max < LOGS[3].0),
            ("objects are copied", self.has_copies),
            ("a pool over its quota", self.has_quota),
            ("reads from any member", self.balances_reads),
            ("the autoscaler at work", self.scales),
            ("a full disk among others", self.fills),
            ("small budgets for requests", has_small_budgets),
            ("few maps are kept", self.maps_kept.is_some()),
        ]
    }

    /// Gives pieces a size by that of the objects of clients. A slow device takes two seconds per piece; the
    /// seed must not time out.
    pub(crate) fn bound_pieces(&mut self, longest: u64, has_image: bool, is_slow: bool) {
        let pieces_max = if is_slow { PIECES_SLOW_MAX } else { PIECES_MAX };
        let least = if has_image { IMAGE_PIECE_MIN } else { longest / pieces_max };
        let osd::Sizes { groups, copy_chunk_max, .. } = &mut self.sizes;
        groups.piece_data_max = groups.piece_data_max.max(least);
        *copy_chunk_max = (*copy_chunk_max).max(least);
        if is_slow {
            groups.piece_omap_entries_max = groups.piece_omap_entries_max.max(5);
        }
    }
}

/// Drawn from a generator of its own.
fn draw_maps_kept(seed: u64) -> Option<u64> {
    let mut prng = Prng::new(seed ^ MAPS);
    prng.chance(1, MAPS_ONE_IN).then(|| *prng.choose(&MAPS_KEPT))
}

fn draw_sizes(p: &mut Prng) -> osd::Sizes {
    let (log_entries_max, log_entries_kept) = *p.choose(&LOGS);
    let piece_data_max = *p.choose(&PIECE_DATA);
    let groups = pg::Sizes {
        log_entries_max,
        log_entries_kept,
        piece_data_max,
        piece_omap_entries_max: *p.choose(&PIECE_ENTRIES),
        page_objects_max: *p.choose(&PAGE_OBJECTS),
        settle_idle: pg::Sizes::default().settle_idle,
    };
    osd::Sizes { groups, copy_chunk_max: piece_data_max, ..osd::Sizes::default() }
}

/// Bounds that a few clients reach: one that waits for another must not wait for ever.
fn draw_budgets(p: &mut Prng) -> osd::Budgets {
    let session_requests = *p.choose(&SESSION_REQUESTS);
    let session_bytes = *p.choose(&SESSION_BYTES);
    osd::Budgets {
        session_requests,
        session_bytes,
        all_requests: session_requests * *p.choose(&SESSIONS),
        all_bytes: session_bytes * *p.choose(&SESSIONS),
        early_messages: *p.choose(&EARLY_MESSAGES),
        early_bytes: *p.choose(&EARLY_BYTES),
        expansion: EXPANSION,
        copies: EXPANSION,
        pieces: EXPANSION,
    }
}
