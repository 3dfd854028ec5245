//! One msgr 2.1 session as a sans-I/O engine.
