"""The demo's processes, from both sides: the producers, one of which is killed, and Spark's driver.

`steps` has them run.
"""
