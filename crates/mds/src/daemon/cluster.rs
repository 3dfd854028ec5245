//! The pools: a client of the cluster, and the stored rank that speaks through it.

use crate::Config;
use crate::layouts::DataPools;
use crate::log::Opened;
use crate::rank::{Rank, evictions};
use crate::store::scrub::Scrubs;
use crate::store::{Failure, Setup, Store, Task};
use auth::Entropy;
use engine::{ConnId, ConnectingAnswer, ConnectingStep, Daemon, Message, Output, Peer, Time};
use maps::{MdsMap, OsdMap, PoolFlags};
use rados::{Client, Credentials, RequestRouter};
use types::{EntityName, EntityType};

/// The first number of sessions that the client opens; the server's own are below.
const FIRST_CONN: ConnId = ConnId(1 << 31);

/// A client of the cluster with the rank that it stores.
#[derive(Debug)]
pub(super) struct Cluster {
    client: Client,
    router: RequestRouter<Task>,
    store: Option<Store>,
    is_started: bool,
}

impl Cluster {
    /// Without a session and without a rank.
    pub fn new(config: &Config, entropy: Entropy) -> Self {
        let name = EntityName::new(EntityType::MDS, config.name.clone());
        let credentials = match &config.key {
            Some(key) if !config.auth_none => Credentials::Key(key.clone()),
            _ => Credentials::None,
        };
        let own = rados::Config::new(name, credentials, config.monitors.clone());
        let own = rados::Config { first_conn: FIRST_CONN, ..own };
        Cluster {
            client: Client::new(own, entropy),
            router: RequestRouter::default(),
            store: None,
            is_started: false,
        }
    }

    /// Whether a session is the client's.
    pub fn owns(conn: ConnId) -> bool {
        conn >= FIRST_CONN && !conn.is_accepted()
    }

    /// Begins to open the rank, if that has not begun.
    pub fn open(&mut self, now: Time, setup: Setup) {
        if self.store.is_none() {
            self.store = Some(Store::open(now, setup));
        }
    }

    /// The newest map of the OSDs and pools.
    pub fn osd_map(&self) -> Option<&OsdMap> {
        self.client.osd_map()
    }

    /// Why the rank cannot be served.
    pub fn failure(&self) -> Option<&Failure> {
        self.store.as_ref()?.failure()
    }

    /// The scrub of the rank, once the rank is being opened.
    pub fn scrub(&mut self) -> Option<&mut Scrubs> {
        self.store.as_mut().map(|store| &mut store.scrub)
    }

    /// Begins a checkpoint of the rank without delay.
    pub fn ask_checkpoint(&mut self) {
        if let Some(store) = &mut self.store {
            store.ask_checkpoint();
        }
    }

    /// Ends a turn: responses go to the store, and its requests to the cluster. Returns the rank when it is
    /// open. Clients are evicted only if all that they have sent was handled.
    pub fn run(
        &mut self,
        now: Time,
        mut rank: Option<&mut Rank>,
        may_evict: bool,
    ) -> Option<Opened> {
        let store = self.store.as_mut()?;
        loop {
            while let Some((operation, answer)) = self.client.poll_completion() {
                if let Some((task, id)) = self.router.take(operation) {
                    store.handle_response(rank.as_deref_mut(), task, id, answer);
                }
            }
            while let Some((task, id, answer)) = self.router.poll_due(now) {
                store.handle_response(rank.as_deref_mut(), task, id, answer);
            }
            if let Some(rank) = rank.as_deref_mut() {
                if may_evict && let Some((client, addrs)) = evictions::next(rank, now) {
                    store.evict(client, &addrs);
                }
                store.pump(now, rank);
            }
            let mut any = false;
            for task in Task::ALL {
                any |= self.router.send(&mut self.client, now, task, &mut store.source(task));
            }
            if !any {
                return store.poll_opened();
            }
        }
    }

    /// The client's next output.
    pub fn poll_output(&mut self) -> Option<Output<()>> {
        self.client.poll_output()
    }

    /// When the client or the store has something to do.
    pub fn poll_timeout(&self, is_open: bool) -> Option<Time> {
        let store = self.store.as_ref().filter(|_| is_open).and_then(Store::poll_timeout);
        let parts = [self.client.poll_timeout(), self.router.poll_timeout(), store];
        parts.into_iter().flatten().min()
    }

    /// See [`Daemon::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Time) {
        if self.is_started {
            self.client.handle_timeout(now);
        } else {
            self.is_started = true;
            self.client.start(now);
        }
    }

    /// See [`Daemon::authenticate`].
    pub fn authenticate(
        &mut self,
        now: Time,
        conn: ConnId,
        step: ConnectingStep,
    ) -> ConnectingAnswer {
        let answer = self.client.authenticate(now, conn, step);
        if let Some(failure) = self.client.take_auth_failure() {
            tracing::warn!(%failure, "cannot authenticate to the cluster; check the server's key");
        }
        answer
    }

    /// See [`Daemon::handle_opened`].
    pub fn handle_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        self.client.handle_opened(now, conn, peer);
    }

    /// See [`Daemon::handle_message`].
    pub fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        self.client.handle_message(now, conn, message);
    }

    /// See [`Daemon::handle_closed`].
    pub fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.client.handle_closed(now, conn);
    }
}

/// Id of a file system: its metadata pool, and when it was made. A new one refuses a pool that another one
/// has used.
pub(super) fn file_system_id(map: &MdsMap) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&map.metadata_pool.0.to_le_bytes());
    id[8..12].copy_from_slice(&map.created.seconds.to_le_bytes());
    id[12..].copy_from_slice(&map.created.nanoseconds.to_le_bytes());
    id
}

/// Takes the data pools of newer maps.
pub(super) fn learn_pools(pools: &mut DataPools, map: &MdsMap, osd_map: Option<&OsdMap>) {
    let osd_epoch = osd_map.map(|map| map.epoch).unwrap_or_default();
    if (pools.map_epoch, pools.osd_epoch) == (map.epoch.0, osd_epoch) {
        return;
    }
    let name = |pool| osd_map.and_then(|map| map.pool_name(pool)).unwrap_or_default();
    let names = map.data_pools.iter().map(|pool| (*pool, name(*pool).to_owned())).collect();
    let metadata = osd_map.and_then(|osd_map| osd_map.pools.get(&map.metadata_pool));
    let full = PoolFlags::FULL | PoolFlags::FULL_QUOTA;
    let has = |flags| metadata.is_some_and(|pool| pool.flags.intersects(flags));
    let (is_short, is_full) = (has(full | PoolFlags::NEARFULL), has(full));
    *pools = DataPools { names, map_epoch: map.epoch.0, osd_epoch, is_short, is_full };
}
