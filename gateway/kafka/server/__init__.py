"""The server of Kafka's protocol: connections, and the frame of every call."""
