//! One-time links to the console, which clients of the leader ask for.

use auth::{Entropy, TokenDigest};
use engine::Time;
use std::collections::VecDeque;
use std::time::Duration;
use types::EntityName;

/// Time in which a link must be used.
pub(crate) const LIFE: Duration = Duration::from_secs(60);
/// Links at a time, and those of one entity; beyond it the oldest one is void.
const LINKS_MAX: usize = 64;
const OF_ENTITY_MAX: usize = 4;

/// The links that were made and not used, the oldest first.
#[derive(Debug, Default)]
pub struct Links(VecDeque<Link>);

#[derive(Debug)]
struct Link {
    token: TokenDigest,
    entity: EntityName,
    until: Time,
}

impl Links {
    /// Makes a link for an entity and returns its secret, which is not kept.
    pub(crate) fn draw(&mut self, now: Time, entropy: &mut Entropy, entity: &EntityName) -> String {
        self.0.retain(|link| link.until > now);
        let own = |link: &Link| link.entity == *entity;
        if self.0.iter().filter(|link| own(link)).count() >= OF_ENTITY_MAX
            && let Some(oldest) = self.0.iter().position(own)
        {
            self.0.remove(oldest);
        }
        if self.0.len() >= LINKS_MAX {
            self.0.pop_front();
        }
        let (secret, token) = TokenDigest::draw(entropy);
        self.0.push_back(Link { token, entity: entity.clone(), until: now + LIFE });
        secret
    }

    /// The entity that a link was made for; it is void from now on. All links are compared, so that the time
    /// tells nothing.
    pub(crate) fn redeem(&mut self, now: Time, secret: &str) -> Option<EntityName> {
        let mut found = None;
        for (at, link) in self.0.iter().enumerate() {
            if link.token.matches(secret) {
                found = Some(at);
            }
        }
        let link = self.0.remove(found?)?;
        (link.until > now).then_some(link.entity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(id: usize) -> EntityName {
        EntityName::client(&id.to_string())
    }

    #[test]
    fn a_link_serves_once_and_for_a_minute() {
        let (mut links, mut entropy) = (Links::default(), Entropy::from_seed([3; 32]));
        let begun = Time(1);
        let mut draw = |links: &mut Links| links.draw(begun, &mut entropy, &name(1));
        let (first, late) = (draw(&mut links), draw(&mut links));
        assert_eq!(links.redeem(begun, "guessed"), None);
        assert_eq!(links.redeem(begun + LIFE / 2, &first), Some(name(1)));
        assert_eq!(links.redeem(begun + LIFE / 2, &first), None, "it was used");
        assert_eq!(links.redeem(begun + LIFE, &late), None, "it is too old");
    }

    #[test]
    fn links_are_bounded_and_one_entity_does_not_displace_the_others() {
        let (mut links, mut entropy) = (Links::default(), Entropy::from_seed([3; 32]));
        let first = links.draw(Time(1), &mut entropy, &name(0));
        for _ in 0..100 {
            links.draw(Time(1), &mut entropy, &name(1));
        }
        assert_eq!(links.0.len(), 1 + OF_ENTITY_MAX);
        assert_eq!(links.redeem(Time(1), &first), Some(name(0)));
        (0..100).for_each(|id| drop(links.draw(Time(1), &mut entropy, &name(id))));
        assert_eq!(links.0.len(), LINKS_MAX);
    }
}
