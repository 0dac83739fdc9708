"""Rows that are uploaded before an entry links them: jobs in parts, and half messages."""
