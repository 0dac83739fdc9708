"""What judges a run of the demo: the stream in the topic, the tables against the dumps, and how fresh they were.

The first two share no code with what they judge.
"""
