"""A server in ten lines.

Notice: the schema comes from the signature, the description from the docstring. The arguments are
checked before the function runs, so it never sees a string where it wants a number. Stdout belongs
to the protocol: what a function prints goes to stderr.

Exercise: give `b` a default, and a description with `Annotated[int, "what it is"]`. Look at the schema:
`mcpcore list --stdio "python examples/03_server.py"`.
"""

from mcpcore import Server

server = Server("adder", "1.0")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    server.run()
