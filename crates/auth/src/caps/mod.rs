//! Capabilities: four small languages, and the questions that daemons ask of them.
//!
//! A capability is a list of grants separated by `,` or `;`. Each service has its own language, as
//! Ceph's documentation on user management describes them: [`MonCaps`], [`OsdCaps`] and [`MgrCaps`]
//! can be asked whether something is allowed; [`MdsCaps`] are only checked for validity.
//!
//! Invariants: text that does not parse grants nothing, and what a grant does not clearly allow is
//! denied. The languages are read as Ceph reads them: the first way in which a phrase fits is
//! taken, and a blank or a separator more or less counts.

mod constraint;
mod mds;
mod mgr;
mod mon;
mod mon_profiles;
mod network;
mod osd;
mod permissions;
mod scanner;

pub use mds::MdsCaps;
pub use mgr::{MgrAccess, MgrCaps};
pub use mon::{MonAccess, MonCaps};
pub use osd::{ApplicationMetadata, ClassCall, OsdAccess, OsdCaps};
pub use permissions::Rwx;
pub use scanner::CapsError;

/// Checks the capability text for a service by its name, as commands that set capabilities must.
pub fn validate(service: &str, text: &str) -> Result<(), CapsError> {
    match service {
        "mon" => MonCaps::parse(text).map(drop),
        "osd" => OsdCaps::parse(text).map(drop),
        "mgr" => MgrCaps::parse(text).map(drop),
        "mds" => MdsCaps::parse(text).map(drop),
        _ => Err(CapsError::UnknownService { service: service.to_owned() }),
    }
}
