"""The life of one message, read from what is stored of it."""
