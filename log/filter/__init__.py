"""Filters of messages, by tag or by an SQL92 condition, evaluated on Arrow columns."""
