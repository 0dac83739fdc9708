"""Running listeners in threads or tasks, and judging what they return."""
