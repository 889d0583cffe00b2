"""The command line: `mcpcore tour`, `list`, `call`, `read`, `prompt`, `ping`, `serve`.

Results go to stdout, everything else to stderr, and the exit code (`mcpcore.cli.output`) says what
happened, so that a script can rely on all three.
"""
