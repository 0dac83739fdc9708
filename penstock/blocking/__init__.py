"""The synchronous face: the asynchronous classes, run on one event-loop thread of this process. Generated, but for `face` and `lake_face`."""
