"""The processes of the host: the members of a command's tree, and signals that hit no other process.

The means are those of `anyshell.backends.local.posix.tree`: group and session, tag, mark, life pipe, descent. One thing
differs: the server reaps the leader. From then on the leader's pid and its group's number may come to mean other
processes. So a group counts only for processes that started while its leader lived. Every signal is sent by the host's
own shell, right after the shell has compared the start time of the process.
"""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...._answers import LARGEST_PID, Nonsense, whole
from ...._terminals import LONGEST_LINE
from ...._waits import note_failure, shielded
from ...tree import TAG_BITS, UNLIMITED, Tag, descendants, is_member
from .look import ProcessLook, Sample, parse
from .watcher import HostAway, NoProcesses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...._types import ProcessInfo, Signal
    from .look import LookRow
    from .watcher import Answer, Watcher

GATHER_SECONDS = 0.002
"""Seconds for which a look at the host's processes waits for other tasks that want a look, and then share it."""

CLOCK_SLACK = 1.0
"""Seconds by which a process may seem to have started before the command that started it."""

EXIT_SLACK = 0.05
"""Seconds after the report of a leader's end in which the leader's group still counts as the command's."""

ROUNDING = 2
"""Units by which a host's clock and the start of a process may differ in addition, since each is reported in whole
units: ticks, or seconds where there is no ``/proc``."""

SIGNALS: Mapping[Signal, str] = {"interrupt": "INT", "terminate": "TERM", "kill": "KILL"}

_HANG_UP = "HUP+TERM"
"""The signals that ask a program on a terminal to end: an interactive shell ignores SIGTERM."""

_STARTED = re.compile(r"(\S+) (?:ino: (\d+) )?(\d+) \(.*\) \S(?: -?\d+){18} (\d+) ")
"""Matches the line of a login shell about the process that becomes the command. The line has the host's boot id, the
pid namespace, which Linux reports since 5.14, and ``/proc/self/stat``, whose 22nd field is the start."""

GONE = "(deleted)"
"""The suffix of the name of a terminal that the server has closed."""


class Blind(HostAway):
    """The host answers, but the watcher that answers does not see the command's processes, and so knows nothing of them."""


