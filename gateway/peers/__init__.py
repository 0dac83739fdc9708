"""The gateways of a lake that speak one protocol, and the topics that each serves."""
