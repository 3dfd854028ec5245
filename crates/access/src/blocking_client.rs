//! Blocking RBD client with its own connection: one task or image at a time.

use crate::connection::Connection;
use crate::{ClusterArgs, ImageName, PoolName, SourceName};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use engine::Time;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rbd::{
    Header, Image, ImageEvent, ImageSpec, Pool, Progress, RequestRouter, RequestSource, Task,
};
use serde_json::Value;
use std::time::{Duration, Instant};
use types::PoolId;

/// Steps from which progress is displayed; shorter tasks are over at once.
const STEPS_SHOWN: u64 = 256;

/// A connection for one task or image at a time.
pub struct BlockingClient {
    connection: Connection,
    router: RequestRouter<()>,
}

impl BlockingClient {
    /// Connects as the command line says.
    pub fn open(args: &ClusterArgs) -> Result<Self> {
        Ok(BlockingClient { connection: Connection::open(args)?, router: RequestRouter::default() })
    }

    /// The time now, by the client's clock.
    pub fn now(&self) -> Time {
        self.connection.now()
    }

    /// The number of a pool.
    pub fn pool(&mut self, name: &str) -> Result<PoolId> {
        self.connection.pool(name)
    }

    /// Runs a command; returns its output.
    pub fn command(&mut self, command: &Value) -> Result<Bytes> {
        Ok(self.connection.command(command)?.output)
    }

    /// Keeps the connection alive during a pause.
    pub fn rest(&mut self, pause: Duration, may: impl Fn() -> bool) -> Result<()> {
        let start = Instant::now();
        while may() && start.elapsed() < pause {
            self.connection.turn()?;
        }
        Ok(())
    }

    /// Runs a task to its end, with a progress display if it takes long.
    pub fn run<T>(&mut self, task: Task<T>) -> Result<T> {
        let bar = ProgressBar::hidden();
        let outcome = self.run_while(task, |progress| {
            progress.into_iter().for_each(|progress| show(&bar, progress));
            Ok(true)
        });
        bar.finish_and_clear();
        outcome?.context("the task was not cancelled")
    }

    /// Runs a task to its end, or until `go_on` returns false.
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

    /// Reads the header of an image or a snapshot.
    pub fn open_header(&mut self, source: &SourceName) -> Result<Header> {
        let spec = spec_of(self, &source.image)?;
        match &source.snap {
            None => self.run(rbd::open(spec)),
            Some(snap) => self.run(rbd::open_snapshot(spec, snap.clone())),
        }
    }

    /// All pools.
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

    /// Name of a pool for display.
    pub fn pool_name(&mut self, id: PoolId) -> String {
        let map = self.connection.client().osd_map();
        let name = map.and_then(|map| map.pool_name(id));
        name.map_or_else(|| format!("(pool {id})"), str::to_owned)
    }

    /// Opens an image for reading, or for writing, too.
    pub fn open_image(&mut self, spec: ImageSpec, is_writable: bool) -> Result<Image> {
        let header = self.run(rbd::open(spec))?;
        Ok(Image::new(header, is_writable)?)
    }

    /// Exchanges requests and responses of the image until something has arrived.
    pub fn turn(&mut self, image: &mut Image) -> Result<()> {
        self.send(image);
        self.connection.turn()?;
        self.hand_over(image)
    }

    fn hand_over(&mut self, image: &mut Image) -> Result<()> {
        self.hear(image);
        // Follow-up requests are sent before any wait.
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

    /// Closes an image: its lock is released and its watch ends.
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

    fn send(&mut self, source: &mut dyn RequestSource) {
        let now = self.connection.now();
        self.router.send(self.connection.client(), now, (), source);
    }

    fn collect(&mut self, source: &mut dyn RequestSource) {
        while let Some((operation, answer)) = self.connection.client().poll_completion() {
            if let Some(((), id)) = self.router.take(operation) {
                source.handle_response(id, answer);
            }
        }
        let now = self.connection.now();
        while let Some(((), id, answer)) = self.router.poll_due(now) {
            source.handle_response(id, answer);
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

/// Resolves a pool's name.
pub fn pool_of(client: &mut BlockingClient, name: &PoolName) -> Result<Pool> {
    let id = client.pool(&name.pool)?;
    Ok(Pool { id, name: name.pool.clone(), namespace: name.namespace.clone() })
}

/// Resolves the pool in an image's name.
pub fn spec_of(client: &mut BlockingClient, image: &ImageName) -> Result<ImageSpec> {
    Ok(ImageSpec { pool: pool_of(client, &image.pool)?, name: image.name.clone() })
}

/// A random id as short as librbd's.
pub fn new_id() -> Result<String> {
    let random = machine::random_bytes::<7>().context("making an id for the image")?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
