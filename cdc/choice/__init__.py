"""What the user chooses about tables: which of them, what their targets are called, their columns, masks, and what unfit events do."""
