"""The table by Delta Lake's protocol: files, actions, snapshots and commits, and reading its rows."""
