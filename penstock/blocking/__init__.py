"""The synchronous face: the asynchronous classes, run on one event-loop thread of this process. All but `face` is generated."""
