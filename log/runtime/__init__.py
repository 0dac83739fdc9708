"""The surroundings of protocol code: clocks, chance, backoff and the event loop's thread."""
