//! What hardware costs: CPUs, nodes, caches, locks and virtual time.
