"""What is told and kept of failed attempts."""
