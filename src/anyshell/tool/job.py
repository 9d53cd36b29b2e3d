"""The tool by which a model looks after what runs in the background."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .. import policy
from .._exceptions import AnyshellError
from .._types import ApprovalRequest, JobOutput, Output, Refused, exact
from ..jobs import SentInPart
from ..output import OutputBuilder
from . import job_words, words
from .definition import ToolDefinition, number, object_of, properties_of
from .job_params import KEYS, JobCall, JobParams, parse
from .params import InvalidParams
from .result import JobDetails, JobResult, JobState, blocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._environment import Environment
    from ..jobs import Job
    from .approvals import Approvals
    from .hiding import Hidden
    from .job_params import Action
    from .ledger import Entry, Ledger
    from .limits import ToolLimits
    from .result import JobCallStatus

_DESCRIPTION = (
    "Looks after the jobs that the tool shell has started in the background, or that its commands have left running. "
    "That a job has ended is said in the next result of either tool: never ask again and again. To wait for a job, "
    'give output with wait, up to {wait} seconds, and until "end".'
)


class JobTool:
    """Lists, reads, feeds and stops the jobs of one `ShellTool`, whose `ShellTool.job_tool` makes it.

    A model sees the jobs of its own calls alone. Whatever is sent to a job passes the approver, byte for byte; to
    read and to stop does not.
    """

    def __init__(
        self, env: Environment, ledger: Ledger, *, approvals: Approvals, limits: ToolLimits, hidden: Hidden
    ) -> None:
        self._env = env
        self._ledger = ledger
        self._approvals = approvals
        self._limits = limits
        self._hidden = hidden

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told: a name, a description, and a JSON schema with the limits in force."""
        properties = properties_of(JobParams, KEYS)
        properties["offset"]["minimum"] = 0
        properties["wait"] |= {"minimum": 0, "maximum": number(self._limits.max_wait)}
        return ToolDefinition(
            name="job",
            title="Look after background jobs",
            description=_DESCRIPTION.format(wait=exact(self._limits.max_wait)),
            parameters=object_of(properties, required=("action",)),
        )

    async def __call__(self, params: Mapping[str, object] | JobParams) -> JobResult:
        """Carry out one call.

        Args:
            params: As the model gave them, unchecked.

        Returns:
            What came of it. Wrong parameters, a refusal and a job that there is not are results.

        Raises:
            asyncio.CancelledError: The calling task was cancelled. The job goes on, or on being stopped.
        """
        try:
            call = parse(params, self._limits)
        except InvalidParams as error:
            return self._result(None, "invalid", [words.misunderstood(str(error))])
        try:
            match call.action:
                case "list":
                    entries = self._ledger.entries()
                    said = list(job_words.listed(entries))
                    for entry in entries[-job_words.LISTED :]:
                        entry.told = entry.over
                    return self._result("list", "done", said, entries[-job_words.LISTED :])
                case "output":
                    return await self._read(call, self._ledger.get(call.id))
                case "stop":
                    return await self._stop(self._ledger.get(call.id))
                case "send":
                    return await self._send(call, self._ledger.get(call.id))
        except AnyshellError as error:
            return self._result(call.action, "failed", [words.undone(str(error))])

    async def _read(self, call: JobCall, entry: Entry) -> JobResult:
        job, limits = entry.job, self._env.limits
        most = max(limits.head + limits.tail, 1)
        since = entry.seen if call.offset is None else call.offset
        if call.until_end:
            await job.wait(timeout=call.wait)
        total = (await job.output(limit=1)).total_bytes
        if since > total:
            problem = f"offset must be 0 to {total}, the bytes that job {job.id} has printed"
            return self._result("output", "failed", [words.undone(problem)], [entry])
        piece = await job.output(since, limit=most, wait=0 if call.until_end else call.wait)
        skipped = 0
        if call.offset is None and piece.total_bytes - since > most:
            skipped = piece.total_bytes - most - since
            since += skipped
            piece = await job.output(since, limit=most)
        # What is left of it may be the beginning of a character or of an escape sequence, which is shown when it is whole.
        follows = piece.offset < piece.total_bytes and bool((await job.output(piece.offset, limit=most)).data)
        entry.seen = max(entry.seen, piece.offset)
        entry.told = entry.over
        said = list(
            job_words.read(
                entry,
                piece,
                since=since,
                skipped=skipped,
                waited=call.wait,
                shown_at_most=most,
                follows=follows,
            )
        )
        output = self._bounded(piece)
        if output.truncated:
            said.append(job_words.shortened(output, limits.max_line))
        if call.requested_wait > call.wait:
            said.append(job_words.clamped(call.requested_wait, call.wait))
        return self._result(
            "output",
            "done",
            said,
            [entry],
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

    async def _send(self, call: JobCall, entry: Entry) -> JobResult:
        env, job = self._env, entry.job
        if entry.over or job.adopted:
            await job.send(b"")  # says why that cannot be, before anybody is asked
        request = ApprovalRequest(
            text=job.command,
            shell=env.shell,
            host=env.host,
            directory=entry.directory,
            stdin=call.data,
            end_of_input=call.end_of_input,
            job=job.id,
        )
        answer = await self._approvals.ask(replace(request, display=policy.display(request)))
        if isinstance(answer, Refused):
            return self._result("send", "refused", [words.refused(answer.reason, "sent")], [entry])
        try:
            taken = await job.send(call.data, close=call.end_of_input)
        except SentInPart as error:
            return self._result("send", "failed", [job_words.sent_in_part(str(error))], [entry])
        said = job_words.sent(job, len(call.data), end=call.end_of_input, taken=taken)
        return self._result("send", "done", [said], [entry])

    def _result(
        self,
        action: Action | None,
        status: JobCallStatus,
        said: list[str],
        entries: Sequence[Entry] = (),
        *,
        output: Output | None = None,
        offset: int | None = None,
        total_bytes: int | None = None,
    ) -> JobResult:
        said = self._hidden.texts([*said, *map(job_words.news, self._ledger.news())])
        return JobResult(
            is_error=status != "done",
            output="" if output is None else output.text,
            message=" ".join(said),
            text=words.text(output, said),
            display=tuple(blocks(output, said)),
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
