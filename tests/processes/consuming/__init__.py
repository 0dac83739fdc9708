"""Real consumers on real stores, killed, paused and rolled; `chaos` runs them, `check` judges what they wrote down."""
