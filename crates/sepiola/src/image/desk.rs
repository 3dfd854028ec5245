//! One who works on images over a connection of his own, one task or image at a time.

use super::spec_of;
use crate::cli::{ClusterArgs, SourceName};
use crate::connection::Connection;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use engine::Time;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rbd::{Asker, Errands, Header, Image, ImageEvent, ImageSpec, Pool, Progress, Task};
use serde_json::Value;
use std::time::{Duration, Instant};
use types::PoolId;

/// A task with fewer steps is over before anybody looks.
const STEPS_SHOWN: u64 = 256;

pub struct Desk {
    connection: Connection,
    errands: Errands<()>,
}

impl Desk {
    pub fn open(args: &ClusterArgs) -> Result<Self> {
        Ok(Desk { connection: Connection::open(args)?, errands: Errands::default() })
    }

    pub fn now(&self) -> Time {
        self.connection.now()
    }

    pub fn pool(&mut self, name: &str) -> Result<PoolId> {
        self.connection.pool(name)
    }

    /// What a command puts out.
    pub fn command(&mut self, command: &Value) -> Result<Bytes> {
        Ok(self.connection.command(command)?.output)
    }

    /// Does nothing but keep the connection.
    pub fn rest(&mut self, pause: Duration, may: impl Fn() -> bool) -> Result<()> {
        let start = Instant::now();
        while may() && start.elapsed() < pause {
            self.connection.turn()?;
        }
        Ok(())
    }

    /// Does a task to its end, and shows how far it is if it takes long.
    pub fn run<T>(&mut self, task: Task<T>) -> Result<T> {
        let bar = ProgressBar::hidden();
        let outcome = self.run_while(task, |progress| {
            progress.into_iter().for_each(|progress| show(&bar, progress));
            Ok(true)
        });
        bar.finish_and_clear();
        outcome?.context("nobody gave the task up")
    }

    /// Does a task to its end, or until it is told not to go on.
    pub fn run_while<T>(
        &mut self,
        mut task: Task<T>,
        mut go_on: impl FnMut(Option<Progress>) -> Result<bool>,
    ) -> Result<Option<T>> {
        loop {
            if let Some(outcome) = task.poll_outcome() {
                return Ok(Some(outcome?));
            }
            if !go_on(task.progress())? {
                return Ok(None);
            }
            self.send(&mut task);
            self.connection.turn()?;
            self.collect(&mut task);
            while let Some(event) = self.connection.client().poll_watch_event() {
                task.handle_watch_event(&event);
            }
        }
    }

    /// What is needed to read an image or a snapshot.
    pub fn open_header(&mut self, source: &SourceName) -> Result<Header> {
        let spec = spec_of(self, &source.image)?;
        match &source.snap {
            None => self.run(rbd::open(spec)),
            Some(snap) => self.run(rbd::open_snapshot(spec, snap.clone())),
        }
    }

    /// All pools that there are.
    pub fn pools(&mut self) -> Vec<Pool> {
        let Some(map) = self.connection.client().osd_map() else { return Vec::new() };
        let named = map.pool_names.iter();
        let pool = |(id, name): (&PoolId, &String)| Pool {
            id: *id,
            name: name.clone(),
            namespace: String::new(),
        };
        named.map(pool).collect()
    }

    /// How people know a pool.
    pub fn pool_name(&mut self, id: PoolId) -> String {
        let map = self.connection.client().osd_map();
        let name = map.and_then(|map| map.pool_name(id));
        name.map_or_else(|| format!("(pool {id})"), str::to_owned)
    }

    pub fn open_image(&mut self, spec: ImageSpec, is_writable: bool) -> Result<Image> {
        let header = self.run(rbd::open(spec))?;
        Ok(Image::new(header, is_writable)?)
    }

    /// Carries what the image asks and is answered, until something has arrived.
    pub fn turn(&mut self, image: &mut Image) -> Result<()> {
        self.send(image);
        self.connection.turn()?;
        self.hand_over(image)
    }

    fn hand_over(&mut self, image: &mut Image) -> Result<()> {
        self.hear(image);
        // What the answers led to is on its way before anybody waits.
        self.send(image);
        while let Some(event) = image.poll_event() {
            if let ImageEvent::Failed(error) = event {
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn hear(&mut self, image: &mut Image) {
        self.collect(image);
        while let Some(event) = self.connection.client().poll_watch_event() {
            image.handle_watch_event(&event);
        }
    }

    pub fn close(&mut self, mut image: Image) -> Result<()> {
        image.close();
        loop {
            while let Some(event) = image.poll_event() {
                match event {
                    ImageEvent::Closed => return Ok(()),
                    ImageEvent::Failed(error) => bail!(error),
                    ImageEvent::Resized(_) => {}
                }
            }
            self.send(&mut image);
            self.connection.turn()?;
            self.hear(&mut image);
        }
    }

    fn send(&mut self, asker: &mut dyn Asker) {
        let now = self.connection.now();
        self.errands.send(self.connection.client(), now, (), asker);
    }

    fn collect(&mut self, asker: &mut dyn Asker) {
        while let Some((operation, answer)) = self.connection.client().poll_completion() {
            if let Some(((), id)) = self.errands.take(operation) {
                asker.handle_answer(id, answer);
            }
        }
        let now = self.connection.now();
        while let Some(((), id, answer)) = self.errands.poll_due(now) {
            asker.handle_answer(id, answer);
        }
    }
}

fn show(bar: &ProgressBar, progress: Progress) {
    if progress.total < STEPS_SHOWN {
        return;
    }
    if bar.is_hidden() && bar.length().is_none() {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} objects {eta}");
        bar.set_style(style.expect("a constant template"));
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    bar.set_length(progress.total);
    bar.set_position(progress.done);
}
