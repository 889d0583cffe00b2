"""The report for a terminal."""

from collections.abc import Iterator

from ..run import Report
from ..verdicts import Finding, Verdict


def text(report: Report) -> str:
    """Every finding that is not a pass, and the counts."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    spoken = ", ".join(report.revisions) or "no revision spoken"
    yield f"{report.role} {report.peer} over {report.transport}: {spoken}"
    for revision in report.revisions:
        for finding in report.by_rule(revision).values():
            if finding.verdict.bad or finding.verdict is Verdict.WARNING:
                yield from _finding(finding)
    counted = report.counts()
    yield (
        ", ".join(f"{count} {verdict}" for verdict, count in counted.items())
        + f" in {report.seconds:.1f} s"
    )


def _finding(finding: Finding) -> Iterator[str]:
    yield f"{finding.verdict.upper():12} {finding.rule} in {finding.revision} ({finding.check})"
    for name in ("sent", "expected", "got"):
        if value := getattr(finding, name):
            yield f"             {name + ':':9} {value}"
