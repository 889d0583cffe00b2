"""Runs checks and lints against a peer and gathers what they found.

Checks that share a conversation run one after another on it; those with conversations of their own run
beside them, ``jobs`` at a time. Whatever a peer does, a check ends at its time limit.
"""

import fnmatch
import functools
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import trio

from . import revisions
from .catalogue import rules
from .checks import Check, checks
from .lints import Story, lints
from .speaking import Bench, Peer, Target
from .transcript import Entry, Transcript
from .verdicts import Broken, Ended, Finding, NotApplicable, Unreachable, Verdict, brief
from .wire.nursery import first_of

SHARE = 20
"""Checks that one common conversation serves before the next is opened."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to run. ``limit`` is seconds for one awaited thing; a whole check has three times that."""

    revisions: tuple[str, ...] = revisions.ALL
    level: int = 2
    only: tuple[str, ...] = ()
    jobs: int = 4
    limit: float = 5.0
    given: dict[str, Any] = field(default_factory=dict)

    def wants(self, check_name: str, judged: Iterable[str]) -> bool:
        """Whether a check with these rules was asked for (``--only`` globs on ids and names)."""
        names = [check_name, *judged]
        return not self.only or any(
            fnmatch.fnmatchcase(name, glob) for name in names for glob in self.only
        )


@dataclass(slots=True)
class Report:
    """Everything that a run found about one peer."""

    peer: str
    role: str
    transport: str
    revisions: tuple[str, ...]
    findings: list[Finding] = field(default_factory=list)
    transcripts: dict[str, list[Transcript]] = field(default_factory=dict, repr=False)
    seconds: float = 0.0

    def by_rule(self, revision: str) -> dict[str, Finding]:
        """For each rule, the worst that was found in a revision."""
        worst: dict[str, Finding] = {}
        for finding in self.findings:
            if finding.revision == revision:
                known = worst.get(finding.rule)
                if known is None or finding.verdict.rank > known.verdict.rank:
                    worst[finding.rule] = finding
        return worst

    def counts(self) -> dict[Verdict, int]:
        """How many rules came to which verdict, over all revisions."""
        counted = dict.fromkeys(Verdict, 0)
        for revision in self.revisions:
            for finding in self.by_rule(revision).values():
                counted[finding.verdict] += 1
        return counted

    @property
    def conformant(self) -> bool:
        """Whether no rule was failed or left unreachable, and there was anything to judge at all."""
        return bool(self.revisions) and not any(finding.verdict.bad for finding in self.findings)


Progress = Callable[[str, int, int], None]


def _silent(what: str, done: int, total: int) -> None:
    """Says nothing."""


async def judge_server(target: Target, options: Options, progress: Progress = _silent) -> Report:
    """Run all that applies against a server."""
    began = time.monotonic()
    spoken = await spoken_revisions(target, options)
    report = Report(target.command or target.url or "", "server", target.transport, spoken)
    report.transcripts = {revision: [] for revision in spoken}
    work = list(_work(target, options, spoken, report))
    total, done = sum(len(each.checks) for each in work), itertools.count(1)
    waiting = iter(work)

    def note(revision: str, check: Check, found: list[Finding]) -> None:
        report.findings += found
        progress(f"{revision} {check.name}", next(done), total)

    async def worker() -> None:
        for piece in waiting:
            bench = Bench(target, piece.revision, options.limit, options.given)
            bench.settled = spoken
            await piece.run(bench, functools.partial(note, piece.revision))
            report.transcripts[piece.revision] += bench.transcripts

    async with trio.open_nursery() as nursery:
        for _ in range(options.jobs):
            nursery.start_soon(worker)
    for revision in spoken:
        report.findings += hold_against_lints(
            report.transcripts[revision], "server", revision, options
        )
    report.seconds = time.monotonic() - began
    return report


async def spoken_revisions(target: Target, options: Options) -> tuple[str, ...]:
    """Those of the wanted revisions that the server can be opened in."""
    found = set()

    async def attempt(revision: str) -> None:
        try:
            with trio.move_on_after(options.limit * 3):
                async with Bench(target, revision, options.limit).connect() as peer:
                    supported = peer.opening.get("supportedVersions", [revision])
                    if revision in supported:
                        found.add(revision)
        except (Ended, BaseExceptionGroup):
            pass

    async with trio.open_nursery() as nursery:
        for revision in options.revisions:
            nursery.start_soon(attempt, revision)
    return tuple(revision for revision in options.revisions if revision in found)


Done = Callable[[Check, list[Finding]], None]


@dataclass(slots=True)
class Piece:
    """Checks that run one after another; ``shared`` ones use one conversation."""

    revision: str
    checks: list[Check]
    shared: bool

    async def run(self, bench: Bench, done: Done) -> None:
        """Run them, handing each to ``done`` with what it found."""
        left = list(self.checks)
        while left:
            if not self.shared:
                check = left.pop(0)
                ended = await _end_of(bench.limit, check.run, bench)
                done(check, self._found(check, ended, _entries(bench.transcripts)))
                continue
            try:
                async with bench.connect() as peer:
                    await self._run_on(peer, left, done)
            except Ended as ended:
                check = left.pop(0)
                done(check, self._found(check, ended, _entries(bench.transcripts[-1:])))

    async def _run_on(self, peer: Peer, left: list[Check], done: Done) -> None:
        """Run checks on one conversation until they are through or it is spoiled."""
        spoiled = False
        while left and not spoiled:
            check = left.pop(0)
            mark, answers = len(peer.transcript.entries), dict(peer.answers)
            ended = await _end_of(peer.limit, _with_needs, check, peer)
            peer.answers = answers
            spoiled = peer.closed.is_set() or not (
                ended is None or isinstance(ended, NotApplicable)
            )
            done(check, self._found(check, ended, tuple(peer.transcript.entries[mark:])))

    def _found(
        self, check: Check, ended: Ended | None, entries: tuple[Entry, ...]
    ) -> list[Finding]:
        return list(verdicts_of(check, self.revision, ended, entries))