class Processes:
    """The processes that the host's watcher sees.

    Args:
        watcher: Asks the host.
        life_fd: The descriptor that every process of a command inherits.
    """

    def __init__(self, watcher: Watcher, life_fd: int) -> None:
        self._watcher = watcher
        self.life_fd = life_fd
        self._place = ""
        self._offset = 0.0
        self._certainty = float("inf")
        self._look: asyncio.Task[ProcessLook] | None = None
        self._since = float("inf")
        self._tokens: set[str] = set()
        self._after: Sample | None = None
        self.sample = Sample()
        """The newest sample that the host has reported."""
        self.ticks = 100.0
        """The units of a start time in one second."""
        self.architecture = ""
        self.longest_line = LONGEST_LINE
        """The bytes of a line that a terminal passes on."""

    @property
    def round_trip(self) -> float:
        """The seconds that a question and its answer took, at best; a tenth before the first question."""
        return min(self._certainty, 0.1)

    def learn(self, answer: Answer) -> Answer:
        """Set the host's clock and sample by an answer.

        The clock is set only if the answer came faster than those before, or comes from another host or boot.
        """
        if answer.place != self._place:
            self._place, self._certainty = answer.place, float("inf")
        if (took := answer.heard - answer.asked) < self._certainty:
            self._certainty = took
            self._offset = answer.clock - (answer.asked + answer.heard) / 2
        for line in answer.lines[:1]:
            match line.split():
                case ["at", place, newest, forks]:
                    with suppress(Nonsense):
                        self.sample = Sample(
                            place,
                            whole("a pid", newest, most=LARGEST_PID),
                            whole("forks", forks, most=2**64 - 1),
                        )
        return answer

    def host_time(self, moment: float) -> float:
        """Convert a moment of our monotonic clock to the unit of start times."""
        return (moment + self._offset) * self.ticks

    async def ask(self, question: str, place: str = "") -> Answer:
        """Put a question.

        Args:
            question: A question in `watcher.sh`'s language.
            place: The place that must answer, as far as it is known.

        Raises:
            Blind: The watcher that answers is at another place.
            HostAway: The host does not answer.
        """
        answer = self.learn(await self._watcher.ask(question))
        if not answer.place.startswith(place):
            raise Blind
        return answer

    async def look(self, since: float, after: Sample, token: str = "") -> ProcessLook:
        """Return every living process that started at `since` or later. Concurrent calls share one look.

        Args:
            since: A time of the host.
            after: A sample that was taken before the sought processes were started.
            token: Sought in the command lines of login shells; not sought when empty.

        Raises:
            HostAway: The host does not answer.
        """
        self._since = min(self._since, since)
        self._after = after if self._after is None else min(after, self._after, key=lambda each: each.forks)
        if token:
            self._tokens.add(token)
        if self._look is None or self._look.done():  # asyncio.run() cancels the task at its end
            self._look = asyncio.get_running_loop().create_task(self._take())
            self._look.add_done_callback(note_failure)
        look = await shielded(self._look)
        return ProcessLook(look.place, [each for each in look.seen if each.started >= since])

    async def _take(self) -> ProcessLook:
        await asyncio.sleep(GATHER_SECONDS)
        # Reset before the look: later callers may have made changes that this look will miss.
        self._look, since, tokens, after = None, self._since, sorted(self._tokens), self._after or Sample()
        self._since, self._tokens, self._after = float("inf"), set(), None
        question = f"look {max(0, int(since))} {self.life_fd} {after.place} {after.newest} {after.forks}"
        answer = await self.ask(" ".join([question, *tokens]))
        return _believed(answer)

    async def lead(self, name: str, leader: int, since: float, tag: int, mark: str) -> ProcessLook:
        """Signal a leader's group and descendants at once, and list the signalled processes.

        Args:
            name: A signal.
            leader: The leader's pid. The leader is signalled only if it started at `since` or later, and has the tag,
                or the mark and no limit at all.
            since: A time of the host.
            tag: The tag of the leader's command.
            mark: The mark of the leader's command.

        Raises:
            HostAway: The host does not answer.
        """
        question = f"lead {name} {leader} {max(0, int(since))} {tag} {self.life_fd} {mark}"
        return _believed(await self.ask(question))

    def ask_now(self, question: str) -> asyncio.Future[Answer] | None:
        """Put a question without waiting; ``None`` when the watcher has no living shell."""
        return self._watcher.ask_now(question)

    async def sweep(
        self, name: str, since: float, tag: int, leader: int | None, place: str, outside: int | None
    ) -> list[LookRow]:
        """Find processes by a tag and a group, and signal them, using nothing but the host's shell itself.

        Args:
            name: A signal; ``0`` for none.
            since: Processes that started earlier are ignored.
            tag: The tag to look for.
            leader: The leader whose group and session are meant; ``None`` for no group.
            place: The place of the leader; at another place the leader's pid is ignored.
            outside: The shell of a session, which has the tag of its command and is left out.

        Raises:
            HostAway: The host does not answer.
        """
        spared = outside if place and outside is not None else ""
        answer = await self.ask(
            f"sweep {name} {max(0, int(since))} {tag} {leader or 'none'} {place} {spared}".rstrip()
        )
        return _believed(answer).seen

    async def renew(self) -> None:
        """Restore the ability to look, where the user had no processes left for a look.

        Raises:
            HostAway: A look is still impossible.
        """
        await self._watcher.renew()

    async def group_exists(self, group: int, asked: asyncio.Future[Answer] | None = None) -> bool:
        """Whether any process is in a group, even a zombie.

        Args:
            group: The group's number.
            asked: The question, if it was put already.

        Raises:
            HostAway: The host does not answer.
        """
        if (
            asked is not None and asked.cancelled()
        ):  # cancelled with the task that awaited it, or after another answer
            asked = None
        if asked is not None and asked.done() and asked.exception() is None:
            return "some" in asked.result().lines
        return "some" in (await self._watcher.ask(group_question(group), asked)).lines

    async def inner_pids(self, pids: Iterable[int], place: str) -> dict[int, int]:
        """Map the pids of processes in another pid namespace to the pids by which the processes know themselves.

        Raises:
            HostAway: The host does not answer.
        """
        answer = await self.ask(f"inner {' '.join(map(str, pids))}", place)
        told = (line.split() for line in answer.lines)
        return {
            int(words[1]): int(words[2]) for words in told if words[:1] == ["inner"] and _are_pids(words[1:])
        }

    async def signal_by_name(self, name: str, targets: Iterable[str], *, though_away: bool = False) -> None:
        """Send a signal, given by its name in the host's shell, or two signals with a plus between the names.

        Args:
            name: The name of the signal.
            targets: Processes, each given as ``PID:STARTED``; with a minus before the pid, the whole group of the process.
            though_away: Whether to put the question also to a host that is known to be away: the host may only be late.
        """
        if named := " ".join(targets):
            question = f"signal {name} {named}"
            asked = self._watcher.ask_now(question) if though_away else None
            self.learn(await self._watcher.ask(question, asked))

    async def remove_directories(self, names: Iterable[str]) -> None:
        """Remove the directories of sessions, given the ends of their names.

        Raises:
            HostAway: The host does not answer, or cannot start a program.
        """
        if "removed" not in (await self.ask(f"litter {' '.join(names)}")).lines:
            raise HostAway

    async def chase(self, tag: int, shell: int | None) -> None:
        """Kill processes that fork and end faster than a look takes; spare the shell of a session, which has the same tag."""
        await self.ask(f"chase {tag} {shell or ''}")


