//! Import of a synthetic archive: how many megabytes of logs per second.

fn main() {}
