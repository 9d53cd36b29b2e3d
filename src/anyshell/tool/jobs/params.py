"""What a model says when it calls the job tool, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ..._types import exact
from ..params import InvalidParams, alike, held_by_a_float, listed, plain, too_long, validated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..limits import ToolLimits

LARGEST_OFFSET = 2**63 - 1
"""Bytes of a job's output that can be skipped: more than any job prints."""

MOST_IDS = 16
"""Jobs that one call waits for."""

Action = Literal["list", "output", "stop", "send"]


class JobParams(BaseModel):
    """The parameters of one call. Nothing is converted, and an unknown one is an error.

    Every parameter but the action may be ``None``, which is as if it were left out.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True
    )

    action: Action = Field(
        description=(
            "list: say which jobs there are. output: show what a job has printed, and whether it has ended. stop: "
            "end a job, with everything that it started. send: give a job something to read."
        )
    )
    id: str | None = Field(
        default=None, description="Of output, stop and send: the job, such as j1. Results name it."
    )
    ids: list[str] | None = Field(
        default=None,
        description=(
            "Of output with wait, instead of id: several jobs. The call returns when the first of them has something new, "
            "or has ended, and shows the output of that one."
        ),
    )
    offset: int | None = Field(
        default=None,
        description=(
            "Of output: bytes to skip from the start. Without it, what you have not seen is shown, or the end of "
            "that when it is much."
        ),
    )
    wait: float | None = Field(
        default=None,
        description="Of output: seconds to wait at most, when there is nothing new. Without it, none.",
    )
    until: Literal["output", "end"] | None = Field(
        default=None,
        description=(
            "Of output with wait: what is waited for, something new or the end of the job. Without it: output."
        ),
    )
    text: str | None = Field(
        default=None,
        repr=False,
        description="Of send: what the job reads, exactly. A line needs its line feed.",
    )
    end_of_input: bool | None = Field(
        default=None, description="Of send: end the job's input after the text, or without one."
    )

    @field_validator("wait", mode="before")
    @classmethod
    def _any_number(cls, value: object) -> object:
        return held_by_a_float(value)


KEYS = tuple(JobParams.model_fields)

_OF: Mapping[str, tuple[str, ...]] = {
    "id": ("output", "stop", "send"),
    "ids": ("output",),
    "offset": ("output",),
    "wait": ("output",),
    "until": ("output",),
    "text": ("send",),
    "end_of_input": ("send",),
}
"""Which parameter is one of which actions."""

# What models say for want of knowing better; in small letters, nothing between.
_ALSO_CALLED = {
    "job": "id",
    "jobid": "id",
    "jobs": "ids",
    "jobids": "ids",
    "since": "offset",
    "timeout": "wait",
    "input": "text",
    "stdin": "text",
    "data": "text",
    "eof": "end_of_input",
    "close": "end_of_input",
    "command": "action",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCall:
    """A call that can be carried out.

    Attributes:
        action: What to do.
        ids: The jobs, each once; several where any of them is waited for, none for ``list``.
        offset: The byte of its output to begin with; ``None`` is what was not seen yet.
        wait: Seconds to wait at most.
        requested_wait: Seconds that were asked for.
        until_end: Whether the end is waited for, rather than output.
        data: What is sent.
        end_of_input: Whether its input ends then.
    """

    action: Action
    ids: tuple[str, ...]
    offset: int | None
    wait: float
    requested_wait: float
    until_end: bool
    data: bytes = field(repr=False)
    end_of_input: bool


def parse(params: Mapping[str, object] | JobParams, limits: ToolLimits) -> JobCall:
    """Check what a model says, against the schema and the limits.

    Raises:
        InvalidParams: With everything that is wrong, for the model to read.
    """
    asked = params if isinstance(params, JobParams) else validated(params, JobParams, KEYS, _meant)
    problems = list(_problems(asked, limits))
    if problems:
        raise InvalidParams(f"{listed(problems, len(problems))}.")
    wanted = asked.wait or 0.0
    return JobCall(
        action=asked.action,
        ids=tuple(dict.fromkeys(asked.ids or ([asked.id] if asked.id else ()))),
        offset=asked.offset,
        wait=min(wanted, limits.max_wait),
        requested_wait=wanted,
        until_end=asked.until == "end",
        data=(asked.text or "").encode(),
        end_of_input=asked.end_of_input is True,
    )


def _ids_problems(asked: JobParams, ids: list[str]) -> Iterator[str]:
    if asked.id is not None:
        yield "id and ids exclude each other: give all in ids"
    if not all(ids) or not ids:
        yield "ids must name jobs, as results name them or list says them"
    if len(ids) > MOST_IDS:
        yield f"ids has {len(ids):,} jobs, and at most {MOST_IDS} can be waited for"
    if asked.offset is not None:
        yield "offset goes with id alone: of several jobs, what you have not seen is shown"
    if not asked.wait:
        yield "ids needs wait, the seconds to wait at most"


def _meant(name: str) -> str:
    key = _ALSO_CALLED.get(plain(name))
    return alike(name, KEYS) if key is None else f' (did you mean "{key}"?)'


def _problems(asked: JobParams, limits: ToolLimits) -> Iterator[str]:
    for name, actions in _OF.items():
        if getattr(asked, name) is not None and asked.action not in actions:
            yield f"{name} is a parameter of {' and '.join(actions)}, not of {asked.action}"
    if asked.ids is not None and asked.action == "output":
        yield from _ids_problems(asked, asked.ids)
    elif asked.action != "list" and not asked.id:
        yield f"id is missing: {asked.action} needs that of a job, as results name it or list says it"
    if asked.offset is not None and not 0 <= asked.offset <= LARGEST_OFFSET:
        yield f"offset must be 0 to {LARGEST_OFFSET}"
    if asked.wait is not None and asked.wait < 0:
        yield "wait must be 0 seconds or more"
    elif asked.wait is not None and limits.beyond == "refuse" and asked.wait > limits.max_wait:
        yield f"wait is {exact(asked.wait)} s: it must be at most {exact(limits.max_wait)} s"
    if asked.until is not None and not asked.wait:
        yield "until needs wait, the seconds to wait at most"
    if asked.action == "send":
        if not asked.text and not asked.end_of_input:
            yield "there is nothing to send: give text, or end_of_input"
        yield from too_long("text", asked.text or "", limits.max_stdin)
