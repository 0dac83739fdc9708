"""How clients sign their calls, and the rights that each request needs."""
