"""The commands that consume: `penstock consume` and `penstock run`."""
