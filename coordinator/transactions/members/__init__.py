"""The cells of producer groups' members, and the lists of groups and members."""
