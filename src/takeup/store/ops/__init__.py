"""The operations: generators that yield named queries and receive rows, one transaction each, no I/O."""
