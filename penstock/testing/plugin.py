"""The pytest plugin: fixtures for lakes in memory, on local files and on an S3 server."""
