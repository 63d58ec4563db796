"""From a file that somebody sends to a stream that is served: receiving, keeping, removing."""
