//! The CRUSH rule of an erasure code profile: where the shards of a group may lie.

use super::crush::{check_clients, edited, rule_refused};
use crate::bootstrap::DEFAULT_ROOT;
use crate::change::Change;
use crate::command::Refusal;
use crate::state::State;
use crush::{CrushMap, ErasureRule};
use maps::{ErasureCode, ErasureCodeProfile};

/// Properties of placement that a stored profile has in any case, with their defaults.
pub(super) const DEFAULTS: [(&str, &str); 5] = [
    ("crush-root", DEFAULT_ROOT),
    ("crush-failure-domain", "host"),
    ("crush-device-class", ""),
    (DOMAINS, "0"),
    (OSDS_PER_DOMAIN, "0"),
];
const DOMAINS: &str = "crush-num-failure-domains";
const OSDS_PER_DOMAIN: &str = "crush-osds-per-failure-domain";

/// The properties of placement of a profile.
pub(super) struct Placement<'a> {
    root: &'a str,
    failure_domain: &'a str,
    class: Option<&'a str>,
    /// Zero for as many as there are shards.
    domains: u16,
    /// Zero stands for one.
    osds_per_domain: u16,
}

impl<'a> Placement<'a> {
    pub(super) fn of(profile: &'a ErasureCodeProfile) -> Result<Self, Refusal> {
        let property =
            |key: &str| profile.get(key).map(String::as_str).filter(|value| !value.is_empty());
        let number = |key: &str| {
            let text = property(key).unwrap_or("0");
            let refused = |_| Refusal::invalid(format!("could not convert {key}={text} to int"));
            text.parse().map_err(refused)
        };
        Ok(Placement {
            root: property("crush-root").unwrap_or(DEFAULT_ROOT),
            failure_domain: property("crush-failure-domain").unwrap_or("host"),
            class: property("crush-device-class"),
            domains: number(DOMAINS)?,
            osds_per_domain: number(OSDS_PER_DOMAIN)?,
        })
    }

    /// Refuses numbers by which no group could have all its shards.
    pub(super) fn check(&self, code: &ErasureCode) -> Result<(), Refusal> {
        let (domains, each) = (self.domains, self.osds_per_domain);
        if domains == 0 && each > 0 {
            return Err(Refusal::invalid(format!(
                "{DOMAINS} {domains} must be >= 1 if {OSDS_PER_DOMAIN} specified"
            )));
        }
        if each > 1 && self.failure_domain == "osd" {
            return Err(Refusal::invalid(format!(
                "{OSDS_PER_DOMAIN}={each} contradicts crush-failure-domain=osd: an OSD holds one shard \
                 of an object; set a larger failure domain, or leave {OSDS_PER_DOMAIN} out"
            )));
        }
        let (places, shards) = (u32::from(domains) * u32::from(each.max(1)), code.shards());
        if domains > 0 && places < u32::from(shards) {
            return Err(Refusal::invalid(format!(
                "{DOMAINS}={domains} with {OSDS_PER_DOMAIN}={each} has places for {places} of k+m={shards} \
                 shards: set {OSDS_PER_DOMAIN}={}, or leave both out",
                u32::from(shards).div_ceil(u32::from(domains))
            )));
        }
        Ok(())
    }

    fn rule(&self, name: &'a str) -> ErasureRule<'a> {
        ErasureRule {
            name,
            root: self.root,
            failure_domain: self.failure_domain,
            class: self.class,
            domains: self.domains,
            devices_per_domain: self.osds_per_domain,
        }
    }
}

/// Whether a rule chooses as the profile says.
pub(super) fn is_of(crush: &CrushMap, rule: u8, profile: &ErasureCodeProfile) -> bool {
    const DRAFT: &str = "draft.of.a.profile";
    let Ok(placement) = Placement::of(profile) else { return false };
    let mut draft = crush.clone();
    let made = draft.add_erasure_rule(&placement.rule(DRAFT)).ok().and_then(|id| draft.rule(id));
    made.is_some() && made == crush.rule(rule.into())
}

/// Adds a rule for the pools of a profile, and returns its id.
pub(super) fn add(
    state: &State,
    change: &mut Change,
    name: &str,
    profile: &ErasureCodeProfile,
) -> Result<u32, Refusal> {
    let placement = Placement::of(profile)?;
    edited(state, change, |crush| {
        let added = crush.add_erasure_rule(&placement.rule(name));
        let id = added.map_err(|error| rule_refused(&error))?;
        check_clients(state, crush)?;
        Ok(id)
    })
}
