"""The frame of every command and the demo. No command is here."""
