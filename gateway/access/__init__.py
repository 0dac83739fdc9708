"""Who the clients of a gateway are."""
