"""What every command and the demo share: the session, output, values, endings and words of the command line.

No command is here.
"""
