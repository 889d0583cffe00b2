"""Checks of a client: the suite is the server, and says what its script says."""
