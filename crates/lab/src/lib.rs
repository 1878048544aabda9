//! What an experiment is: scenarios, variants, seeds, statistics and published tables.
