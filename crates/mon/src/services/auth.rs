//! Entities, their keys and capabilities.

use crate::commands::auth;
use crate::service::{Catalog, Family, Service};

pub(super) const CATALOG: Catalog =
    Catalog { topics: &[], messages: &[], commands: &[Family(6, auth::COMMANDS)], checks: &[] };

/// The service of entities.
#[derive(Debug, Default)]
pub(crate) struct AuthService;

impl Service for AuthService {}
