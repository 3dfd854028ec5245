//! Operations of an image's user on the image as a whole: sizes, snapshots, clones.

use super::looking::Look;
use super::{ImageOwner, OBJECT, OBJECTS_MAX, ORDER, Stage};
use rados::Client;
use rbd::{CloneFormat, CloneSpec, Features, ImageSpec, Task};

/// Bound for the snapshots of one image.
const SNAPSHOTS_MAX: usize = 4;
/// Bound for the chain of clones.
const IMAGES_MAX: u64 = 5;

/// An operation, with the change that its success makes.
#[derive(Debug, Clone)]
pub(super) enum Chore {
    Resize(usize),
    Take(String),
    Remove(String),
    RollBack(String),
    Flatten,
    /// The user continues with a clone of that snapshot.
    Clone(String),
    /// The parent's snapshot loses its name.
    Abandon,
}

impl ImageOwner {
    pub(super) fn begin_chore(&mut self, client: &Client) {
        let Some(spec) = self.spec(client) else { return };
        let Some(Stage::Open(image)) = self.stage.take() else { return };
        let has_parent = image.header().parent.is_some();
        if self.takes_snapshots && self.prng.chance(1, 5) {
            return self.begin_look(image, spec);
        }
        let chore = self.choose(has_parent);
        let task = self.task(spec, &chore);
        self.stage = Some(Stage::Busy(image, task, chore));
    }

    fn begin_look(&mut self, image: Box<rbd::Image>, spec: ImageSpec) {
        let Some((name, contents)) = self.some_snapshot() else {
            self.stage = Some(Stage::Open(image));
            return;
        };
        self.stage = Some(Stage::Looking(image, Look::new(spec, name, contents)));
    }

    fn some_snapshot(&mut self) -> Option<(String, Vec<u8>)> {
        if self.snapshots.is_empty() {
            return None;
        }
        let number = self.prng.below(self.snapshots.len() as u64) as usize;
        self.snapshots.iter().nth(number).map(|(name, contents)| (name.clone(), contents.clone()))
    }

    fn choose(&mut self, has_parent: bool) -> Chore {
        let resize = Chore::Resize(1 + self.prng.below(OBJECTS_MAX * OBJECT) as usize);
        if !self.takes_snapshots {
            return resize;
        }
        let kind = self.prng.below(12);
        let take = Chore::Take(format!("s{}", self.requests));
        let may_take = self.snapshots.len() < SNAPSHOTS_MAX
            && !self.snapshots.contains_key(&format!("s{}", self.requests));
        match (kind, self.some_snapshot()) {
            (0..3, _) | (3..7, None) if may_take => take,
            (3, Some((name, _))) => Chore::Remove(name),
            (4, Some((name, _))) => Chore::RollBack(name),
            (5..8, Some((name, _))) if self.images < IMAGES_MAX => Chore::Clone(name),
            (8, _) if has_parent => Chore::Flatten,
            (9, _) if self.origin.is_some() => Chore::Abandon,
            _ => resize,
        }
    }

    fn task(&mut self, spec: ImageSpec, chore: &Chore) -> Task<()> {
        match chore {
            Chore::Resize(size) => rbd::resize(spec, *size as u64, true),
            Chore::Take(name) => rbd::take_snapshot(spec, name.clone()),
            Chore::Remove(name) => rbd::remove_snapshot(spec, name.clone()),
            Chore::RollBack(name) => rbd::roll_back(spec, name.clone()),
            Chore::Flatten => rbd::flatten(spec),
            Chore::Clone(name) => self.clone_of(spec, name),
            Chore::Abandon => {
                let (parent, name) = self.origin.take().expect("it was looked at");
                rbd::remove_snapshot(parent, name)
            }
        }
    }

    fn clone_of(&mut self, parent: ImageSpec, snapshot: &str) -> Task<()> {
        self.origin = Some((parent.clone(), snapshot.to_owned()));
        self.images += 1;
        let name = format!("image{}", self.images);
        let order = ORDER + self.prng.below(2) as u8;
        rbd::clone_image(CloneSpec {
            image: ImageSpec { pool: parent.pool.clone(), name },
            parent,
            snapshot: snapshot.to_owned(),
            id: self.id(),
            order: Some(order),
            features: Features::DEFAULT,
            data_pool: None,
            striping: self.striping(),
            format: CloneFormat::Two,
        })
    }

    pub(super) fn end_chore(&mut self, outcome: Result<(), rbd::Error>) {
        let Some(Stage::Busy(mut image, _, chore)) = self.stage.take() else { return };
        let mut is_other = false;
        match chore {
            Chore::Resize(size) => self.contents.resize(size, 0),
            Chore::Take(name) => drop(self.snapshots.insert(name, self.contents.clone())),
            Chore::Remove(name) => drop(self.snapshots.remove(&name)),
            Chore::RollBack(name) => self.contents = self.snapshots[&name].clone(),
            Chore::Clone(name) => {
                self.contents = self.snapshots[&name].clone();
                self.snapshots.clear();
                is_other = true;
            }
            Chore::Flatten | Chore::Abandon => {}
        }
        if is_other {
            image.close();
        }
        self.stage = Some(if is_other { Stage::Closing(image) } else { Stage::Open(image) });
        if let Err(error) = outcome {
            self.fail(error);
        }
    }
}
