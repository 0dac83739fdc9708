"""The deterministic simulation: real protocol code on a seeded scheduler, in virtual time, over a store that misbehaves."""
