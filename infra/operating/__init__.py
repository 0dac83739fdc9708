"""The operators' views and actions, for the command line and the web console alike."""
