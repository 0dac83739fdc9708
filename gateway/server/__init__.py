"""The server: what surrounds every call, and the life of the process."""
