"""What operators do in the console: each action shows first what it will do, is done once, and is logged."""
