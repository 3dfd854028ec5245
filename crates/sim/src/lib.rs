//! The deterministic simulator: the same engines under a seed.
