"""What operators look at and do, for the command line and the web console alike."""
