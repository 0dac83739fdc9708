"""The metrics of gateways, whatever the protocol."""

from __future__ import annotations

from ..log.metrics import counter, gauge

CLIENTS = gauge("penstock_gateway_clients", "Clients heard of in the last 30 s", labels=("client_type", "language"))
RECEIVED = counter("penstock_gateway_received_bytes_total", "Requests, as they arrived", "By", labels=("request_code",))

CATALOGUE = (CLIENTS, RECEIVED)
