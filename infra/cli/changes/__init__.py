"""Commands about change data: capture, sync, and the comparison of targets with their source."""
