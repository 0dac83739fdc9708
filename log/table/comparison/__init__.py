"""Comparison of log and table: hashes over rows, ranges, and copied files, compared before anything is deleted.

Nothing here deletes.
"""
