"""The topics and consumer groups that clients name, and the producers that they share."""
