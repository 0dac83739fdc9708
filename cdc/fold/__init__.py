"""The net change or the versions of each row in a range of events, and the columns that they call for. Targets are not touched."""
