"""Checks of a server: the suite is the client."""
