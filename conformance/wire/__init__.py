"""Bytes in and out: child processes, HTTP from both ends, server-sent events.

Everything that crosses is written into a transcript. Nothing here knows what a message means.
"""
