"""Programs that show what Penstock does; tests run each of them."""
