"""The tool by which a model controls jobs, with terminals or without, after their call has returned."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from ..._exceptions import AnyshellError, ArtifactNotFound, JobNotFound
from ..._types import LONGEST_NAME, JobInputRequest, JobOutput, Output, Refused, exact
from ...jobs import SentInPart
from ...output import OutputBuilder
from .. import words
from ..definition import ToolDefinition, number, object_of, properties_of
from ..params import InvalidParams
from . import terminal_words
from . import words as job_words
from .params import JobCall, JobParams, Offered, parse, text_problems
from .parts import select
from .results import JobResults, state_of, state_of_terminal
from .terminal_actions import TerminalActions
from .tracked import TrackedTerminal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...terminal import SecretSource
    from ..calls import Ongoing
    from ..context import ToolContext
    from ..limits import ToolLimits
    from ..result import JobCallStatus, JobResult
    from .ledger import Ledger, LedgerEntry
    from .terminals import Terminals

PIECE = 1024 * 1024
"""Bytes of a kept output, or of a job's output, that are read at once when a part is selected."""

NAMED = 10
"""Jobs that an error about an unknown id names: the newest jobs; the others are left out."""

_DESCRIPTION = (
    "Reads, feeds and stops the jobs of the tool shell: what runs in the background{or_terminal}. output shows what is new, and "
    "with wait or until what comes; of a kept output, a part. send types{screen}. stop ends a job and all it started. A "
    "wait takes up to {wait} seconds; the end of a job is said in the next result anyway."
)


def definition(limits: ToolLimits, offered: Offered) -> ToolDefinition:
    """Return the definition of the job tool for a model.

    Args:
        limits: The limits in force.
        offered: The offered kinds of jobs and actions.
    """
    properties = properties_of(JobParams, offered.keys)
    properties["action"]["enum"] = list(offered.actions)
    properties["wait"] |= {"minimum": 0, "maximum": number(limits.max_wait)}
    if offered.terminals:
        properties["text"]["description"] += " Of resize: 120x40."
        properties["keys"]["maxItems"] = limits.max_keys
    screen = ""
    if offered.terminals:
        secret = "secret has the user type a password, unseen by you; " if offered.secrets else ""
        screen = f" and returns when the program has reacted. {secret}screen shows the screen; resize changes its size"
    return ToolDefinition(
        name="job",
        title="Look after jobs",
        description=_DESCRIPTION.format(
            or_terminal=" or on a terminal" if offered.terminals else "",
            screen=screen,
            wait=exact(limits.max_wait),
        ),
        parameters=object_of(properties, required=("action",)),
    )


