//! The parts of a copy that do not depend on its role in the group.

pub(crate) mod steps;
