"""The end of each topic, as far as it is at hand in this process."""
