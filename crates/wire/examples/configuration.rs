//! Prints docs/CONFIGURATION.md.

fn main() {
    print!("{}", wire::options::document());
}
