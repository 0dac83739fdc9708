"""Asking checkers about transactions that nobody has decided.

What follows from the answer is in the finisher.
"""
