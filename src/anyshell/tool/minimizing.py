"""The output of a simple command without noise, for a model."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from .._exceptions import AnyshellError
from ..output import OutputBuilder
from ..output.minimize import LARGEST, SMALLEST, find, load, minimize, packaged
from ..shells.syntax import leading_cd
from .result import MinimizedOutput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from .._environment import Environment
    from .._types import CommandRequest, Outcome, Output, OutputLimits, ShellKind
    from .._types.parsed import ParsedCommand
    from ..output.minimize import Minimized, NoiseRule

TRANSPARENT = frozenset({"env", "nice", "sudo", "time", "timeout", "uv"})
"""Programs that run another command and print nothing that a rule could take for that command's output."""

_MERGED = re.compile(r"\s2>&1\s*\Z")


@dataclass(frozen=True, slots=True)
class Minimizable:
    """A run to whose output a rule applies.

    Attributes:
        rule: The rule.
        limits: The limits for the run; with these limits the whole output is kept.
    """

    rule: NoiseRule
    limits: OutputLimits


class Minimizing:
    """The minimizer of one `ShellTool`, which leaves out noise.

    Args:
        env: The environment of the commands.
        rules: The rules in order; the first rule for a command counts.
    """

    def __init__(self, env: Environment, rules: Sequence[NoiseRule]) -> None:
        self._env = env
        self._rules = rules

    def of(self, request: CommandRequest) -> Minimizable | None:
        """Return the rule and limits for a request; ``None`` where the output is to be shown unchanged."""
        if self._env.artifacts is None or request.size is not None:
            return None
        words = words_of(request)
        rule = None if words is None else find(self._rules, words)
        return None if rule is None else Minimizable(rule, replace(self._env.limits, keep_from=SMALLEST))

    async def shown(
        self, run: Minimizable | None, outcome: Outcome
    ) -> tuple[Outcome, MinimizedOutput | None]:
        """Return an outcome with its shown output, and the left-out noise; ``None`` for the noise if nothing was left out."""
        output = outcome.output
        if run is None or output.artifact is None or outcome.status == "running":
            return outcome, None
        left = await anyio.to_thread.run_sync(
            _minimized, run.rule, outcome, self._env.info.code_page, self._env.limits.size
        )
        if left is None and output.truncated:
            return outcome, None
        if left is None:  # the whole output is shown: the artifact is not needed
            with contextlib.suppress(OSError):
                await anyio.to_thread.run_sync(output.artifact.path.unlink)
            return replace(outcome, output=replace(output, artifact=None)), None
        bounded = self._bounded(left.text)
        # The text of a code page may have more bytes than were written.
        shown_bytes = min(output.total_bytes - 1, bounded.total_bytes - bounded.omitted_bytes)
        lines = bounded.total_lines if not left.grouped else left.lines  # a heading is not output
        shown_lines = min(output.total_lines, lines - bounded.omitted_lines)
        seen = replace(
            output,
            text=bounded.text,
            omitted_bytes=output.total_bytes - shown_bytes,
            omitted_lines=output.total_lines - shown_lines,
            head_range=None,
            tail_range=None,
            excerpts=(),
            cut_lines=0,
        )
        told = MinimizedOutput(
            rule=run.rule.name,
            dropped_bytes=output.total_bytes - min(output.total_bytes, bounded.total_bytes),
            dropped_lines=output.total_lines - min(output.total_lines, lines),
            grouped=left.grouped,
            truncated=bounded.truncated,
        )
        return replace(outcome, output=seen), told

    def _bounded(self, text: str) -> Output:
        builder = OutputBuilder(**self._env.limits.parts._asdict())
        builder.feed(text.encode(errors="replace"))
        return builder.finish()


def words_of(request: CommandRequest) -> tuple[str, ...] | None:
    """Return the words of a request that is a simple command, as `simple_command` does."""
    if request.shell.kind not in ("pwsh", "powershell"):
        return simple_command(request.text, request.shell.kind)
    # Only the host's own parser understands a text of PowerShell; a policy's verdict holds that parser's answer.
    verdict, text = request.verdict, request.text.strip()
    if verdict is None or not verdict.understood:
        return None
    return _simple([each.command for each in verdict.commands], text, request.text.index(text))


def simple_command(text: str, shell: ShellKind) -> tuple[str, ...] | None:
    """Return the words of a text that is a simple command; ``None`` for any other text, and if the text is not understood.

    A simple command has no pipe, negation, background, group or list, except for a leading ``cd DIRECTORY &&``. Its only
    redirection can be a last ``2>&1``. No word depends on a variable or on another command.
    """
    from ..policy.parse import parse  # a late import, since the module loads the parser

    if shell not in ("bash", "sh", "zsh"):
        return None
    leading = leading_cd(text)  # only in a session: otherwise a leading cd has become the request's directory
    text = _MERGED.sub("", text if leading is None else leading.rest).strip()
    parsed = parse(text, shell)
    if not parsed.understood or parsed.functions:
        return None
    return _simple(parsed.commands, text)


def _simple(commands: Sequence[ParsedCommand], text: str, start: int = 0) -> tuple[str, ...] | None:
    # The text must be the command alone. Transparent programs before the command, such as env, are left out of the words.
    if not commands or any(each.span != (start, start + len(text)) for each in commands):
        return None
    command = commands[-1]
    words = [command.program, *(argument.text for argument in command.arguments)]
    if len(commands) != len(command.via) + 1 or not TRANSPARENT.issuperset(command.via):
        return None
    if command.redirections or command.piped or command.background or command.host or not command.program:
        return None
    if any(not argument.literal and re.search(r"[$`@]", argument.text) for argument in command.arguments):
        return None
    return tuple(word for word in words if word is not None)


def _minimized(rule: NoiseRule, outcome: Outcome, code_page: int | None, room: int) -> Minimized | None:
    """Return the minimized form of a whole output; ``None`` where the output is to be shown unchanged."""
    output, code = outcome.output, outcome.exit_code
    if outcome.status != "exited" or outcome.signal is not None or code is None:
        return None
    if output.artifact is None or output.artifact.omitted_bytes:
        return None
    if output.binary is not None or output.total_bytes > LARGEST:
        return None
    text = output.text
    if output.truncated:
        builder = OutputBuilder(head=3 * LARGEST, tail=0, code_page=code_page)
        try:
            builder.feed(output.artifact.path.read_bytes())
        except OSError:  # the file was removed since
            return None
        whole = builder.finish()
        if whole.total_bytes != output.total_bytes or whole.omitted_lines:
            return None
        text = whole.text
    return minimize(rule, code, text, room=room)


def rules_of(given: bool | Iterable[str | PathLike[str]]) -> tuple[NoiseRule, ...]:
    """Return the rules for the argument `minimize`: the rules of the given files, then anyshell's own rules.

    Raises:
        AnyshellError: The extra ``policy`` is missing; the argument is not a boolean or an iterable of files; a file cannot
            be read, or has a malformed rule.
    """
    if given is False:
        return ()
    from ..policy.parse.grammar import installed

    if not installed("bash"):
        from ..policy.rules.policy import INSTALL

        raise AnyshellError(f"minimize needs the extra policy: {INSTALL}")
    files: Any = () if given is True else given
    if isinstance(files, str | bytes) or not isinstance(files, Iterable):
        raise AnyshellError("minimize must be True, False or a list of files with rules")
    own: list[NoiseRule] = []
    for file in files:
        try:
            own += load(Path(file).read_bytes(), str(file))
        except (OSError, TypeError, ValueError) as error:
            raise AnyshellError(f"minimize: {file} cannot be read: {error}") from error
    return (*own, *packaged())
