//! Comparisons as one writes them down, and whole rounds over stores in memory.

mod judgement;
mod rounds;
