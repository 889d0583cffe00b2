"""The good server: the official fixture with what our own checks expect besides, in small pages."""

from judges.official_server import server

server.page_size = 20

__all__ = ["server"]
