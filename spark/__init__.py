"""Spark: the session, ordered writes, the streaming source and change data sync."""
