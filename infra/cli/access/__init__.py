"""Commands about the rights of a gateway's clients."""
