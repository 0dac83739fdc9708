"""What consumer groups are built for: messages settled a second, time from send to handler, take-overs, isolation, and what idling costs."""
