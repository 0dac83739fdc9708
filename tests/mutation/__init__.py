"""Takes one guard or comparison of the library away at a time, and asks which test notices."""
