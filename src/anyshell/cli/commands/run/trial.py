"""``anyshell run --trial``: a command whose changes are shown, and committed if a person or an option says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .live import Run

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from .... import Outcome, Stream, Terminal
    from ...._engine import Control
    from ...._stream import Listener
    from ....trial import Trial
    from ...process.descriptors import DescriptorReader


class TrialRun(Run):
    """One command on trial that is connected to this program's descriptors."""

    _trial: Trial | None = None

    async def perform(self) -> int:
        """Run the command, show its changes, commit or discard the changes, and return this program's exit code."""
        try:
            code = await super().perform()
            if self._trial is not None and not self._asked_to_end:
                code = await self._decide(self._trial, code)
            return code
        finally:
            if self._trial is not None:
                await self._trial.discard()

    def _start(self, stdin: DescriptorReader | None, terminal: Terminal | None) -> Stream:
        from ...._stream import Stream

        request = self._request
        apart = request.split_stderr if request.held else self._stdout is not self._stderr

        def start(listener: Listener, control: Control) -> Awaitable[Outcome]:
            self._trial = self._env.trial(
                self._text,
                env=dict(request.variables),
                stdin=stdin,
                **request.times,
                split_stderr=apart,
                listener=listener,
                control=control,
            )
            return self._trial.run()

        return Stream(start, by="chunks", code_page=self._env.runner.code_page(None))

    async def _decide(self, trial: Trial, code: int) -> int:
        from ...process.descriptors import tell

        effects = trial.effects
        if not (effects.created or effects.changed or effects.deleted or effects.renamed):
            return code
        answer = self._request.commit
        if answer is None:
            from ...host.person import confirm

            asking = asyncio.ensure_future(confirm("anyshell: Make these changes real? (yes/no) "))
            self._interruption.stop = asking.cancel
            try:
                answer = await asking
            except asyncio.CancelledError:
                if self._interruption.number is None:
                    raise
                return self._interruption.exit_code
        if answer:
            await trial.commit()
        await tell(f"anyshell: {'committed' if answer else 'discarded: nothing was changed'}\n")
        return code
