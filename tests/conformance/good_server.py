"""The good server: what the official fixture has, and what our own checks expect besides."""

from judges.official_server import server

__all__ = ["server"]
