"""Public test tools: clocks, the oracle, the simulator, the history checker and the conformance suite."""
