"""The table as Delta Lake has it: files, actions, snapshots and commits, and how its rows are read.

The steps that keep it in shape are one level up.
"""
