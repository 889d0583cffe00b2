"""Proof that each lint can fail: it passes what the good peers said, and finds what was spoiled."""

import pytest
import trio
from good_server import server
from mcpcore.conformance import revisions
from mcpcore.conformance.catalogue import rules
from mcpcore.conformance.lints import Lint, Story, lints
from mcpcore.conformance.run import Options, judge_server
from mutant_peers import MemoryTarget, http_target
from mutants.recordings import SPOILED, Spoiled, spoil

LINTS = {lint.name: lint for lint in lints()}


@pytest.fixture(scope="module")
def recorded():
    """What crossed between the suite and the good server, by transport and revision."""

    async def record():
        options = Options(level=3, jobs=4)
        over_pipes = await judge_server(MemoryTarget(server), options)
        async with http_target(server) as target:
            over_http = await judge_server(target, options)
        return {"stdio": over_pipes.transcripts, "http": over_http.transcripts}

    return trio.run(record)


def seen_by(lint: Lint, role: str, stories: list[Story]) -> list[str | None]:
    return [problem for story in stories for at, problem in lint.run(story) if at.sender == role]


def revision_of(lint: Lint, spoiled: Spoiled) -> str:
    if spoiled.revision is not None:
        return spoiled.revision
    return [
        each
        for each in revisions.ALL
        if any(each in rules()[name].revisions for name in lint.rules)
    ][-1]


@pytest.mark.parametrize("name", LINTS)
def test_each_lint_finds_what_was_spoiled(name, recorded):
    lint, spoiled = LINTS[name], SPOILED[name]
    judged = spoiled.judged or spoiled.by
    transcripts = recorded[spoiled.transport][revision_of(lint, spoiled)]
    lawful = [each.entries for each in transcripts if each.lawful]
    assert set(seen_by(lint, judged, [Story(entries) for entries in lawful])) <= {None}
    found = seen_by(lint, judged, [Story(list(spoil(entries, spoiled))) for entries in lawful])
    assert any(found), found[:10]
