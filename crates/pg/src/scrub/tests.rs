//! Comparisons as one writes them down, and whole rounds over stores in memory.

mod families;
mod judgement;
mod rounds;
