"""Rows that are uploaded before an entry links them."""
