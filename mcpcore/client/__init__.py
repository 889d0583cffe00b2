"""The client side: connect to a server and use it."""

from mcpcore.client.client import Client
from mcpcore.client.connecting import connect
from mcpcore.client.forgiven import ForgivenReport
from mcpcore.client.open import ClientOptions, Target

__all__ = ["Client", "ClientOptions", "ForgivenReport", "Target", "connect"]
