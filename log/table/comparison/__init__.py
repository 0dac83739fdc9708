"""Comparison of log and table before anything is deleted: hashes over rows, ranges, and copied files."""