def _are_pids(words: Sequence[str]) -> bool:
    return len(words) == 2 and all(re.fullmatch(r"[0-9]{1,10}", word) for word in words)


def group_question(group: int) -> str:
    """Return the question whether any process is in a group."""
    return f"group {group}"


def _believed(answer: Answer) -> ProcessLook:
    """Parse a look. Nonsense raises `HostAway`: a nonsensical answer says as little about processes as no answer."""
    try:
        return parse(answer.lines, answer.place)
    except Nonsense as error:
        raise HostAway from error


@dataclass(slots=True)
class SSHTree:
    """The processes of one command.

    Args:
        processes: The processes of the host.
        token: The first half stands in the command line of the login shell until the login shell becomes the command.
        mark: The name of the variable that was put into the command's environment.
        tag: The soft limit on file locks that was set for the command.
        since: A time of the host before the command was started.
        after: A sample of the host, taken before `since`.
        leader: The pid of the process that became the command, once it is known; also the number of its group and session.
        outside: A pid that is never a member: the persistent shell, when the tree is one command of that shell. Then
            a process counts by its tag only if the tag matches to the last bit.
        group: The process group of that persistent shell.
        on_terminal: Whether the command's terminal serves as its life pipe.
    """

    processes: Processes
    token: str
    mark: str
    tag: int
    since: float
    after: Sample
    leader: int | None = None
    outside: int | None = None
    group: int | None = None
    on_terminal: bool = False
    let_go: bool = False
    """Whether the server may have given the command's terminal to another command."""
    ended_at: float | None = None
    """A time of the host at which the leader was known to have ended."""
    begun: bool = False
    """Whether the command was seen to have begun: a process has its tag or its mark."""
    place: str = ""
    """The leader's place, as reported or seen: the host, followed by the pid namespace if that is known."""
    seen: bool = False
    """Whether a look has shown the leader."""
    led: Signal | None = None
    """The signal that `lead` has already sent to the leader's group and descendants."""
    told: bool = False
    """Whether the login shell has reported that it becomes the command; from then on the token is not sought."""
    _start: str = ""
    _given_again: bool = False
    _led: set[tuple[int, float]] = field(default_factory=set)
    _life: str = ""
    _known: dict[int, float] = field(default_factory=dict)
    _began: dict[tuple[int, float], LookRow] = field(default_factory=dict)
    _swept: bool = False
    _kills: int = 0
    _tag: Tag = field(init=False)

    def __post_init__(self) -> None:
        self._tag = Tag(self.tag, TAG_BITS if self.outside is None else 0)

    def set_leader(self, pid: int, said: Sequence[str]) -> None:
        """Store the login shell's last report: the command's pid, and where and since when the pid is the command's."""
        self.leader, self.told = pid, True
        known = _STARTED.match(" ".join((*said, "")))
        if known is None or known[3] != str(pid):  # there is no /proc, or it is another pid namespace's
            return
        self._start, self.since = known[4], float(known[4])
        self.place = known[1] + (f"pid:[{known[2]}]" if known[2] else "")

    async def members(self, *, daemons: bool = True) -> Sequence[ProcessInfo]:
        """Return every living member, the oldest first.

        Args:
            daemons: If false, return no members when all are in sessions of their own and do not hold the leader's
                output. After a normal end, such members are services that the command has started.

        Raises:
            Blind: The watcher that answers does not see itself, or is not where the leader is.
            HostAway: The host does not answer.
        """
        token = "" if self.begun or self.told or self.outside else self.token[: len(self.token) // 2]
        try:
            look = await self._look(token)
        except NoProcesses:
            if swept := await self._sweep("0"):
                return swept
            await self.processes.renew()  # the members are gone, and so is the reason why looks failed
            look = await self._look(token)
        young = {seen.pid: seen for seen in look.seen}
        young.pop(self.outside or 0, None)
        beginning = [seen for seen in young.values() if token and seen.begins == token]
        if self.leader is None and beginning:
            # A subshell of a startup file has the same command line.
            first = next((seen for seen in beginning if seen.session == seen.pid), beginning[0])
            self.leader = first.pid
        leader = young.get(self.leader or 0)
        self._given_again = leader is not None and self._start not in ("", leader.began)
        if leader is not None and self.ended_at is None and not self._given_again:
            self.place, self.seen = look.place or "", True
            # A leader that is ending has closed its life pipe, and is not yet a zombie.
            self._life = leader.holds.get(self.processes.life_fd, self._life)
        members = {pid for pid, seen in young.items() if self._is_member(seen)}
        members |= {pid for pid, seen in young.items() if self._is_child(seen)}
        if not daemons and all(self._is_daemon(young[pid]) for pid in members):
            return ()
        self.begun = self.begun or any(
            is_member(young[pid], tag=self._tag, mark=self.mark)
            and not (token and young[pid].begins == token)
            for pid in members
        )
        members |= {seen.pid for seen in beginning}
        members |= descendants(young, members)
        self._swept = False
        self._known = {pid: young[pid].started for pid in members}
        self._began = {(pid, young[pid].started): young[pid] for pid in members}
        # The order of signals: a subshell must be signalled before it sees its program end and starts the
        # next one.
        return sorted((young[pid].info for pid in members), key=lambda member: (member.started, member.pid))

    async def _look(self, token: str = "") -> ProcessLook:
        look = await self.processes.look(self.since, self.after, token)
        if look.place is None or not look.place.startswith(self.place):
            raise Blind
        return look

    def _is_member(self, seen: LookRow) -> bool:
        if self._known.get(seen.pid) == seen.started or self._holds_life(seen):
            return True
        # The leader's pid can be reused once its group and session are empty; in another pid namespace, the
        # pid means another process.
        late = self.ended_at is not None and seen.started > self.ended_at
        leader = 0 if self._given_again or late else self.leader or 0
        return is_member(seen, leader=leader, tag=self._tag, mark=self.mark)

    def _holds_life(self, seen: LookRow) -> bool:
        if not self._life or seen.holds.get(self.processes.life_fd) != self._life:
            return False
        # A pipe keeps its number for ever; a terminal's number goes to the next terminal once the first is
        # closed.
        return not self.on_terminal or not (self.let_go or seen.marks or seen.limit != UNLIMITED)

    def _is_child(self, seen: LookRow) -> bool:
        """Whether the persistent shell has started the process, and the process has cleared its mark and tag since."""
        if self.outside is None or seen.parent != self.outside:
            return False
        return not seen.marks and not Tag(self.tag, TAG_BITS).marks(seen.limit)

    def _is_daemon(self, seen: LookRow) -> bool:
        if self.leader in (seen.group, seen.session):
            return False
        if not self.on_terminal:
            return not any(_is_pipe(what) for what in seen.holds.values())
        # Another terminal is one that the process made itself. The command's own terminal ends with the
        # leader.
        life = seen.holds.get(self.processes.life_fd, "")
        return not _is_terminal(life) and not any(what.endswith(GONE) for what in seen.holds.values())

    async def signal(self, signal: Signal, members: Iterable[ProcessInfo]) -> None:
        """Signal members that a look has found, and the leader's whole group if the leader is one of them.

        Raises:
            HostAway: The host does not answer.
        """
        if self._swept:
            await self._sweep(self._name(signal))
            return
        targets = []
        seen = [found for info in members if (found := self._began.get((info.pid, info.started))) is not None]
        led = self.led == signal != "kill"
        in_group = not led and any(1 < each.pid == self.leader for each in seen) and self.ended_at is None
        if in_group:
            leader = next(each for each in seen if each.pid == self.leader)
            targets.append(f"-{leader.pid}:{leader.began}")
        # A request to end goes to each process only once, since a program may react to each request.
        targets += [
            f"{each.pid}:{each.began}"
            for each in seen
            if signal == "kill"
            or not (
                ((led or in_group) and each.group == self.leader)
                or (led and (each.pid, each.started) in self._led)
            )
        ]
        kills = self._kills = self._kills + (signal == "kill")
        await self.processes.signal_by_name(self._name(signal), targets, though_away=kills == 1)
        if kills > 1:  # one kill was not enough: perhaps the processes fork too fast to be listed
            await self.processes.chase(self.tag, self.outside)

    async def in_group(self) -> Sequence[ProcessInfo]:
        """Return the members of the leader's process group besides the leader. Raises the exceptions of `members`."""
        return [
            each
            for each in await self.members()
            if each.pid != self.leader and self._began[each.pid, each.started].group == self.leader
        ]

    async def lead(self, signal: Signal) -> Sequence[ProcessInfo]:
        """Signal the leader's group and descendants without a look, which may be slow.

        Returns:
            The processes that were signalled.

        Raises:
            HostAway: The host does not answer.
        """
        if self.leader is None or self.leader <= 1 or self.ended_at is not None:
            return ()  # 1 is the first process of a pid namespace, and "-1" means every process
        look = await self.processes.lead(self._name(signal), self.leader, self.since, self.tag, self.mark)
        if not look.led:
            return ()
        self.led, self.place, self.seen = signal, look.place or "", True
        self._led = {(seen.pid, seen.started) for seen in look.seen}
        self._known |= dict(self._led)
        self._began |= {(seen.pid, seen.started): seen for seen in look.seen}
        for seen in look.seen:
            self._life = seen.holds.get(self.processes.life_fd, self._life)
        return [seen.info for seen in look.seen]

    def _name(self, signal: Signal) -> str:
        return _HANG_UP if self.on_terminal and signal == "terminate" else SIGNALS[signal]

    def part(self, number: int, shell: int) -> SSHTree:
        """Create the tree of a part: the processes that a shell starts from now on, with a mark and a tag of their own.

        Args:
            number: The number that distinguishes the part from other parts.
            shell: The shell's pid.
        """
        return SSHTree(
            self.processes,
            self.token,
            f"{self.mark}_{number:x}",
            self.tag | (number % (2**31 - 1) + 1),
            since=self.processes.host_time(time.monotonic() - CLOCK_SLACK) - ROUNDING,
            after=self.processes.sample,
            outside=shell,
            group=self.leader,
            place=self.place,
        )

    async def may_live(self, first: int) -> bool:
        """Whether a process of the tree, in the group of its shell, was given a pid after `first`; true when that is unknown.

        Raises:
            HostAway: The host does not answer.
        """
        question = f"newer {first} {self.tag} {self.outside} {self.group}"
        return "some" in (await self.processes.ask(question, self.place)).lines

    async def shell_is_back(self) -> bool:
        """Whether the persistent shell reads no command's input; true where the host does not show that.

        Raises:
            HostAway: The host does not answer.
        """
        return "busy" not in (await self.processes.ask(f"input {self.outside}", self.place)).lines

    async def signal_one(self, pid: int | None, name: str) -> None:
        """Send a signal, by its name, to one process alone, as long as the leader has not ended.

        Raises:
            HostAway: The host does not answer.
        """
        if pid == self.leader and self._start and self.place:
            if self.ended_at is None:
                await self.processes.ask(f"at {self.place} signal {name} {pid}:{self._start}", self.place)
            return
        for seen in (await self._look()).seen:
            if seen.pid != pid:
                continue
            if self.ended_at is None:
                await self.processes.signal_by_name(name, [f"{seen.pid}:{seen.began}"])

    async def _sweep(self, name: str) -> Sequence[ProcessInfo]:
        leader = None if self.ended_at is not None else self.leader
        self._swept = True
        return [
            each.info
            for each in await self.processes.sweep(
                name, self.since, self.tag, leader, self.place, self.outside
            )
        ]


def _is_terminal(what: str) -> bool:
    return what.startswith("/dev/pts/")


def _is_pipe(what: str) -> bool:
    return bool(what) and not _is_terminal(what)
