"""A judge for implementations of the Model Context Protocol.

It runs against any server or client, in any language, on both transports and in all five revisions,
and gives a verdict for each rule with the wire as its proof. Read it in this order:

- ``revisions`` and ``catalogue``: the rules, as data (``rules/*/*.toml``).
- ``transcript`` and ``wire``: bytes that cross, each with its time. Nothing here knows a rule.
- ``speaking``: the suite as a client, one message at a time, lawful or not.
- ``serving``: the suite as a scripted server, for clients under test.
- ``checks``: one function for each thing that is provoked and observed.
- ``lints``: rules that any recorded conversation can be held against.
- ``run`` and ``reports``: which checks run, in which order, and what is said about them.

It shares no code with any implementation, so that it shares no fault with those it judges.
"""
