"""HTTP/1.1 on trio, by h11: the client's side and the server's. Needs the extra `mcpcore[http]`."""
