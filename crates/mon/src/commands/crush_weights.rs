//! `osd crush reweight`, and weights as commands give them.

use super::crush::edited;
use crate::command::{Answer, Context, Refusal};
use crush::{WeightError, weight};

fn misweighed(error: &WeightError) -> Refusal {
    match error {
        WeightError::NotHeld { .. } => Refusal::missing(error.to_string()),
        _ => Refusal::invalid(error.to_string()),
    }
}

/// The argument `weight` in fixed point, and as it was written.
pub(super) fn weight_given(context: &Context<'_>) -> Result<(u32, f64), Refusal> {
    let given = context.arguments.float("weight").unwrap_or_default();
    let fixed = weight::from_float(given as f32);
    let limit = weight::to_float(weight::WEIGHT_MAX);
    let refused = || Refusal::invalid(format!("weight {given} is not between 0 and {limit}"));
    Ok((fixed.ok_or_else(refused)?, given))
}

/// The text for a name that no item has.
pub(super) fn no_such_device(name: &str) -> String {
    format!("device '{name}' does not appear in the crush map")
}

pub(super) fn reweight_all(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    edited(context.state, &mut context.change, |crush| {
        crush.reweight().map_err(|error| misweighed(&error))
    })?;
    Ok(Answer::said("reweighted crush hierarchy"))
}

pub(super) fn reweight(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (weight, given) = weight_given(context)?;
    let name = context.arguments.text("name");
    let item = context.state.osdmap.crush.item_id(name);
    let item = item.ok_or_else(|| Refusal::missing(no_such_device(name)))?;
    if item < 0 {
        let text = format!("device '{name}' is not a leaf in the crush map");
        return Err(Refusal::invalid(text));
    }
    edited(context.state, &mut context.change, |crush| {
        crush.set_item_weight(item, weight).map_err(|error| misweighed(&error))
    })?;
    let text = format!("reweighted item id {item} name '{name}' to {given} in crush map");
    Ok(Answer::said(text))
}

pub(super) fn reweight_subtree(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (weight, given) = weight_given(context)?;
    let name = context.arguments.text("name");
    let item = context.state.osdmap.crush.item_id(name);
    let item = item.ok_or_else(|| Refusal::missing(no_such_device(name)))?;
    if item >= 0 {
        let text = format!("device '{name}' is not a subtree in the crush map");
        return Err(Refusal::invalid(text));
    }
    edited(context.state, &mut context.change, |crush| {
        crush.set_subtree_weight(item, weight).map_err(|error| misweighed(&error))
    })?;
    let text = format!("reweighted subtree id {item} name '{name}' to {given} in crush map");
    Ok(Answer::said(text))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, state};
    use serde_json::json;
    use types::Errno;

    #[test]
    fn weights_are_repeated_as_they_were_given() {
        let mut state = state();
        let device = json!({ "name": "osd.0", "weight": 0.01 });
        let answer = run(&mut state, "osd crush reweight", device).unwrap();
        assert_eq!(answer.text, "reweighted item id 0 name 'osd.0' to 0.01 in crush map");
        assert_eq!(state.osdmap.crush.item_weight(0), Some(655));
        let subtree = json!({ "name": "default", "weight": 2 });
        let answer = run(&mut state, "osd crush reweight-subtree", subtree).unwrap();
        assert_eq!(answer.text, "reweighted subtree id -1 name 'default' to 2 in crush map");
        assert_eq!(state.osdmap.crush.item_weight(-1), Some(0x6_0000));
        let absurd = json!({ "name": "osd.0", "weight": 1e9 });
        let refusal = run(&mut state, "osd crush reweight", absurd).unwrap_err();
        assert_eq!(refusal.errno, Errno::INVAL);
    }
}
