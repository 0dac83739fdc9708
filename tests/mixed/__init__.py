"""Two versions of Penstock in one lake: `make test-mixed`."""