async def _with_needs(check: Check, peer: Peer) -> None:
    for need in check.needs:
        peer.needs(need)
    await check.run(peer)


async def _end_of(
    limit: float, run: Callable[..., Awaitable[None]], *arguments: Any
) -> Ended | None:
    """How a check ended; None if it passed. At its time limit it is cancelled."""
    with trio.move_on_after(limit * 3):
        try:
            await run(*arguments)
        except (Exception, BaseExceptionGroup) as error:
            first = first_of(error)
            if isinstance(first, Ended):
                return first
            if not isinstance(first, Exception):
                raise
            return Unreachable(f"the check could not cope with the peer: {first!r}")
        return None
    return Broken(f"an end within {limit * 3:g} s", "the time limit of the check")


def _entries(transcripts: Iterable[Transcript]) -> tuple[Entry, ...]:
    return tuple(entry for transcript in transcripts for entry in transcript.entries)


def _work(
    target: Target, options: Options, spoken: tuple[str, ...], report: Report
) -> Iterator[Piece]:
    newest = (
        {spoken[-1]} | {r for r in spoken[-2:] if spoken and revisions.is_stateless(spoken[-1])}
        if spoken
        else set()
    )
    alone: list[Piece] = []
    for revision in spoken:
        shared: dict[bool, list[Check]] = {False: [], True: []}
        for check in checks("server"):
            judged = check.judged(revision)
            if (
                not judged
                or not options.wants(check.name, check.rules)
                or (check.once and revision not in newest)
            ):
                continue
            reason = ""
            if check.level > options.level:
                reason = f"needs level {check.level}"
            elif check.transport not in (None, target.transport):
                reason = f"is about {check.transport}"
            if reason:
                report.findings += [
                    Finding(rule.id, check.name, revision, Verdict.NOT_APPLICABLE, got=reason)
                    for rule in judged
                ]
            elif check.shared:
                shared[check.strays].append(check)
            else:
                alone.append(Piece(revision, [check], shared=False))
        for together in shared.values():
            for start in range(0, len(together), SHARE):
                yield Piece(revision, together[start : start + SHARE], shared=True)
    yield from alone


def verdicts_of(
    check: Check, revision: str, ended: BaseException | None, entries: tuple[Entry, ...]
) -> Iterator[Finding]:
    """What the end of a check means for each of its rules."""
    for rule in check.judged(revision):
        verdict, expected, got, sent = Verdict.PASSED, "", "", ""
        if isinstance(ended, Unreachable):
            verdict, got = Verdict.UNREACHABLE, str(ended)
        elif isinstance(ended, NotApplicable):
            verdict, got = Verdict.NOT_APPLICABLE, str(ended)
        elif isinstance(ended, Broken) and (not ended.rules or rule.id in ended.rules):
            hard = rule.binds(revision) and not ended.soft
            verdict = Verdict.FAILED if hard else Verdict.WARNING
            expected, got, sent = (
                ended.expected,
                brief(ended.got),
                brief(ended.sent) if ended.sent is not None else "",
            )
        kept = entries if verdict.bad or verdict is Verdict.WARNING else ()
        yield Finding(rule.id, check.name, revision, verdict, sent, expected, got, kept)


def hold_against_lints(
    transcripts: Iterable[Transcript], role: str, revision: str, options: Options
) -> Iterator[Finding]:
    """The verdicts of all lints on what a side said in these conversations."""
    stories = [Story(transcript.entries) for transcript in transcripts if transcript.lawful]
    for lint in lints():
        judged = [rules()[each] for each in lint.rules]
        judged = [rule for rule in judged if revision in rule.revisions and role in rule.duty]
        if not judged or not options.wants(lint.name, lint.rules):
            continue
        seen, wrong = 0, None
        for story in stories:
            for at, problem in lint.run(story):
                if at.sender != role:
                    continue
                seen += 1
                if problem is not None and wrong is None:
                    wrong = (story, at, problem)
        for rule in judged:
            if wrong is not None:
                story, at, problem = wrong
                verdict = Verdict.FAILED if rule.binds(revision) else Verdict.WARNING
                yield Finding(
                    rule.id,
                    lint.name,
                    revision,
                    verdict,
                    "",
                    lint.expected,
                    problem,
                    tuple(around(story, at)),
                )
            else:
                verdict = Verdict.PASSED if seen else Verdict.NOT_APPLICABLE
                yield Finding(
                    rule.id,
                    lint.name,
                    revision,
                    verdict,
                    got="" if seen else "nothing of the kind was seen",
                )


def around(story: Story, at: Any) -> Iterator[Entry]:
    """The entries that prove a lint's finding: the message, what it answers, and its neighbours."""
    entry = getattr(at, "entry", at)
    position = next(index for index, each in enumerate(story.entries) if each is entry)
    request = getattr(at, "request", None)
    if request is not None and request.entry in story.entries[: max(0, position - 5)]:
        yield request.entry
    yield from story.entries[max(0, position - 5) : position + 3]
