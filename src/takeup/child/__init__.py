"""Child processes: run to their end, bounded, watched, confined, and dead when we are."""
