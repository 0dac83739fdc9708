"""The rights of clients at a gateway: principals, their sealed secrets, and grants. No protocol is known here."""
