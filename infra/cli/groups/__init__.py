"""Commands about consumer groups: consuming, where groups stand, parked and dead messages, and the processes behind them."""
