"""Proof that each check can fail: on a server that is broken in just its point, it does."""

import pytest
from good_server import server
from mcpcore.conformance import revisions
from mcpcore.conformance.checks import Check, checks
from mcpcore.conformance.run import Piece
from mcpcore.conformance.speaking import Bench, Target
from mcpcore.conformance.verdicts import Finding, Verdict
from mutant_peers import MemoryTarget, Mutant, http_target
from mutants.features import FEATURES, ROUNDS, STATELESS_ERA, UTILITIES
from mutants.messages import JSON_RPC, LIFECYCLE, STDIO
from mutants.web import ERAS, HEADERS, HTTP

MUTANTS = (
    JSON_RPC
    | LIFECYCLE
    | STDIO
    | FEATURES
    | UTILITIES
    | ROUNDS
    | STATELESS_ERA
    | HTTP
    | HEADERS
    | ERAS
)
CHECKS = {check.name: check for check in checks("server")}


async def run_on(check: Check, target: Target, mutant: Mutant, limit: float) -> list[Finding]:
    revision = revision_of(check, mutant)
    bench = Bench(target, revision, limit)
    bench.settled = mutant.settled or revisions.ALL
    found: list[Finding] = []
    await Piece(revision, [check], check.shared).run(bench, lambda _, more: found.extend(more))
    return found


def revision_of(check: Check, mutant: Mutant) -> str:
    if mutant.revision is not None:
        return mutant.revision
    return [each for each in revisions.ALL if check.judged(each)][-1]


def transport_of(check: Check, mutant: Mutant) -> str:
    return check.transport or mutant.transport or "stdio"


async def findings(check: Check, mutant: Mutant, limit: float = 0.4) -> list[Finding]:
    if transport_of(check, mutant) == "stdio":
        return await run_on(check, MemoryTarget(server, mutant), mutant, limit)
    async with http_target(server, mutant) as target:
        return await run_on(check, target, mutant, limit)


@pytest.mark.parametrize("name", CHECKS)
async def test_each_check_fails_on_its_mutant(name):
    found = await findings(CHECKS[name], MUTANTS[name])
    bad = [each for each in found if each.verdict in (Verdict.FAILED, Verdict.WARNING)]
    assert bad, [(each.rule, each.verdict, each.got) for each in found]
    assert all(each.entries for each in bad)
