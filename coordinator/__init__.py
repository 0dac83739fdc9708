"""The coordinator: leases, acknowledgements and group records over one compare-and-set table."""
