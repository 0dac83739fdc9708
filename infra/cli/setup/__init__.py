"""Commands about the machine and the store around Penstock: checks, policies, shell completion.

None looks at messages.
"""
