"""The clients of a gateway: who they are, and what they may do."""
