"""Approval: the asked party, the displayed request, and valid answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
import unicodedata
from dataclasses import fields, replace
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyshell import ApprovalRequest, Approved, Refused, Terminal, approve_all, ask_on_terminal, deny_all
from anyshell._exceptions import AnyshellError
from anyshell._types.parsed import ParsedCommand
from anyshell._types.verdict import Access, CommandVerdict, Reason, Verdict
from anyshell.abc import ShellInfo
from anyshell.policy import ask, display, folded, printable, shortened, visible
from anyshell.policy.approval import asking
from anyshell.types import CommandRequest, JobInputRequest, SecretInputRequest, TerminalInputRequest

BASH = ShellInfo("bash", "/bin/bash", "5.2")
REQUEST = CommandRequest(text="make test", shell=BASH, host="local", directory="/src")
JOB_INPUT = JobInputRequest(text="bash", shell=BASH, host="local", directory="/src", job="j1", stdin=b"ls\n")
TYPED = TerminalInputRequest(text="bash", shell=BASH, host="local", directory="/src", terminal="t1")
SECRET = SecretInputRequest(text="bash", shell=BASH, host="local", directory="/src", terminal="t1")
EVERY_TYPE: list[ApprovalRequest] = [REQUEST, JOB_INPUT, TYPED, SECRET]


async def answer_of(approver: object, timeout: float = 20) -> Approved | Refused:
    return await ask(approver, REQUEST, timeout=timeout)  # type: ignore[arg-type]  # bad input is the point


@pytest.mark.anyio
@pytest.mark.parametrize(
    "answer", [Approved(), Approved(always=True), Refused(), Refused("no"), Refused("no", by="policy")]
)
async def test_an_answer_is_passed_on(answer: Approved | Refused) -> None:
    async def approver(request: ApprovalRequest) -> Approved | Refused:
        assert request is REQUEST
        return answer

    assert await answer_of(approver) == answer


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [None, True, 1, "yes", "approved", Approved, object()])
async def test_invalid_answer_is_a_refusal(answer: object) -> None:
    async def approver(request: ApprovalRequest) -> object:
        return answer

    assert await answer_of(approver) == Refused("the approver gave no valid answer", by="failure")


@pytest.mark.anyio
async def test_raising_approver_refuses_without_leaking_its_message() -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        raise RuntimeError("the token is hunter2")

    assert await answer_of(approver) == Refused("the approver failed (RuntimeError)", by="failure")


@pytest.mark.anyio
@pytest.mark.parametrize("approver", [None, lambda: None])
async def test_invalid_approver_counts_as_a_refusal(approver: object) -> None:
    assert await answer_of(approver) == Refused("the approver failed (TypeError)", by="failure")


@pytest.mark.anyio
async def test_self_cancelling_approver_refuses() -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        raise asyncio.CancelledError

    assert isinstance(await answer_of(approver), Refused)


@pytest.mark.anyio
async def test_unanswered_request_is_refused_after_the_timeout() -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        await asyncio.Event().wait()
        return Approved()

    assert await answer_of(approver, 0.05) == Refused("no answer within 0.05 s", by="unanswered")


@pytest.mark.anyio
async def test_late_answer_is_a_refusal() -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Approved()

    assert isinstance(await answer_of(approver, 0.05), Refused)


@pytest.mark.anyio
async def test_late_answer_of_a_loop_blocking_approver_is_a_refusal() -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        time.sleep(0.2)  # longer than the timeout
        return Approved()

    assert await answer_of(approver, 0.1) == Refused("no answer within 0.1 s", by="unanswered")


@pytest.mark.anyio
@pytest.mark.parametrize("reason", [None, 3, b"no", ["no"]])
async def test_reason_other_than_text_is_dropped(reason: Any) -> None:
    async def approver(request: ApprovalRequest) -> Refused:
        return Refused(reason)

    assert await answer_of(approver) == Refused("")


@pytest.mark.anyio
async def test_refusal_by_an_unknown_party_counts_as_the_users() -> None:
    async def approver(request: ApprovalRequest) -> Refused:
        return Refused("no", by="the boss")  # type: ignore[arg-type]  # bad input is the point

    assert await answer_of(approver) == Refused("no", by="user")


@pytest.mark.anyio
@pytest.mark.parametrize("always", ["no", 1, None])
async def test_only_true_counts_as_always(always: Any) -> None:
    async def approver(request: ApprovalRequest) -> Approved:
        return Approved(always=always)

    assert await answer_of(approver) == Approved(always=False)


@pytest.mark.anyio
async def test_approver_ignoring_cancellation_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "CANCEL_BOUND", 0.05)
    end = asyncio.Event()
    ended = asyncio.Event()

    async def approver(request: ApprovalRequest) -> Approved:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        raise RuntimeError

    assert isinstance(await answer_of(approver, 0.05), Refused)
    end.set()
    await ended.wait()


@pytest.mark.anyio
async def test_cancelled_question_cancels_the_approver() -> None:
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def approver(request: ApprovalRequest) -> Approved:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Approved()

    task = asyncio.ensure_future(answer_of(approver))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled.is_set()


@pytest.mark.anyio
async def test_built_in_approvers_answer_a_question() -> None:
    assert await answer_of(approve_all) == Approved()
    assert isinstance(await answer_of(deny_all), Refused)


@pytest.mark.anyio
async def test_an_approver_may_ask_another() -> None:
    async def approver(request: ApprovalRequest) -> Approved | Refused:
        return await deny_all(request)

    assert isinstance(await answer_of(approver), Refused)


@pytest.mark.anyio
@pytest.mark.parametrize("approver", [approve_all, deny_all, ask_on_terminal])
async def test_direct_call_of_a_built_in_approver_is_an_error(approver: object) -> None:
    with pytest.raises(AnyshellError, match="pass it as approver="):
        await approver(REQUEST)  # type: ignore[operator]  # bad input is the point


@pytest.mark.anyio
async def test_a_task_that_outlives_its_question_cannot_approve() -> None:
    answered = asyncio.Event()
    later: list[asyncio.Task[Approved | Refused]] = []

    async def wait_and_approve() -> Approved | Refused:
        await answered.wait()
        return await approve_all(REQUEST)

    async def approver(request: ApprovalRequest) -> Refused:
        later.append(asyncio.ensure_future(wait_and_approve()))
        return Refused()

    await answer_of(approver)
    answered.set()
    with pytest.raises(AnyshellError):
        await later[0]


# Display of a request.

HIDDEN = [
    "\x00", "\x07", "\x08", "\t", "\r", "\x1b", "\x7f", "\x85", "\x9b", "\xa0", "\xad", "\u034f", "\u061c", "\u115f",
    "\u180e", "\u2003", "\u200b", "\u200d", "\u200e", "\u2028", "\u2029", "\u202e", "\u2066", "\u2800", "\u3164",
    "\u2d7f", "\u303f", "\ufffc", "\U0001d159", "\U00016fe4", "\U00013441", "\U0001107f", "\U0001d173",
    "\ud800", "\udc80", "\ue000", "\ufe0f", "\ufeff", "\uffa0", "\uffff", "\U000e0041", "\U000e0100", "\U0010ffff",
]  # fmt: skip


@pytest.mark.parametrize("char", HIDDEN, ids=lambda char: f"{ord(char):04x}")
def test_invisible_characters_are_shown_by_number(char: str) -> None:
    for field in ("text", "original", "directory", "host", "description"):
        shown = display(replace(REQUEST, **{field: f"rm{char}x"}))  # type: ignore[arg-type]  # bad input is the point
        assert char not in shown
        assert f"{ord(char):x}" in shown
    shown = display(replace(REQUEST, env=(("NAME", f"a{char}b"),), shell=ShellInfo("bash", f"/bin/{char}")))
    assert char not in shown


def test_hidden_characters_are_shown_as_escapes() -> None:
    assert visible("\x1b[2K\u202e\U000e0041\n") == r"\x1b[2K\u202e\U000e0041\x0a"


@pytest.mark.parametrize("text", ["echo 'ä ö ü' — “日本語” 🙂", r"grep '\bfoo\n' C:\Users\me", "a  b"])
def test_visible_text_is_shown_unchanged(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize("text", ["ä", "a\u0308", "กี่", "नमस्ते", "ש\u05b8\u05c1", "한국"])
def test_combining_mark_on_a_letter_is_unchanged(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize("text", [" \u0338", "\u0301", "1\u0336", "-\u0335", "a" + "\u0300" * 5, "a \u20dd"])
def test_misplaced_combining_mark_is_shown_by_its_number(text: str) -> None:
    shown = visible(text)
    assert not [char for char in shown if unicodedata.category(char).startswith("M")]
    assert f"{ord(text[-1]):x}" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("p\u0430ypal", r"p\u0430ypal"),  # Cyrillic
        ("/\u0435t\u0441/passwd", r"/\u0435t\u0441/passwd"),
        ("\u03bfpen", r"\u03bfpen"),  # Greek
        ("l\u0561s", r"l\u0561s"),  # Armenian
        ("\uff52\uff4d -rf", r"\uff52\uff4d -rf"),  # full width
        ("\U0001d42b\U0001d426", r"\U0001d42b\U0001d426"),  # mathematical letters
        ("\u212aelvin", r"\u212aelvin"),  # a symbol
        ("\u0261it", r"\u0261it"),  # phonetic letters
        ("rm \u2013rf", r"rm \u2013rf"),
        ("rm \u2212rf", r"rm \u2212rf"),
        ("a\u2215b a\u2044b", r"a\u2215b a\u2044b"),
        ("x\u037e y", r"x\u037e y"),
    ],
)
def test_confusable_letter_is_shown_by_its_number(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert f"  | {shown}\n" in display(replace(REQUEST, text=text))


@pytest.mark.parametrize(
    "text",
    [
        "Документы/report.txt тест_file",
        "αβγ 日本語 修复bug Tシャツ",
        "naïve \u0131\u015f\u0131k Straße",
        "a \u2013 b — c",
        "x² ½ µ",
        "“a” \u2018b\u2019",
    ],
)
def test_single_script_words_are_unchanged(text: str) -> None:
    assert visible(text) == text


def test_a_long_run_of_spaces_is_shown_by_its_length() -> None:
    text = "ls" + " " * 74 + "; rm -rf /" + " " * 8 + "x"
    request = replace(REQUEST, text=text, directory="/a" + " " * 9 + "b", env=(("A", " " * 200),))
    shown = display(request)
    assert r"  | ls\x20{74}; rm -rf /        x" in shown
    assert r"Directory: /a\x20{9}b" in shown
    assert r"  | A=\x20{200}" in shown
    assert r"\x5cx20{74}" in display(replace(REQUEST, text=r"ls\x20{74}"))


@given(st.text(alphabet=" \\x20{9}a"), st.text(alphabet=" \\x20{9}a"))
def test_displayed_run_of_spaces_is_unambiguous(one: str, other: str) -> None:
    shown = [display(replace(REQUEST, text=text * 3)) for text in (one, other)]
    assert (shown[0] == shown[1]) == (one == other)


RIGHT_TO_LEFT = "  ! the line above holds right-to-left letters: its order on a screen may not be its order"


@pytest.mark.parametrize("letters", ["אב", "عربي", "\u0661"])
def test_right_to_left_line_is_marked(letters: str) -> None:
    request = replace(REQUEST, text=f"ls\nrm {letters} /\nls", env=(("A", letters),), host=letters)
    lines = display(request).splitlines()
    marked = [lines[at - 1] for at, line in enumerate(lines) if line == RIGHT_TO_LEFT]
    assert marked == [f"  | rm {letters} /", f"Host: {letters}", f"  | A={letters}"]
    assert RIGHT_TO_LEFT not in display(replace(REQUEST, text=f"ls\n{RIGHT_TO_LEFT}")).splitlines()


def test_printable_output_keeps_text_and_escapes_controls() -> None:
    harmless = "ls  \ta\n\u00e4 \u65e5 \u26a0\ufe0f \xa0 \ue0b0 \\x1b " + "עברית"
    assert printable(harmless) == harmless
    assert printable("a\x1b[2J\u202e\u2066\u2028\x9b\ud800\r") == (
        r"a\x1b[2J\u202e\u2066\u2028\x9b\ud800\x0d"
    )


# Folding for a terminal.


@given(st.text(), st.integers(1, 40))
def test_no_row_of_a_folded_request_can_pass_for_a_field(text: str, width: int) -> None:
    lines = display(replace(REQUEST, text=text, directory=f"/{text}")).split("\n")
    rows = folded("\n".join(lines), width).split("\n")
    unfolded: list[str] = []
    for row in rows:
        assert len(row) < max(width, 7)
        if row.startswith("  : "):
            unfolded[-1] += row[4:]
        else:
            unfolded.append(row)
    assert unfolded == lines


def test_wide_letters_take_two_columns_of_a_row() -> None:
    assert folded("日" * 10, 9) == "日日日日\n  : 日日\n  : 日日\n  : 日日"


@given(st.text(), st.text())
def test_different_texts_look_different(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)


@given(st.text(alphabet="\\x1bu202e\x1b\u202e"), st.text(alphabet="\\x1bu202e\x1b\u202e"))
def test_a_text_cannot_pass_for_an_escape(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)


@given(st.text(alphabet=st.characters()))
def test_shown_text_has_no_hidden_characters(text: str) -> None:
    assert not {unicodedata.category(char) for char in visible(text)} & {
        "Cc",
        "Cf",
        "Cs",
        "Co",
        "Cn",
        "Zl",
        "Zp",
    }


def test_request_shows_all_deciding_fields() -> None:
    request = CommandRequest(
        text="make test\nmake install",
        original="cd sub && make test\nmake install",
        shell=BASH,
        host="build-7",
        directory="/src/sub",
        env=(("CI", "1"), ("TEXT", "two\nlines")),
        stdin=b"yes\n\xff",
        timeout=1e6,
        description="Build and install",
    )
    assert display(request) == "\n".join(
        [
            "Command:",
            "  | make test",
            "  | make install",
            "Asked for as:",
            "  | cd sub && make test",
            "  | make install",
            "Directory: /src/sub",
            "Shell: bash 5.2 (/bin/bash)",
            "Host: build-7",
            "Timeout: 1000000 s",
            "Variables:",
            "  | CI=1",
            r"  | TEXT=two\x0alines",
            "Input: 5 bytes, SHA-256 490ffdab9f990bd4…",
            "  | yes",
            r"  | \udcff",
            "Described by the model as: Build and install",
        ]
    )


def test_command_request_shows_directory_shell_and_session() -> None:
    shown = display(replace(REQUEST, session=True, fresh=True, prefix="nice", snapshot="/s")).splitlines()
    assert shown[2:] == [
        "Directory: /src",
        "Shell: bash 5.2 (/bin/bash)",
        "Run by: nice",
        "Starts from the user's own set-up: /s",
        "Host: local",
        "Session: in a fresh shell",
    ]
    assert display(replace(REQUEST, background=True)).splitlines()[-3:] == [
        "Background: goes on as a job",
        "Timeout: none",
        "Input: what will be sent to the job, if that is approved then",
    ]
    assert display(replace(REQUEST, size=Terminal())).splitlines()[-3:] == [
        "Terminal: 80 columns, 24 rows, xterm-256color",
        "Timeout: none",
        "Input: what will be typed on the terminal, if that is approved then",
    ]


RUNS = ["  | bash", "Directory: /src", "Shell: bash 5.2 (/bin/bash)", "Host: local"]


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        (
            JOB_INPUT,
            ["Send to the running job j1: 3 bytes", "  | ls", "  | ", "Command of the job:", *RUNS],
        ),
        (
            replace(JOB_INPUT, stdin=b"", end_of_input=True),
            [
                "Send to the running job j1: 0 bytes, and then the end of its input",
                "  | ",
                "Command of the job:",
                *RUNS,
            ],
        ),
        (
            replace(TYPED, typed="ls\t", keys=("Enter",), program="bash", prompt="$"),
            [
                "Type on the running terminal t1:",
                "  | ls",
                "  Keys: Tab",
                "  Keys: Enter",
                "Program that reads it: bash",
                "Line of the cursor: $",
                "Command of the terminal:",
                *RUNS,
            ],
        ),
        (
            replace(SECRET, prompt="Password:", description="Log in"),
            [
                "Type on the running terminal t1:",
                "  Secret: asked for elsewhere, and not shown; then Enter",
                "Program that reads it: not known",
                "Line of the cursor: Password:",
                "Command of the terminal:",
                *RUNS,
                "Described by the model as: Log in",
            ],
        ),
    ],
)
def test_input_is_shown_before_the_command_that_reads_it(asked: ApprovalRequest, lines: list[str]) -> None:
    assert display(asked).split("\n") == lines


@pytest.mark.parametrize("one", EVERY_TYPE)
def test_requests_of_two_types_are_never_equal(one: ApprovalRequest) -> None:
    names = ("text", "shell", "host", "directory", "prefix", "snapshot")
    for other in EVERY_TYPE:
        same: dict[str, Any] = {name: getattr(one, name) for name in names}
        assert (replace(other, **same) == one) is (type(other) is type(one))
    assert replace(one, description="x", display="y", call_id="z") == one
    assert replace(one, prefix="nice") != one


def test_a_request_has_the_fields_of_its_type_alone() -> None:
    common, *others = ({field.name for field in fields(request)} for request in EVERY_TYPE)
    for names in others:
        common &= names
    assert common == {
        *("text", "shell", "host", "directory", "prefix", "snapshot", "description", "display"),
        *("call_id", "tool", "arguments"),
    }
    own = {type(request): {field.name for field in fields(request)} - common for request in EVERY_TYPE}
    typing = {"terminal", "program", "prompt"}
    assert own == {
        CommandRequest: {
            *("env", "stdin", "timeout", "original", "session", "fresh", "restart", "background", "size"),
            *("verdict", "rules", "effects", "also_write", "also_read", "protected", "hidden"),
        },
        JobInputRequest: {"job", "stdin", "end_of_input"},
        TerminalInputRequest: {*typing, "typed", "keys"},
        SecretInputRequest: typing,
    }
    for request in EVERY_TYPE:
        assert isinstance(request, ApprovalRequest)
        assert not hasattr(request, "__dict__")
        assert type(request).__match_args__ == ()


def test_request_repr_hides_possible_secrets() -> None:
    for request in (
        replace(REQUEST, env=(("A", "hunter2"),), stdin=b"hunter2", display="hunter2"),
        replace(JOB_INPUT, stdin=b"hunter2", display="hunter2"),
        replace(TYPED, typed="hunter2", keys=("hunter2",), prompt="hunter2", display="hunter2"),
        replace(SECRET, prompt="hunter2", display="hunter2"),
    ):
        assert "hunter2" not in repr(request)


def test_a_command_cannot_fake_another_field() -> None:
    request = replace(REQUEST, text="rm -rf /\nDirectory: /tmp\r\nHost: sandbox\u2028Shell: none")
    lines = display(request).splitlines()
    assert [line for line in lines if line.startswith(("Directory", "Host", "Shell"))] == [
        "Directory: /src",
        "Shell: bash 5.2 (/bin/bash)",
        "Host: local",
    ]


def test_a_long_command_is_shown_whole() -> None:
    text = "echo " + "x" * 1_000_000 + "; rm -rf /"
    assert text in display(replace(REQUEST, text=text))


def verdict_of(text: str, program: str = "rm", **access: Any) -> Verdict:
    command = ParsedCommand(program, (), (), (), (), (0, len(program)))
    reason = Reason(f"{program} deletes /etc\nHost: safe", "ask", "user.toml:3: etc", (3, 7))
    each = CommandVerdict(command, "ask", Access(**access), (reason,))
    return Verdict("ask", (reason,), (each,), understood=True)


def test_request_shows_policy_reasons_and_touched_paths() -> None:
    verdict = verdict_of(
        "rm /etc x",
        reads=("/a", "/b\u202e"),
        writes=("/w",),
        deletes=("/etc",),
        network=("*", "example.org"),
        privilege=True,
    )
    unknown = replace(verdict.commands[0].command, unknown=("eval runs a text that is not literal",))
    verdict = replace(verdict, commands=(replace(verdict.commands[0], command=unknown),), understood=False)
    lines = display(replace(REQUEST, text="rm /etc x", verdict=verdict)).splitlines()
    assert lines[1:12] == [
        "  | rm /etc x",
        "Policy: ask",
        r"  - rm deletes /etc\x0aHost: safe [user.toml:3: etc]",
        "  | /etc",
        r"Reads: /a, /b\u202e",
        "Writes: /w",
        "Deletes: /etc",
        "Network: hosts that its words do not name, example.org",
        "Privilege: runs as another user",
        "Unknown: eval runs a text that is not literal",
        "Directory: /src",
    ]


def test_verdict_shown_in_a_request_is_bounded() -> None:
    verdict = verdict_of("rm", reads=tuple(f"/{count}" for count in range(50)), deletes=("/" + "x" * 1000,))
    shown = display(replace(REQUEST, verdict=replace(verdict, reasons=verdict.reasons * 50)))
    assert shown.count("  - rm deletes") == 20
    assert "  … 30 more reasons" in shown
    assert "/19 and 30 more\n" in shown
    assert f"Deletes: /{'x' * 99} … {'x' * 100}\n" in shown


def test_verdict_is_outside_request_equality_and_repr() -> None:
    assert replace(REQUEST, verdict=verdict_of("rm")) == REQUEST
    assert "verdict" not in repr(replace(REQUEST, verdict=verdict_of("rm")))


def test_the_middle_of_a_long_command_can_be_left_out() -> None:
    lines = [f"line {count}" for count in range(100)]
    whole = display(replace(REQUEST, text="\n".join(lines), directory="/" + "d" * 3000))
    shown = shortened(whole).splitlines()
    assert shown[1:32] == [f"  | {line}" for line in lines[:30]] + ["  … 60 lines are not shown"]
    assert shown[32:42] == [f"  | {line}" for line in lines[-10:]]
    assert shown[42:] == whole.splitlines()[101:]
    long = shortened(display(replace(REQUEST, text="a" * 5000 + "b" * 5000))).splitlines()
    assert long[1:4] == ["  | " + "a" * 996, "  … 8,004 characters are not shown", "  | " + "b" * 1000]
    assert shortened(display(REQUEST)) == display(REQUEST)


def test_two_long_inputs_that_differ_at_the_end_look_different() -> None:
    one, other = b"x" * 100_000 + b"1", b"x" * 100_000 + b"2"
    shown = display(replace(REQUEST, stdin=one))
    assert len(shown) < 2000
    assert shown != display(replace(REQUEST, stdin=other))
    assert "100,001 bytes" in shown


# Questions on a terminal.

ASKER = """
import asyncio, fcntl, os, sys, termios
tty = os.open(sys.argv[1], os.O_RDWR)
fcntl.ioctl(tty, termios.TIOCSCTTY, 0)
from anyshell import ask_on_terminal
from anyshell.abc import ShellInfo
from anyshell.types import CommandRequest, JobInputRequest, SecretInputRequest, TerminalInputRequest
from anyshell.policy import ask
makes, shell = eval(sys.argv[5]), ShellInfo("bash", "/bin/bash")
request = makes(text="make", shell=shell, host="h", directory="/", display=sys.argv[4])
if sys.argv[6]:
    from dataclasses import replace
    from anyshell import Policy
    verdict = Policy.preset("ask-everything").decide(sys.argv[6], cwd="/")
    request = replace(request, text=sys.argv[6], verdict=verdict, rules="/home/me/policy.toml")
