"""The tool by which a model looks after what runs in the background."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from ..._exceptions import AnyshellError
from ..._types import JobInputRequest, JobOutput, Output, Refused, exact
from ...jobs import SentInPart
from ...output import OutputBuilder
from .. import words
from ..definition import ToolDefinition, number, object_of, properties_of
from ..params import InvalidParams
from ..result import JobDetails, JobResult, JobState, blocks
from . import words as job_words
from .params import KEYS, MOST_IDS, JobCall, JobParams, parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...jobs import Job
    from ..calls import Ongoing
    from ..context import ToolContext
    from ..result import JobCallStatus
    from .ledger import Entry, Ledger
    from .params import Action

_DESCRIPTION = (
    "Looks after the jobs that the tool shell has started in the background, or that its commands have left running. "
    "That a job has ended is said in the next result of either tool: never ask again and again. To wait for a job, "
    'give output with wait, up to {wait} seconds, and until "end"; for whichever of several ends first, give ids.'
)


class JobTool:
    """Lists, reads, feeds and stops the jobs of one `ShellTool`, whose `ShellTool.job_tool` makes it.

    A model sees the jobs of its own calls alone. Whatever is sent to a job passes the approver, byte for byte; to
    read and to stop does not.
    """

    def __init__(self, context: ToolContext, ledger: Ledger) -> None:
        self._context = context
        self._env = context.env
        self._limits = context.limits
        self._hidden = context.hidden
        self._ledger = ledger

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told: a name, a description, and a JSON schema with the limits in force."""
        properties = properties_of(JobParams, KEYS)
        properties["offset"]["minimum"] = 0
        properties["ids"] |= {"items": {"type": "string"}, "maxItems": MOST_IDS}
        properties["wait"] |= {"minimum": 0, "maximum": number(self._limits.max_wait)}
        return ToolDefinition(
            name="job",
            title="Look after background jobs",
            description=_DESCRIPTION.format(wait=exact(self._limits.max_wait)),
            parameters=object_of(properties, required=("action",)),
        )

    async def __call__(
        self, params: Mapping[str, object] | JobParams, *, call_id: str | None = None
    ) -> JobResult:
        """Carry out one call.

        Args:
            params: As the model gave them, unchecked.
            call_id: What `ShellTool.cancel` takes, as for that tool. The call then waits no longer for a job or the
                approver, with the result ``cancelled``; the job goes on. What is being sent or stopped is done first.

        Returns:
            What came of it. Wrong parameters, a refusal and a job that there is not are results.

        Raises:
            InvalidCommand: `call_id` is empty, or that of another call under way.
            asyncio.CancelledError: The calling task was cancelled. The job goes on, or on being stopped.
        """
        with self._context.calls.begin(call_id) as ongoing:
            result = await self._call(params, ongoing)
        return result.model_copy(
            update={"details": result.details.model_copy(update={"call_id": ongoing.id})}
        )

    async def _call(self, params: Mapping[str, object] | JobParams, ongoing: Ongoing) -> JobResult:
        try:
            call = parse(params, self._limits)
        except InvalidParams as error:
            return self._result(None, "invalid", [words.misunderstood(str(error))])
        try:
            match call.action:
                case "list":
                    entries = self._ledger.entries()
                    messages = list(job_words.listed(entries))
                    for entry in entries[-job_words.LISTED :]:
                        entry.told = entry.over
                    return self._result("list", "done", messages, entries[-job_words.LISTED :])
                case "output":
                    entries = [self._ledger.get(job_id) for job_id in call.ids]
                    return await self._read(call, entries, ongoing)
                case "stop":
                    return await self._stop(self._ledger.get(call.ids[0]))
                case "send":
                    return await self._send(call, self._ledger.get(call.ids[0]), ongoing)
        except AnyshellError as error:
            return self._result(call.action, "failed", [words.undone(str(error))])

    async def _first(self, call: JobCall, entries: Sequence[Entry], ongoing: Ongoing) -> Entry:
        """Wait for the first of several jobs that has something to tell. At most so long; then the first that runs."""

        def tells(entry: Entry) -> bool:
            return (entry.over and not entry.told) or (not call.until_end and entry.unseen > 0)

        async def comes(entry: Entry) -> None:
            with contextlib.suppress(Exception):  # how it ended is told below
                if call.until_end:
                    await entry.job.wait()
                else:
                    await entry.job.output(entry.seen, wait=call.wait)

        running = [entry for entry in entries if not entry.over]
        if running and not any(map(tells, entries)):
            tasks = [asyncio.ensure_future(comes(entry)) for entry in running]
            try:
                with ongoing.interruptible():
                    await asyncio.wait(tasks, timeout=call.wait, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
        return next((entry for entry in entries if tells(entry)), (*running, *entries)[0])

    async def _read(self, call: JobCall, entries: Sequence[Entry], ongoing: Ongoing) -> JobResult:
        entry, waited = entries[0], call.wait
        if len(entries) > 1:
            entry = await self._first(call, entries, ongoing)
            call = replace(call, wait=0)
        others = [other for other in entries if other is not entry]
        job, limits = entry.job, self._env.limits
        most = max(limits.head + limits.tail, 1)
        since = entry.seen if call.offset is None else call.offset
        if call.until_end:
            with ongoing.interruptible():
                await job.wait(timeout=call.wait)
        if since > job.printed:
            problem = f"offset must be 0 to {job.printed}, the bytes that job {job.id} has printed"
            return self._result("output", "failed", [words.undone(problem)], [entry])
        if not call.until_end:
            with ongoing.interruptible():
                await job.output(since, limit=most, wait=call.wait)
        piece = await job.output(since, limit=most)
        skipped = 0
        if call.offset is None and piece.total_bytes - since > most:
            skipped = piece.total_bytes - most - since
            since += skipped
            piece = await job.output(since, limit=most)
        # What is left of it may be the beginning of a character or of an escape sequence, which is shown when it is whole.
        follows = piece.offset < piece.total_bytes and bool((await job.output(piece.offset, limit=most)).data)
        entry.seen = max(entry.seen, piece.offset)
        entry.told = entry.over
        messages = [words.CUT_SHORT] if ongoing.cancelled else []
        messages += job_words.read(
            entry,
            piece,
            since=since,
            skipped=skipped,
            waited=0 if ongoing.cancelled else waited,
            shown_at_most=most,
            follows=follows,
        )
        messages += map(job_words.other, others)
        for other in others:
            other.told = other.over
        output = self._bounded(piece)
        if output.truncated:
            messages.append(job_words.shortened(output, limits.max_line))
        if call.requested_wait > waited:
            messages.append(job_words.clamped(call.requested_wait, waited))
        return self._result(
            "output",
            "cancelled" if ongoing.cancelled else "done",
            messages,
            [entry, *others],
            output=output,
            offset=piece.offset,
            total_bytes=piece.total_bytes,
        )

    def _bounded(self, piece: JobOutput) -> Output:
        """Make text of a piece within the same limits as that of a command."""
        limits = self._env.limits
        end = len(piece.data) if piece.utf8_bytes is None else piece.utf8_bytes
        utf8, other = self._hidden.data(piece.data[:end]), self._hidden.data(piece.data[end:])
        builder = OutputBuilder(
            head=limits.head,
            tail=limits.tail,
            max_line=limits.max_line,
            code_page=self._env.info.code_page,
            utf8_bytes=len(utf8),
        )
        builder.feed(utf8 + other)
        return self._hidden.output(builder.finish())  # again: in a code page it is spelt otherwise

    async def _stop(self, entry: Entry) -> JobResult:
        job, before = entry.job, entry.over
        if not before:
            await job.stop()
        entry.told = True
        return self._result("stop", "done", [job_words.stopped(job, before=before)], [entry])

    async def _send(self, call: JobCall, entry: Entry, ongoing: Ongoing) -> JobResult:
        env, job = self._env, entry.job
        if entry.over or job.adopted:
            await job.send(b"")  # says why that cannot be, before the approver is asked
        request = JobInputRequest(
            text=job.command,
            shell=env.shell,
            host=env.host,
            directory=entry.directory,
            prefix=env.prefix,
            snapshot=env.snapshot,
            job=job.id,
            stdin=call.data,
            end_of_input=call.end_of_input,
            description=entry.description,
            call_id=ongoing.id,
        )
        with ongoing.interruptible():
            answer = await self._context.approvals.ask(request)
        if ongoing.cancelled:
            return self._result("send", "cancelled", [job_words.UNSENT], [entry])
        if isinstance(answer, Refused):
            return self._result("send", "refused", [words.refused(answer.reason, "sent")], [entry])
        try:
            taken = await job.send(call.data, close=call.end_of_input)
        except SentInPart as error:
            return self._result("send", "failed", [job_words.sent_in_part(str(error))], [entry])
        message = job_words.sent(job, len(call.data), end=call.end_of_input, taken=taken)
        return self._result("send", "done", [message], [entry])

    def _result(
        self,
        action: Action | None,
        status: JobCallStatus,
        messages: list[str],
        entries: Sequence[Entry] = (),
        *,
        output: Output | None = None,
        offset: int | None = None,
        total_bytes: int | None = None,
    ) -> JobResult:
        messages = self._hidden.texts([*messages, *map(job_words.news, self._ledger.news())])
        return JobResult(
            is_error=status != "done",
            output="" if output is None else output.text,
            message=" ".join(messages),
            text=words.text(output, messages),
            display=tuple(blocks(output, messages)),
            details=JobDetails(
                status=status,
                action=action,
                jobs=tuple(self._hidden.facts(_state(entry.job)) for entry in entries),
                offset=offset,
                total_bytes=total_bytes,
            ),
        )


def _state(job: Job) -> JobState:
    return JobState(
        id=job.id,
        command=job_words.command(job),
        status=job.status,
        exit_code=job.exit_code,
        pid=job.pid,
        adopted=job.adopted,
        seconds=job_words.seconds(job),
    )