class JobTool:
    """The tool that lists, reads, feeds and stops the jobs of one `ShellTool`; made by `ShellTool.job_tool`.

    A model sees only the jobs of its own calls. All input sent to a job or typed on a terminal passes the approver; reading
    and stopping do not.
    """

    def __init__(
        self,
        context: ToolContext,
        ledger: Ledger | None,
        terminals: Terminals | None,
        *,
        secrets: SecretSource | None = None,
    ) -> None:
        self._context = context
        self._ledger = ledger
        self._terminals = terminals
        self._results = JobResults(context, ledger, terminals)
        self._offered = Offered(terminals=terminals is not None, secrets=secrets is not None)
        if terminals is not None:
            self._actions = TerminalActions(context, terminals, self._results, secrets=secrets)

    @property
    def definition(self) -> ToolDefinition:
        """The definition for the model: a name, a description, and a JSON schema with the limits in force."""
        return definition(self._context.limits, self._offered)

    async def __call__(
        self, params: Mapping[str, object] | JobParams, *, call_id: str | None = None
    ) -> JobResult:
        """Carry out one call.

        Args:
            params: The model's parameters, unchecked.
            call_id: The id for `ShellTool.cancel`, as for a `ShellTool`. A cancelled call no longer waits for a job, the
                approver or a secret, and its result is ``cancelled``; the job goes on. A send or stop under way is
                completed first.

        Returns:
            The result of the call. Wrong parameters, a refusal and an unknown job are results.

        Raises:
            InvalidCommand: `call_id` is empty, or is the id of another call under way.
            asyncio.CancelledError: The calling task was cancelled. The job goes on, and so does a stop under way; a part
                of the input may have been typed.
        """
        with self._context.calls.begin(call_id, "job", params) as ongoing:
            result = await self._call(params, ongoing)
        return result.model_copy(
            update={"details": result.details.model_copy(update={"call_id": ongoing.id})}
        )

    call = __call__

    async def _call(self, params: Mapping[str, object] | JobParams, ongoing: Ongoing) -> JobResult:
        try:
            call = parse(params, self._context.limits, self._offered)
        except InvalidParams as error:
            return self._results.make(None, "invalid", [words.invalid(str(error))])
        try:
            if call.action == "list":
                return self._list(call)
            artifact_id = PurePath(call.ids[0]).name.removesuffix(".out")  # of the file's path, too
            if artifact_id in self._context.kept and len(call.ids) == 1:
                return await self._kept(call, artifact_id)
            return await self._carried_out(call, [self._job(job_id) for job_id in call.ids], ongoing)
        except AnyshellError as error:
            return self._results.make(call, "failed", [words.undone(error)])

    async def _carried_out(
        self, call: JobCall, jobs: Sequence[LedgerEntry | TrackedTerminal], ongoing: Ongoing
    ) -> JobResult:
        if len(jobs) == 1 and isinstance(jobs[0], TrackedTerminal):
            return await self._actions.perform(call, jobs[0], ongoing)
        entries = [job for job in jobs if not isinstance(job, TrackedTerminal)]
        if len(entries) < len(jobs):
            raise AnyshellError("several ids are for jobs without a terminal: wait for a terminal by itself")
        match call.action:
            case "output":
                return await self._read(call, entries, ongoing)
            case "stop":
                return await self._stop(call, entries[0])
            case "send":
                return await self._send(call, entries[0], ongoing)
            case action:
                raise AnyshellError(f"job {entries[0].job.id} has no terminal, and {action} is for one alone")

    def _job(self, job_id: str) -> LedgerEntry | TrackedTerminal:
        """Find a job.

        Raises:
            JobNotFound: No job of this tool has the id; the message names the newest existing jobs.
        """
        entries = {} if self._ledger is None else self._ledger.known()
        terminals = {} if self._terminals is None else self._terminals.known()
        job = entries.get(job_id) or terminals.get(job_id)
        if job is None:
            ids = (*entries, *terminals)
            named = ", ".join([*["…"] * (len(ids) > NAMED), *ids[-NAMED:]])
            there = f"; there are: {named}" if ids else ": there are no jobs"
            raise JobNotFound(f"no job has the id {job_id[:LONGEST_NAME]!r}{there}")
        return job

    def _list(self, call: JobCall) -> JobResult:
        entries = () if self._ledger is None else self._ledger.entries()
        terminals = () if self._terminals is None else tuple(self._terminals.known().values())
        shown = entries[-job_words.LISTED :]
        messages = [*job_words.listed(entries), *map(terminal_words.listed, terminals)]
        for entry in shown:
            entry.told = entry.over
        for terminal in terminals:
            terminal.told = terminal.over
        states = [*(state_of(entry.job) for entry in shown), *map(state_of_terminal, terminals)]
        return self._results.make(call, "done", messages or ["There are no jobs."], states)

    async def _kept(self, call: JobCall, artifact_id: str) -> JobResult:
        """Show a part of a kept output."""
        store = self._context.env.artifacts
        if call.action != "output" or store is None:
            raise AnyshellError(f"{artifact_id} is a kept output: action output shows it, with part")
        part = call.part
        if part is None:
            raise AnyshellError(
                'part is missing: say which, such as "lines 1-200", "lines -50" or "grep TEXT"'
            )
        code_page = self._context.env.info.code_page

        def chunks() -> Iterator[bytes]:
            with store.open(artifact_id) as file:  # an open artifact is never pruned
                while data := file.read(PIECE):
                    yield data

        try:
            output, told = await asyncio.to_thread(
                select, chunks(), part, self._context.env.limits, code_page=code_page
            )
        except (ArtifactNotFound, OSError) as error:
            raise AnyshellError(f"the kept output {artifact_id} cannot be read any more: {error}") from error
        return self._part(call, output, told)

    def _part(
        self, call: JobCall, output: Output, told: str, entry: LedgerEntry | None = None, *, lost: int = 0
    ) -> JobResult:
        output = self._context.hidden.output(output)
        messages = [told, *job_words.not_kept(lost)]
        messages += job_words.shortened(output, self._context.env.limits.max_line)
        states = () if entry is None else (state_of(entry.job),)
        return self._results.make(call, "done", messages, states, output=output)

    async def _first(
        self, call: JobCall, entries: Sequence[LedgerEntry], ongoing: Ongoing, most: float
    ) -> LedgerEntry:
        """Wait at most `most` seconds for the first of several jobs with news; without news return the first running job."""

        def tells(entry: LedgerEntry) -> bool:
            if entry.over and not entry.told:
                return True
            return not call.until_end and call.until is None and entry.unseen > 0

        async def comes(entry: LedgerEntry) -> None:
            with contextlib.suppress(Exception):  # the result tells the job's end
                if call.until is not None:
                    found = await entry.job.wait_for(call.until, since=entry.seen, timeout=most)
                    if found is None and not entry.over:
                        await entry.job.wait()
                elif call.until_end:
                    await entry.job.wait()
                else:
                    await entry.job.output(entry.seen, wait=most)

        running = [entry for entry in entries if not entry.over]
        if running and not any(map(tells, entries)):
            tasks = {asyncio.ensure_future(comes(entry)): entry for entry in running}
            try:
                with ongoing.interruptible():
                    done, _ = await asyncio.wait(tasks, timeout=most, return_when=asyncio.FIRST_COMPLETED)
                    if done:
                        return next(entry for task, entry in tasks.items() if task in done)
            finally:
                for task in tasks:
                    task.cancel()
        return next((entry for entry in entries if tells(entry)), (*running, *entries)[0])

    async def _read(
        self, call: JobCall, entries: Sequence[LedgerEntry], ongoing: Ongoing, sent: Sequence[str] = ()
    ) -> JobResult:
        entry, most_seconds = entries[0], call.patience(0, self._context.limits)
        began = time.monotonic()
        if len(entries) > 1:
            entry = await self._first(call, entries, ongoing, most_seconds)
            most_seconds = 0
        others = [other for other in entries if other is not entry]
        job, limits = entry.job, self._context.env.limits
        if call.part is not None and not (call.part.kind == "bytes" and call.part.first is not None):
            return await self._part_of_job(call, entry)
        since, most = entry.seen, max(limits.size, 1)
        if call.part is not None and call.part.first is not None:
            since = call.part.first
            if call.part.last is not None:
                most = max(1, min(most, call.part.last - since))
        if since > job.printed:
            raise AnyshellError(
                f"job {job.id} has printed {job.printed:,} bytes, fewer than were to be skipped"
            )
        found = None
        with ongoing.interruptible():
            if call.until is not None:
                found = await job.wait_for(call.until, since=since, timeout=most_seconds) is not None
            elif call.until_end:
                await job.wait(timeout=most_seconds)
                found = entry.over
            elif most_seconds:
                await job.output(since, limit=most, wait=most_seconds)
        piece = await job.output(since, limit=most)
        skipped = lost = 0
        if call.part is None and piece.total_bytes - since > most:
            skipped = piece.total_bytes - most - since
            lost = min(piece.omitted_bytes, skipped)
            since += skipped
            piece = await job.output(since, limit=most)
        # The remaining bytes may be an incomplete character or escape sequence, which is shown only once complete.
        follows = piece.offset < piece.total_bytes and bool((await job.output(piece.offset, limit=most)).data)
        entry.seen = max(entry.seen, piece.offset)
        entry.told = entry.over
        messages = [*sent, *([words.CUT_SHORT] if ongoing.cancelled else [])]
        if not ongoing.cancelled and (call.until is not None or (call.until_end and not found)):
            waited = time.monotonic() - began
            before = False
            if call.until is not None and not found and since:
                earlier = max(0, since - PIECE)
                before = await job.wait_for(call.until, since=earlier, timeout=0) is not None
            messages.append(words.awaited(call.said, found=found is True, waited=waited, before=before))
        waited = 0 if ongoing.cancelled else call.patience(0, self._context.limits)
        messages += job_words.read(
            entry,
            piece,
            since=since,
            skipped=skipped,
            lost=lost,
            waited=waited,
            shown_at_most=most,
            follows=follows,
        )
        messages += map(job_words.other, others)
        for other in others:
            other.told = other.over
        output = bounded(self._context, piece)
        if output.binary is not None and call.part is None:
            messages.insert(0, words.unshown(output))
            output = replace(output, text="")
        else:
            messages += job_words.shortened(output, limits.max_line)
        messages += words.waited_less(call.requested_wait, call.wait)
        return self._results.make(
            call,
            "cancelled" if ongoing.cancelled else "done",
            messages,
            [state_of(each.job) for each in (entry, *others)],
            output=output,
            offset=piece.offset,
            total_bytes=piece.total_bytes,
            found=found,
        )

    async def _part_of_job(self, call: JobCall, entry: LedgerEntry) -> JobResult:
        """Show a part of a job's kept output."""
        assert call.part is not None
        chunks, offset, lost = [], 0, 0
        while (piece := await entry.job.output(offset, limit=PIECE)).data:
            chunks.append(piece.data)
            offset = piece.offset
            lost += piece.omitted_bytes
        output, told = await asyncio.to_thread(
            select, chunks, call.part, self._context.env.limits, code_page=self._context.env.info.code_page
        )
        return self._part(call, output, told, entry, lost=lost)

    async def _stop(self, call: JobCall, entry: LedgerEntry) -> JobResult:
        job, before = entry.job, entry.over
        if not before:
            await job.stop()
        entry.told = True
        return self._results.make(call, "done", [job_words.stopped(entry, before=before)], [state_of(job)])

    async def _send(self, call: JobCall, entry: LedgerEntry, ongoing: Ongoing) -> JobResult:
        job = entry.job
        if call.keys:
            raise AnyshellError(f"job {job.id} has no terminal, and so no keys: send text")
        text = call.text + "\n" * call.enter
        if problem := text_problems(text, self._context.limits.max_stdin):
            return self._results.make(call, "invalid", [words.invalid(f"{problem}.")])
        if entry.over:
            raise AnyshellError(f"job {job.id} reads nothing more, since it {job_words.ended(job)}")
        if job.adopted:
            await job.send(b"")  # raises with the reason, before the approver is asked
        request = self._context.request(
            JobInputRequest,
            ongoing,
            text=job.command,
            directory=entry.directory,
            description=entry.description,
            job=job.id,
            stdin=text.encode(),
            end_of_input=call.end_of_input,
        )

        def result(status: JobCallStatus, message: str) -> JobResult:
            return self._results.make(call, status, [message], [state_of(job)])

        with ongoing.interruptible():
            decision = await self._context.decisions.decide(request, ongoing)
        if ongoing.cancelled:
            return result("cancelled", words.UNSENT)
        if isinstance(decision.answer, Refused):
            return result("refused", words.refused(decision.answer, "sent"))
        try:
            taken = await job.send(text, close=call.end_of_input)
        except SentInPart as error:
            return result("failed", job_words.sent_in_part(str(error)))
        sent = job_words.sent(job, len(text.encode()), end=call.end_of_input, taken=taken)
        if call.waits:
            return await self._read(call, [entry], ongoing, [sent])
        return result("done", sent)


def bounded(context: ToolContext, piece: JobOutput) -> Output:
    """Return a piece of a job's output as text, within the limits of a command's output."""
    limits, hidden = context.env.limits, context.hidden
    end = len(piece.data) if piece.utf8_bytes is None else piece.utf8_bytes
    utf8, other = hidden.data(piece.data[:end]), hidden.data(piece.data[end:])
    builder = OutputBuilder(
        **limits.parts._asdict(),
        code_page=context.env.info.code_page,
        utf8_bytes=len(utf8),
    )
    builder.feed(utf8 + other)
    return hidden.output(builder.finish())  # mask again: a code page spells a secret with other bytes
