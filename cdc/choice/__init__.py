"""The user's choices of tables, targets' names, columns and masks, and the handling of unfit events."""
