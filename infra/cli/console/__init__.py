"""The commands of the web console."""
