"""What runs Penstock: the command line, the demo, metrics and deployment."""
