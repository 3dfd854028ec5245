//! Helpers for tests of commands: a state, and a way to run a command on it.

use crate::bootstrap::DEFAULT_ROOT;
use crate::change::Change;
use crate::command::{Answer, Arguments, Caller, Context, Format, Refusal};
use crate::live::testing::Overview;
use crate::services::CHECKS;
use crate::state::{State, stored_option};
use crate::statistics::Statistics;
use bytes::Bytes;
use crush::{CrushMap, Location, RuleKind, SimpleRule};
use engine::Time;
use maps::{Osd, OsdMap, OsdState, Pool, PoolType, RawTable, WEIGHT_IN};
use serde_json::Value;
use std::sync::Arc;
use types::{PoolId, Uuid};

/// Runs a command and applies its changes.
pub(super) fn run(state: &mut State, prefix: &str, given: Value) -> Result<Answer, Refusal> {
    run_as(&Caller::default(), state, prefix, given)
}

/// The same for a certain caller.
pub(super) fn run_as(
    caller: &Caller,
    state: &mut State,
    prefix: &str,
    given: Value,
) -> Result<Answer, Refusal> {
    let registry = crate::services::registry();
    let (signature, command) = registry.find(prefix)?[0];
    let Value::Object(given) = given else { panic!("arguments are an object") };
    let now = Time(1);
    let (overview, stats) = (Overview::default(), Statistics::default());
    let mut context = Context {
        state,
        live: overview.live(&stats),
        commands: registry.descriptions(),
        checks: CHECKS,
        now,
        caller,
        prefix: prefix.to_owned(),
        arguments: Arguments::validate(signature, &given)?,
        input: Bytes::new(),
        format: Format::Plain,
        entropy: &mut auth::Entropy::from_seed([0; 32]),
        placement: &mut RawTable::default(),
        running: &mut wire::options::Running::default(),
        links: &mut crate::links::Links::default(),
        change: Change::new(now.wall()),
    };
    let answer = (command.handler)(&mut context)?;
    let transaction = context.change.finish(state).unwrap();
    for (key, value) in transaction.writes {
        state.apply(&key, value.as_ref(), 1).unwrap();
    }
    Ok(answer)
}

/// An answer's output as text.
pub(super) fn text(answer: &Answer) -> String {
    String::from_utf8(answer.output.to_vec()).unwrap()
}

/// Three OSDs on host `h`, with one rule for replicated pools and one erasure code profile.
pub(super) fn state() -> State {
    let mut crush = CrushMap::new();
    crush.add_bucket(DEFAULT_ROOT, crush.type_id("root").unwrap()).unwrap();
    let location = Location::parse(["root=default", "host=h"]).unwrap();
    for osd in 0..3 {
        crush.insert_item(osd, 0x1_0000, &format!("osd.{osd}"), &location).unwrap();
    }
    let rule = SimpleRule {
        name: "replicated_rule",
        root: DEFAULT_ROOT,
        failure_domain: "osd",
        class: None,
        kind: RuleKind::Replicated,
    };
    crush.add_simple_rule(&rule).unwrap();
    let mut map = OsdMap::new(Uuid::default());
    map.crush = Arc::new(crush);
    let osd = Osd { state: OsdState::EXISTS, weight: WEIGHT_IN, ..Osd::default() };
    map.osds = vec![osd; 3];
    let profile = [
        ("plugin", "jerasure"),
        ("technique", "reed_sol_van"),
        ("k", "2"),
        ("m", "1"),
        ("crush-failure-domain", "osd"),
    ];
    let profile = profile.map(|(key, value)| (key.to_owned(), value.to_owned()));
    map.erasure_code_profiles.insert("p".to_owned(), profile.into());
    let mut state = State::default();
    state.osdmap = map;
    state
}

/// Adds a pool that uses rule 0.
pub(super) fn add_pool(state: &mut State) {
    let pool = Pool::new(PoolType::Replicated, 3, 8, 0);
    state.osdmap.pools.insert(PoolId(1), pool);
    state.osdmap.pool_names.insert(PoolId(1), "x".to_owned());
}

/// Sets an option in section `mon`, also to a value that an earlier version may have stored and that
/// `config set` refuses.
pub(super) fn set_option(state: &mut State, name: &str, value: &str) {
    let options = state.config.entry("mon".to_owned()).or_default();
    options.insert(stored_option(name), value.to_owned());
}
