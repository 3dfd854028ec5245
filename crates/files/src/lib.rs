//! The object store that keeps objects as files in a directory.
