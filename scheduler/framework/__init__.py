"""What plugin authors import, and what runs their plugins.

Defines the extension points and their outcomes as values. Never does I/O; nothing here is async.
"""
