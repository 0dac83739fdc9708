"""The parts that run Penstock: the command line, operators' views, permissions and deployment, and the demo."""
