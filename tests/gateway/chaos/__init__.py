"""Gateways that are killed and stopped, behind proxies that cut connections and lose answers, beneath real SDKs."""
