"""What captures of any database have in common. Each database's own room stands above: a decoder of its log, and a type of position."""
