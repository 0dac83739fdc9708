"""Readers without a consumer group: rows of a topic from its table and its log, in offset order."""
