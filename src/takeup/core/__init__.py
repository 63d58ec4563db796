"""The pure core: what may happen, decided without a clock, a database or a network."""
