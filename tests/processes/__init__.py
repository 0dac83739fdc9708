"""Real processes on real stores, killed and paused."""
