"""What a range of events amounts to: the net change or the versions of each row, and the columns that they call for.

Targets are not touched.
"""
