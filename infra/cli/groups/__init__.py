"""Commands about consumer groups: consuming, progress, parked and dead messages, and processes."""
