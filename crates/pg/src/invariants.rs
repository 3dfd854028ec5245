//! Invariants of a copy between any two calls. The simulator checks them after each event, so each check is
//! cheap.

use crate::core::Core;
use crate::follower::Follower;
use crate::peers::Known;
use crate::primary::{Primary, Stage};
use crate::role::Role;
use crate::serving::Serving;

/// Panics if the state of a copy contradicts itself.
pub(crate) fn check(core: &Core, role: &Role) {
    check_core(core, matches!(role, Role::Loading(_) | Role::Failed { .. }));
    match role {
        Role::Primary(primary) => check_primary(core, primary),
        Role::Follower(follower) => check_follower(core, follower),
        _ => return,
    }
    check_history(core);
}

/// Panics if a shard has settled what is not committed, or has trimmed what it has not settled.
fn check_history(core: &Core) {
    let (info, committed) = (&core.copy.info, core.copy.committed);
    let Some(settled) = info.shard.map(|shard| shard.settled) else { return };
    assert!(info.log_tail <= settled, "what is trimmed is settled: {info:?}");
    assert!(settled <= committed, "what is settled is committed: {committed} {info:?}");
    assert!(committed <= info.last_update, "what is committed is stored: {committed} {info:?}");
}

/// Panics if the stored state contradicts itself. A copy that is being loaded, or whose load failed, may have
/// its info without its missing set.
fn check_core(core: &Core, is_partly_read: bool) {
    let copy = &core.copy;
    assert_eq!(copy.log.tail(), copy.info.log_tail, "the info knows the log's tail");
    assert!(copy.info.last_complete <= copy.info.last_update, "what is complete was written");
    if !is_partly_read && copy.missing.is_empty() && copy.info.is_complete() {
        assert_eq!(copy.info.last_complete, copy.info.last_update, "nothing is missing");
    }
}

/// Panics if a primary's stage contradicts what it carries.
fn check_primary(core: &Core, primary: &Primary) {
    let (members, whoami) = (&core.placement.members, core.own.whoami);
    assert_eq!(members.primary_member(), Some(whoami), "only the primary has this role");
    if let Some(agreed) = primary.stage.agreed() {
        let mut acting = members.acting_members().zip(agreed.participants.iter());
        assert!(acting.all(|(acting, taking)| acting == *taking), "all acting members take part");
        let acting = members.acting_members().count();
        assert!(acting <= agreed.participants.len(), "all acting members take part");
        assert!(agreed.participants.contains(&whoami), "the primary takes part");
    }
    match &primary.stage {
        Stage::GetMissing { agreed, waiting } => {
            let mut waiting = waiting.iter();
            assert!(waiting.all(|osd| agreed.participants.contains(osd)), "participants are asked");
        }
        Stage::Down => assert!(!primary.known.blocked_by.is_empty(), "some OSD is down"),
        Stage::WaitActingChange => assert!(primary.known.wanted.is_some(), "members are wanted"),
        Stage::Active(serving) => {
            assert!(core.placement.can_serve(), "the members are enough to serve");
            assert!(core.copy.info.is_complete(), "a primary that serves is complete");
            let head = core.copy.log.head();
            let is_sent = serving.pipeline.is_empty();
            assert_eq!(head == core.copy.info.last_update, is_sent, "the log ends with it");
            assert!(core.copy.committed <= core.copy.log.head(), "what is committed was written");
            check_serving(core, &primary.known, serving);
        }
        Stage::Inactive(serving) => {
            assert!(!core.placement.can_serve(), "the members are too few to serve");
            assert!(serving.in_flight.is_empty(), "a group that does not serve takes no writes");
            check_serving(core, &primary.known, serving);
        }
        _ => {}
    }
}

fn check_serving(core: &Core, known: &Known, serving: &Serving) {
    let versions = || serving.in_flight.iter().map(|write| write.version);
    assert!(versions().is_sorted_by(|before, after| before < after), "writes are in order");
    assert!(versions().all(|version| version <= core.copy.log.head()), "writes are in the log");
    let front = serving.in_flight.front();
    assert!(front.is_none_or(|write| !write.waiting.is_empty()), "the oldest write is awaited");
    assert_eq!(
        serving.recovery.members_missing,
        serving.agreed.members_missing(known),
        "the missing items of the members are counted"
    );
}

/// Panics if an active copy has no primary.
fn check_follower(core: &Core, follower: &Follower) {
    let primary = core.placement.members.primary_member();
    let is_led = primary.is_some_and(|primary| primary != core.own.whoami);
    assert!(!follower.is_active() || is_led, "an active copy follows another OSD");
}
