"""Older targets get the types of their source's columns: each is rewritten by one commit, at most once, or left as it is."""
