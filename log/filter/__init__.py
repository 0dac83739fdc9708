"""Filters of messages, by tag or by an SQL92 condition, evaluated on Arrow columns.

Who subscribes with which filter is the coordinator's business.
"""
