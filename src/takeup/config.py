"""Every setting with its meaning, default and unit."""
