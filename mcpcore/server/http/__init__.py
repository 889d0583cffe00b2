"""Serving over Streamable HTTP: one endpoint, its sessions and streams, and two fronts for it.

`endpoint` serves requests by the rules of `mcpcore.protocol.httprules`; `sessions` keeps the sessions and
`streams` what each has to say; `store` remembers events for clients that come back. `listener` and `app`
are the fronts: a small server of our own, and a Starlette app.
"""
