"""The simulator, the history checker and the mutants that they must catch."""
