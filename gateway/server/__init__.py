"""The process of a gateway of any protocol: options, TLS, and health."""
