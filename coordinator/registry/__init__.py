"""The stored state of groups: records, broadcasting members' progress, and what retention and collection must spare."""
