"""The suite passes the good server, on both transports, in every revision, at every level."""

import pytest
from good_server import server
from mcpcore.conformance import revisions
from mcpcore.conformance.run import Options, judge_server
from mcpcore.conformance.verdicts import Verdict
from mutant_peers import MemoryTarget, http_target

OPTIONS = Options(level=3, jobs=4, limit=5)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_good_server_passes(transport):
    if transport == "stdio":
        report = await judge_server(MemoryTarget(server), OPTIONS)
    else:
        async with http_target(server) as target:
            report = await judge_server(target, OPTIONS)
    assert report.revisions == revisions.ALL
    wrong = [
        (finding.rule, finding.check, finding.revision, finding.expected, finding.got)
        for finding in report.findings
        if finding.verdict not in (Verdict.PASSED, Verdict.NOT_APPLICABLE)
    ]
    assert wrong == []
