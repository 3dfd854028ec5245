//! The native RADOS client engine.
