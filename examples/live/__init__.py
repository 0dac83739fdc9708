"""A shop's database captured live, beneath kills, into Delta tables whose cuts are proved against the database's own snapshots."""
