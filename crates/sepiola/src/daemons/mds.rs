//! A metadata server of this process.

use access::AuthMode;
use anyhow::{Result, bail};
use auth::CryptoKey;
use host::{AnyCore, DaemonNode, Listening, Member, NoStorage, Prepared};
use machine::{hostname, random_bytes, random_u64};
use mds::{End, Mds};
use std::net::SocketAddr;
use types::{EntityAddr, EntityAddrVec, EntityType, ParticipantName, Uuid};

/// The rank that clients take the server for. Monitors know it by the global id that it has proved.
const RANK: i64 = 0;

/// A metadata server that this process is to run.
#[derive(Debug)]
pub struct MdsMember {
    /// Its name: `a` of `mds.a`.
    pub name: String,
    /// Its cluster's id.
    pub fsid: Uuid,
    /// Where it listens; any port if that is 0.
    pub listen: SocketAddr,
    /// Where it looks for monitors.
    pub monitors: Vec<EntityAddrVec>,
    /// How it proves who it is.
    pub auth: AuthMode,
    /// Proof of its name.
    pub key: Option<CryptoKey>,
    /// Whether it stores nothing.
    pub is_volatile: bool,
}

impl Member for MdsMember {
    fn participant(&self) -> ParticipantName {
        ParticipantName::new(EntityType::MDS, RANK)
    }

    fn prepare<'a>(&'a self, core: &mut AnyCore, node: usize) -> Result<Prepared<'a>> {
        let (participant, nonce) = (self.participant(), random_u64()? as u32);
        let addr = core.listen(self.listen, Listening { node, participant, nonce })?;
        let addr = EntityAddr::msgr2(addr, nonce);
        Ok(Box::new(move |_| {
            let node = DaemonNode::new(participant, self.daemon(addr)?, NoStorage);
            Ok(Box::new(node.with_check(check)))
        }))
    }
}

impl MdsMember {
    fn daemon(&self, addr: EntityAddr) -> Result<Mds> {
        let config = mds::Config {
            name: self.name.clone(),
            fsid: self.fsid,
            addrs: EntityAddrVec::one(addr),
            monitors: self.monitors.clone(),
            key: self.key.clone(),
            auth_none: self.auth == AuthMode::None,
            hostname: hostname(),
            gid: 0,
            is_volatile: self.is_volatile,
            reconnect_timeout: mds::Config::RECONNECT_TIMEOUT,
        };
        Ok(Mds::new(config, random_bytes()?))
    }
}

/// This run of the server is over, for this reason, and a new one may begin.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RunEnded(pub End);

/// An error when the run of the server is over.
fn check(server: &Mds) -> Result<()> {
    if let Some(end) = server.end() {
        bail!(RunEnded(end.clone()));
    }
    Ok(())
}
