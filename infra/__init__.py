"""What runs Penstock: the command line, what operators see of it, what it may do and how it is deployed, and the demo."""
