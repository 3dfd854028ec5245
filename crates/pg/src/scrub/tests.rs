//! Comparisons of written-down copies, and whole rounds over stores in memory.

mod families;
mod judgement;
mod rounds;
