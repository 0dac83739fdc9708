"""What runs Penstock: the command line, and the demo."""
