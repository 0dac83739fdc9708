"""Object stores behind one protocol: local files, memory, S3 and the like, and wrappers around them."""
