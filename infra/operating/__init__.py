"""The operators' looks and actions, for the command line and the web console alike.

A look is a frozen dataclass, and the function that gathers it. Its class is named by a noun for the thing
itself, without a suffix. Where the library has a class of that name, the noun says more: `GroupLag`, `StoredTopic`, `MessageLife`.
"""
