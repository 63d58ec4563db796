"""Real processes on real databases, killed and stopped at random moments and at every named point."""
