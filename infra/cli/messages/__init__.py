"""Commands that send and show messages. Those that consume in a group are in `groups`."""
