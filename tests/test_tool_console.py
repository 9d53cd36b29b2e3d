"""A model's command on a terminal that a person sees in a console."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from textual.app import App

from anyshell import AnyshellError, Environment, ShellTool, approve_all
from anyshell.console import ConsoleScreen, opener

from .processes import living, unique_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

    from anyshell.terminal import DrivenTerminal

pytestmark = pytest.mark.anyio

BOUND = 20.0


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + BOUND
    while not holds():
        assert time.monotonic() < give_up, "it never came"
        await pilot.pause(0.01)


def top(app: App[None]) -> ConsoleScreen:
    assert isinstance(app.screen, ConsoleScreen)
    return app.screen


async def test_person_types_in_a_console_and_the_model_has_the_text() -> None:
    app: App[None] = App()
    async with Environment.detect(shell="bash") as env, app.run_test() as pilot:
        tool = ShellTool(env, approver=approve_all, terminals=True, console=opener(app))
        # The command prints all the while, so that it does not seem to wait for the model.
        # A read that times out in the middle of a line has taken the first part of the line.
        command = "i=0; until read -t 0.1 x; do all+=$x; echo $((i++)); done; echo got $all$x; exit 5"
        call = asyncio.create_task(tool({"command": command, "pty": True}))
        await until(pilot, lambda: isinstance(app.screen, ConsoleScreen))
        await until(pilot, lambda: top(app).console.terminal.running)
        await pilot.press("h", "i", "enter")
        result = await call
        assert "got hi" in result.output
        assert result.details.exit_code == 5
        # The call does not wait, and the person sees the end of the command.
        assert "exit code 5" in top(app).console._state()
        # The next console takes its place.
        again = await tool({"command": "echo again", "pty": True})
        assert again.output == "again\n"
        await until(
            pilot,
            lambda: (
                isinstance(app.screen, ConsoleScreen) and "echo again" in top(app).console.terminal.command
            ),
        )
        assert len(app.screen_stack) == 2


async def test_rapid_calls_leave_one_console() -> None:
    app: App[None] = App()
    async with Environment.detect(shell="bash") as env, app.run_test() as pilot:
        tool = ShellTool(env, approver=approve_all, terminals=True, console=opener(app))
        results = [await tool({"command": f"exit {code}", "pty": True}) for code in range(6)]
        assert [result.details.exit_code for result in results] == list(range(6))
        assert not any("user" in result.text for result in results)
        await until(pilot, lambda: shows(app, "exit 5"))
        assert len(app.screen_stack) == 2
        # Simultaneous consoles are replaced as well, by the next one.
        texts = [f"echo {each}; sleep 1" for each in range(3)]
        await asyncio.gather(*(tool({"command": text, "pty": True}) for text in texts))
        await until(pilot, lambda: len(app.screen_stack) == 4)
        await tool({"command": "echo last", "pty": True})
        await until(pilot, lambda: shows(app, "echo last"))
        assert len(app.screen_stack) == 2


def shows(app: App[None], command: str) -> bool:
    return isinstance(app.screen, ConsoleScreen) and app.screen.console.terminal.command == command


async def test_dismissed_console_stops_the_program_and_informs_the_model() -> None:
    app: App[None] = App()
    seconds = unique_seconds()
    async with Environment.detect(shell="bash") as env, app.run_test() as pilot:
        tool = ShellTool(env, approver=approve_all, terminals=True, console=opener(app))
        text = f"while :; do echo line; sleep 0.2; done & sleep {seconds}"
        call = asyncio.create_task(tool({"command": text, "pty": True}))
        await until(pilot, lambda: isinstance(app.screen, ConsoleScreen) and bool(living(seconds)))
        top(app).dismiss(None)
        result = await call
        assert result.is_error
        assert "Stopped by the user in a console;" in result.text
        assert "line" in result.output
        assert living(seconds) == []


async def test_model_learns_later_of_a_terminal_stopped_in_a_console() -> None:
    app: App[None] = App()
    async with Environment.detect(shell="bash") as env, app.run_test() as pilot:
        tool = ShellTool(env, approver=approve_all, terminals=True, console=opener(app))
        result = await tool({"command": "read -p 'name? ' x; echo $x; sleep 300", "pty": True})
        assert result.details.status == "waiting"
        await until(pilot, lambda: isinstance(app.screen, ConsoleScreen))
        await pilot.press("ctrl+right_square_bracket")
        await until(pilot, lambda: not top(app).console.running)
        seen = await tool.job_tool({"action": "output", "id": result.details.terminal or ""})
        assert "Terminal t1 was stopped by the user in a console." in seen.text


async def test_command_runs_unseen_without_a_running_app() -> None:
    async with Environment.detect(shell="bash") as env:
        tool = ShellTool(env, approver=approve_all, terminals=True, console=opener(App()))
        result = await tool({"command": "echo unseen; exit 2", "pty": True})
        assert (result.output, result.details.exit_code) == ("unseen\n", 2)


async def test_failing_console_is_reported_to_people_and_harms_nothing() -> None:
    async def fails(terminal: DrivenTerminal) -> bool:
        raise ZeroDivisionError(terminal.command)

    async with Environment.detect(shell="bash") as env:
        tool = ShellTool(env, approver=approve_all, terminals=True, console=fails)
        result = await tool({"command": "sleep 0.2; echo fine", "pty": True})
        assert (result.output, result.is_error) == ("fine\n", False)
        assert "A console could not be shown: it raised ZeroDivisionError." in [
            block.text for block in result.display
        ]
        assert "ZeroDivisionError" not in result.text


async def test_commands_without_a_terminal_have_no_console() -> None:
    shown: list[DrivenTerminal] = []

    async def show(terminal: DrivenTerminal) -> bool:
        shown.append(terminal)
        return False

    async with Environment.detect(shell="bash") as env:
        tool = ShellTool(env, approver=approve_all, terminals=True, console=show)
        await tool({"command": "echo plain"})
        assert shown == []
        await tool({"command": "echo on a terminal", "pty": True})
        assert [terminal.command for terminal in shown] == ["echo on a terminal"]
        assert shown[0].shows


async def test_wrong_console_arguments_are_refused() -> None:
    async with Environment.detect() as env:
        with pytest.raises(AnyshellError, match="terminals=True"):
            ShellTool(env, approver=approve_all, console=opener(App()))
        with pytest.raises(AnyshellError, match="opener"):
            ShellTool(env, approver=approve_all, terminals=True, console=App())  # type: ignore[arg-type]  # it is tried
