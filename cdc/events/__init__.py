"""Change events as connectors write them: envelopes, tables and exact values."""