async def main():
    tasks = [ask(ask_on_terminal, request, timeout=float(sys.argv[2])) for _ in range(int(sys.argv[3]))]
    print(await asyncio.gather(*tasks))
asyncio.run(main())
"""

PROMPT = b"? = help: "


on_posix = pytest.mark.skipif(sys.platform == "win32", reason="a terminal of POSIX")


class Person:
    """A person at a terminal, on which a program asks questions."""

    def __init__(
        self,
        *,
        timeout: float = 20,
        questions: int = 1,
        typed_before: bytes = b"",
        display: str = "SHOWN",
        columns: int = 0,
        makes: str = "CommandRequest",
        judged: str = "",
    ) -> None:
        # The slave stays open here: until the program has opened the terminal, a read from the master would fail otherwise.
        posix: Any = os  # terminals of this kind are not on every platform
        self.master, self._slave = posix.openpty()
        os.write(self.master, typed_before)
        if columns:
            size: Any = import_module("termios")
            size.tcsetwinsize(self._slave, (24, columns))
        self.before = self.seen = b""
        self._program = subprocess.Popen(
            [
                *(sys.executable, "-c", ASKER, posix.ttyname(self._slave)),
                *(str(timeout), str(questions), display, makes, judged),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def wait_seen(self, text: bytes) -> None:
        """Read until a text was printed; output counts only once."""
        while text not in self.seen:
            self.seen += os.read(self.master, 4096)
        self.before, self.seen = self.seen.split(text, 1)

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def result(self) -> str:
        output: str = self._program.communicate(timeout=20)[0]
        os.close(self._slave)
        os.close(self.master)
        return output.strip()


@on_posix
@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (b"y\n", Approved()),
        (b"YES\n", Approved()),
        (b"a\n", Approved(always=True)),
        (b"n\n", Refused()),
        (b"n not on a Friday \n", Refused("not on a Friday")),
        (b"\x04", Refused("the terminal was closed without an answer", by="unanswered")),
    ],
)
def test_a_person_answers(typed: bytes, answer: Approved | Refused) -> None:
    person = Person()
    person.wait_seen(b"SHOWN")
    person.wait_seen(PROMPT)
    person.type(typed)
    assert person.result() == f"[{answer!r}]"


@on_posix
@pytest.mark.parametrize(
    ("makes", "question"),
    [
        ("CommandRequest", "Run this? y = yes, a = yes for this session to exactly this"),
        (
            "lambda **given: JobInputRequest(**given, job='j1', stdin=b'')",
            "Send this? y = yes, a = yes for this session to exactly this",
        ),
        (
            "lambda **given: TerminalInputRequest(**given, terminal='t1')",
            "Type this? y = yes, a = yes for this session to whatever is typed on this terminal",
        ),
        (
            "lambda **given: SecretInputRequest(**given, terminal='t1')",
            "Type this? y = yes, a = yes for this session to secrets on this terminal",
        ),
    ],
)
def test_a_person_is_asked_in_the_words_of_the_request(makes: str, question: str) -> None:
    person = Person(makes=makes)
    person.wait_seen(b"SHOWN\r\n")
    person.wait_seen(PROMPT)
    person.type(b"n\n")
    assert person.result() == f"[{Refused()!r}]"
    assert person.before.decode() == f"{question}, n [REASON] = no, "


@on_posix
def test_a_line_longer_than_the_terminal_is_folded_with_a_mark() -> None:
    fake = "Directory: /safe"
    person = Person(display="  | " + "x" * 35 + fake + "y" * 30, columns=40)
    person.wait_seen(b"Run this?")
    rows = person.before.decode().splitlines()[1:]
    assert rows == ["  | " + "x" * 35, "  : " + fake + "y" * 19, "  : " + "y" * 11]
    person.type(b"n\n")
    assert person.result() == f"[{Refused()!r}]"


@on_posix
def test_invalid_answer_on_a_terminal_is_asked_again() -> None:
    person = Person()
    for typed in (b"\n", b"what?\n", b"yes please\n", b"y\n"):
        person.wait_seen(PROMPT)
        person.type(typed)
    assert person.result() == f"[{Approved()!r}]"


@on_posix
@pytest.mark.parametrize(
    ("typed", "scope", "granted"),
    [
        (b"a\n", "session", "npm run test …"),
        (b"a 1\n", "session", "npm …"),
        (b"a 2\n", "session", "npm run …"),
        (b"A\n", "always", "npm run test …"),
        (b"A 4\n", "always", "npm run test x …"),
    ],
)
def test_a_person_grants_a_kind_of_command(typed: bytes, scope: str, granted: str) -> None:
    person = Person(judged="npm run test x")
    person.wait_seen("Commands for a and A: npm run test … (writes ".encode())
    person.wait_seen(b"Run this?")
    person.wait_seen(PROMPT)
    assert person.before.decode() == (
        " y = yes, a = yes for this session to these commands, A = always, n [REASON] = no, "
    )
    person.type(typed)
    person.wait_seen(f"(granted: {granted} (writes ".encode())
    assert f"always=True, scope='{scope}', grants=(Grant(words=" in person.result()


@on_posix
@pytest.mark.parametrize(
    ("judged", "typed"),
    [
        ("npm run $x", b"A\n"),
        ("npm run $x", b"a 1\n"),
        ("npm run test", b"a 0\n"),
        ("deploy 'a b'", b"A\n"),
        ("", b"A\n"),
    ],
)
def test_impossible_grant_is_no_answer(judged: str, typed: bytes) -> None:
    person = Person(judged=judged)
    for answer in (typed, b"?\n", b"n\n"):
        person.wait_seen(PROMPT)
        person.type(answer)
    assert b"  y = yes, this once\r\n" in person.before
    assert person.result() == f"[{Refused()!r}]"


@on_posix
def test_full_request_is_shown_on_demand() -> None:
    lines = [f"  | line {count}" for count in range(100)]
    person = Person(display="\n".join(lines))
    person.wait_seen(PROMPT)
    assert b"60 lines are not shown" in person.before
    assert b"line 50" not in person.before
    assert b"e = show everything" in person.before
    person.type(b"e\n")
    person.wait_seen(b"line 50\r\n")
    person.wait_seen(PROMPT)
    person.type(b"y\n")
    assert person.result() == f"[{Approved()!r}]"


@on_posix
def test_input_typed_before_the_question_is_no_answer() -> None:
    person = Person(typed_before=b"y\ny")
    person.wait_seen(PROMPT)
    person.type(b"n\n")
    assert person.result() == f"[{Refused()!r}]"


@on_posix
def test_terminal_questions_are_asked_one_at_a_time() -> None:
    person = Person(questions=2)
    for _ in range(2):
        person.wait_seen(b"SHOWN")
        person.wait_seen(PROMPT)
        assert b"SHOWN" not in person.seen
        person.type(b"y\n")
    assert person.result() == f"[{Approved()!r}, {Approved()!r}]"


@on_posix
def test_an_absent_person_is_a_refusal_in_time() -> None:
    person = Person(timeout=0.1)
    person.wait_seen(b"no answer is needed any more")
    assert person.result() == f"[{Refused('no answer within 0.1 s', by='unanswered')!r}]"


@on_posix
def test_no_terminal_is_a_refusal() -> None:
    script = ASKER.replace("fcntl.ioctl(tty, termios.TIOCSCTTY, 0)", "")
    done = subprocess.run(
        [sys.executable, "-c", script, os.devnull, "20", "1", "SHOWN", "CommandRequest", ""],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=20,
    )
    assert "there is no terminal" in done.stdout


@on_posix
@pytest.mark.anyio
async def test_hung_up_terminal_counts_as_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system calls fail on a terminal that was hung up, as on a file that is not a terminal."""
    monkeypatch.setattr("anyshell.policy.approval._terminal.PATH", os.devnull)
    answer = Refused("approval cannot be asked for: there is no terminal", by="unanswered")
    assert await answer_of(ask_on_terminal) == answer
