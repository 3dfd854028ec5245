//! Comparisons of written-down copies, and whole rounds over stores in memory.

mod compare;
mod families;
mod rounds;
