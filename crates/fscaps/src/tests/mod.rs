//! Clients against the lock machine: cases as text, and random orders of messages.

mod bounds;
mod cases;
mod clients;
mod random;
