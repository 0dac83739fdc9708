"""The lakes of the console, opened when they are needed, and the looks at them that viewers share."""
