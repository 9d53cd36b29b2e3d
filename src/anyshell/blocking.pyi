# mypy: disable-error-code="overload-overlap"
# A text is a sequence of texts, and one pattern for expect().
"""The blocking twins of anyshell's classes, a line a method. Written by ``python -m tests.blocking_stub``."""

from anyshell import _engine
from anyshell._engine import Control
from anyshell._files import AnyPath
from anyshell._runner.redirects import Stdin
from anyshell._runner.redirects import Stdout
from anyshell._runner.variables import Interactive
from anyshell._transfer import OnProgress
from anyshell._types import Channel
from anyshell._types import CopyResult
from anyshell._types import Effects
from anyshell._types import FileStat
from anyshell._types import Foreground
from anyshell._types import HostInfo
from anyshell._types import JobOutput
from anyshell._types import JobStatus
from anyshell._types import LeftBehind
from anyshell._types import OperatingSystem
from anyshell._types import Outcome
from anyshell._types import OutputEvent
from anyshell._types import OutputLimits
from anyshell._types import ProcessInfo
from anyshell._types import Recording
from anyshell._types import Scan
from anyshell._types import Screen
from anyshell._types import ShellInfo
from anyshell._types import Spawn
from anyshell._types import Terminal
from anyshell._types import TerminalLines
from anyshell._types import Variables
from anyshell._types import Waiting
from anyshell._types.checks import Seconds
from anyshell.abc import Approver
from anyshell.abc import Backend
from anyshell.abc import Process
from anyshell.abc import Resolver
from anyshell.backends import SSHOptions
from anyshell.detached import DetachedRecord
from anyshell.detached import DetachedStatus
from anyshell.fleet import HostProgress
from anyshell.fleet.progress import FleetObserver
from anyshell.fleet.progress import HostOutcome
from anyshell.jobs.readiness import Ready
from anyshell.jobs.registry import Observer
from anyshell.jobs.work import Work
from anyshell.output import ArtifactStore
from anyshell.output import InputModes
from anyshell.output import StyledScreen
from anyshell.policy.audit import Audit
from anyshell.policy.interception import InterceptionRule
from anyshell.policy.redaction import Redaction
from anyshell.policy.rules import Policy
from anyshell.reach import Reach
from anyshell.reach import Sandbox
from anyshell.shells.words import Argument
from anyshell.shells.words import CommandLike
from anyshell.terminal import ConsoleOpener
from anyshell.terminal import SecretSource
from anyshell.terminal.reading import Expected
from anyshell.tool.definition import ToolDefinition
from anyshell.tool.jobs.params import JobParams
from anyshell.tool.limits import ToolLimits
from anyshell.tool.params import ShellParams
from anyshell.tool.result import JobResult
from anyshell.tool.result import ShellResult
from anyshell.tool.trying import Approve
from anyshell.tool.updates import OnUpdate
from anyshell.trial import Checkpoint
from anyshell.trial import Restored
from collections.abc import Awaitable
from collections.abc import Callable, Iterator
from collections.abc import Collection
from collections.abc import Coroutine
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from datetime import datetime
from os import PathLike
from types import TracebackType
from typing import Any
from typing import Literal
from typing import Self, overload
import builtins
import re

Listener = Callable[[Channel, bytes], object]
FleetListener = Callable[[HostProgress, Channel, bytes], object]

def connect(host_or_backend: str | SSHOptions | Backend | None=None, *, shell: str | None=None, cwd: str | PathLike[str] | None=None, interactive: Interactive=False, limits: OutputLimits | None=None, artifacts: ArtifactStore | Literal['default'] | None='default', snapshot: bool=False, prefix: str | None=None, max_jobs: int=..., max_terminals: int=..., background_after: Seconds | None=None, policy: Policy | None=None, variables: Variables | None=None, redact: bool | Redaction=False, audit: Audit | None=None, resolvers: Mapping[str, Resolver | None] | None=None, reach: Reach | Sandbox | None=None) -> Environment: r"""Detect a host's facts and its shell, and make an environment."""

class DetachedJob:
    @property
    def record(self) -> DetachedRecord: r"""The record of the job at the last look."""
    @property
    def id(self) -> str: r"""The id for `DetachedJobs.get`."""
    @property
    def command(self) -> str: r"""The first thousand characters of the command."""
    @property
    def host(self) -> str: r"""The name of the job's host for people."""
    @property
    def status(self) -> DetachedStatus: r"""``running``, ``completed``, ``failed``, ``stopped``, ``lost`` or ``foreign``: see `DetachedRecord`."""
    @property
    def exit_code(self) -> int | None: r"""The exit code of the job; ``None`` while the code is not known."""
    @property
    def pid(self) -> int: r"""The pid of the job's first process."""
    @property
    def started(self) -> float: r"""The start time of the job, in seconds since the epoch, by the host's clock."""
    @property
    def ended(self) -> float | None: r"""The end time of the job, likewise; ``None`` while the end is not known."""
    def refresh(self) -> DetachedStatus: r"""Ask the host for the state of the job."""
    def output(self, *, since: int=0, limit: int=...) -> JobOutput: r"""Read a part of the job's output, from a byte of its log on."""
    def wait(self, *, timeout: Seconds | None=None) -> DetachedStatus: r"""Wait for the end of the job, at most `timeout` seconds; ``None`` means no bound."""
    def stop(self, *, grace: Seconds=...) -> Sequence[ProcessInfo]: r"""Ask all processes of the job to end, kill the survivors after the grace period, and verify that they are gone."""

class DetachedJobs:
    def __init__(self, environment: Environment, *, directory: str | None=None) -> None: ...
    def start(self, command: CommandLike, *, cwd: str | PathLike[str] | None=None, env: Mapping[str, str | None] | None=None, reach: Reach | None=None) -> DetachedJob: r"""Start a job that goes on when this process ends. The job's stdin is at end-of-file; its output goes to its log."""
    def list(self) -> builtins.list[DetachedJob]: r"""Return every recorded job, the newest first; at most `MOST_JOBS`."""
    def get(self, id_: str) -> DetachedJob: r"""Find a job by its id, or by a unique beginning of the id."""
    def prune(self, *, older_than: Seconds=0.0) -> builtins.list[str]: r"""Remove the records and logs of jobs that have ended or are lost."""

class DrivenTerminal:
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    @property
    def command(self) -> str: r"""The text of the command that runs on the terminal."""
    @property
    def host(self) -> str: r"""The host of the program: ``local``, or the host's address."""
    @property
    def entered(self) -> bool: r"""Whether the program was started, or is starting."""
    @property
    def terminal(self) -> Terminal: r"""The size and the kind of the terminal."""
    @property
    def stopped_by_person(self) -> bool: r"""Whether a person, not a program, has stopped the running program in a console."""
    def send(self, data: str | bytes, *, timeout: Seconds | None=...) -> None: r"""Type text or bytes, without any change. The Enter key is ``\\r``."""
    def sendline(self, line: str='', *, timeout: Seconds | None=...) -> None: r"""Type text and the Enter key, under the rules of `send`."""
    def send_key(self, *names: str) -> None: r"""Press keys, one after the other, such as ``Ctrl-C``, ``Up``, ``F5``, ``Alt-x``, ``q``."""
    def paste(self, text: str, *, timeout: Seconds | None=...) -> None: r"""Paste text as a terminal does, between the marks of bracketed paste if the program has set that mode."""
    def send_secret(self, source: SecretSource) -> bool: r"""Ask a source for a secret, and type the secret and Enter."""
    def hide(self, secret: str) -> None: r"""Mask a secret from now on, as if the secret was typed here. An empty secret is ignored."""
    def interact(self, *, escape: str | None='\x1d') -> None: r"""Connect the program to the person at this process's terminal, until the program ends or the person types `escape`."""
    def resize(self, *, columns: int | None=None, rows: int | None=None) -> None: r"""Resize the terminal. A running program receives SIGWINCH; before the start, this sets the size to start with."""
    def wait(self) -> Outcome: r"""Wait for the program's end, and return the outcome. Cancelling the wait does not stop the program."""
    def stop(self, *, by_person: bool=False) -> Outcome: r"""Stop the program's whole tree, as a timeout does, and wait for its end. A second call skips the grace."""
    @property
    def before(self) -> str: ...
    @property
    def match(self) -> re.Match[str] | None: ...
    @property
    def modes(self) -> InputModes: r"""The modes for keys, mouse and pastes that the program has set on its terminal."""
    @property
    def pid(self) -> int | None: r"""The process id of the program on the host; ``None`` before the start, or where the host does not tell."""
    @property
    def running(self) -> bool: r"""Whether the program is starting, running or being stopped."""
    @property
    def outcome(self) -> Outcome | None: r"""The outcome of the program; ``None`` before the program's end."""
    @property
    def screen(self) -> Screen: r"""The present screen of the terminal."""
    @property
    def shows(self) -> bool: r"""Whether the terminal has a `view`, because it was made with a scrollback."""
    def view(self, back: int=0) -> StyledScreen: r"""Return the present screen with its colours, or the view `back` rows above the screen."""
    @property
    def changes(self) -> int: r"""A counter of output pieces and of the end. While the counter is unchanged, the program has printed nothing new."""
    def changed(self, since: int, *, timeout: Seconds | None=None) -> bool: r"""Wait until the program has printed output, or has ended."""
    def lines(self, since: int=0) -> TerminalLines: r"""Return the lines of the main screen, and the lines that have scrolled off the main screen."""
    def foreground(self) -> Foreground | None: r"""Return the processes that have the terminal now; ``None`` if no process has it or the host cannot tell."""
    @overload
    def expect(self, pattern: str | re.Pattern[str], *, timeout: Seconds | None=...) -> re.Match[str]: ...
    @overload
    def expect(self, pattern: Sequence[Expected], *, timeout: Seconds | None=...) -> int: ...
    def find(self, pattern: str | re.Pattern[str], *, timeout: Seconds | None=...) -> re.Match[str] | None: r"""Wait as `expect` does for one pattern, but return ``None`` at the timeout or at the program's end."""
    def waiting(self) -> Waiting | None: r"""Return the input that the program waits for now; ``None`` if the program does not wait, or the host cannot tell."""
    def wait_for_input(self, *, timeout: Seconds | None=...) -> Waiting | None: r"""Wait until the program waits for input, which is noticed within a second."""

class Environment:
    @staticmethod
    def detect(host_or_backend: str | SSHOptions | Backend | None=None, *, shell: str | None=None, cwd: str | PathLike[str] | None=None, interactive: Interactive=False, limits: OutputLimits | None=None, artifacts: ArtifactStore | Literal['default'] | None='default', snapshot: bool=False, prefix: str | None=None, max_jobs: int=..., max_terminals: int=..., background_after: Seconds | None=None, policy: Policy | None=None, variables: Variables | None=None, redact: bool | Redaction=False, audit: Audit | None=None, resolvers: Mapping[str, Resolver | None] | None=None, reach: Reach | Sandbox | None=None) -> Environment: r"""Detect a host's facts and its shell, and make an environment."""
    def run(self, command: CommandLike, *, cwd: str | PathLike[str] | None=None, env: Mapping[str, str | None] | None=None, stdin: Stdin | None=None, timeout: Seconds | None=None, silence: Seconds | None=None, grace: Seconds=..., left_behind: LeftBehind | None=None, split_stderr: bool=False, stdout: Stdout | None=None, listener: Listener | None=None, background_after: Seconds | Literal['default'] | None='default', terminal: Terminal | None=None, record: str | PathLike[str] | Recording | None=None, limits: OutputLimits | None=None, effects: bool | Sequence[str] | Scan=False, reach: Reach | None=None, control: _engine.Control | None=None) -> Outcome: r"""Run a command in a fresh shell and wait for its end."""
    @overload
    def start(self, command: CommandLike, *, cwd: str | PathLike[str] | None=None, env: Mapping[str, str | None] | None=None, stdin: Stdin | None=None, timeout: Seconds | None=None, silence: Seconds | None=None, grace: Seconds=..., ready: Ready | None=None, ready_timeout: Seconds | None=..., detach: Literal[False]=False, split_stderr: bool=False, stdout: Stdout | None=None, terminal: Terminal | None=None, record: str | PathLike[str] | Recording | None=None, reach: Reach | None=None) -> Job: ...
    @overload
    def start(self, command: CommandLike, *, cwd: str | PathLike[str] | None=None, env: Mapping[str, str | None] | None=None, detach: Literal[True], reach: Reach | None=None) -> DetachedJob: ...
    def stream(self, command: CommandLike, *, by: Literal['lines', 'chunks']='lines', cwd: str | PathLike[str] | None=None, env: Mapping[str, str | None] | None=None, stdin: Stdin | None=None, timeout: Seconds | None=None, silence: Seconds | None=None, grace: Seconds=..., left_behind: LeftBehind | None=None, split_stderr: bool=False, stdout: Stdout | None=None, terminal: Terminal | None=None, record: str | PathLike[str] | Recording | None=None, limits: OutputLimits | None=None, effects: bool | Sequence[str] | Scan=False, reach: Reach | None=None) -> Stream: r"""Run a command and stream its output as events."""
    def orphans(self) -> Sequence[ProcessInfo]: r"""Return the processes on the host whose anyshell was killed before it could stop them."""
    def close(self) -> None: r"""Close the environment: stop its commands, jobs and sessions, and close the connections to the host."""
    def trial(self, command: CommandLike, *, cwd: str | PathLike[str] | None=None, env: Mapping[str, str | None] | None=None, stdin: Stdin | None=None, timeout: Seconds | None=None, silence: Seconds | None=None, grace: Seconds=..., split_stderr: bool=False, listener: Listener | None=None, limits: OutputLimits | None=None, reach: Reach | None=None, control: _engine.Control | None=None) -> Trial: r"""Run a command on a layer above `directory`, and show its effects on files without changing one."""
    def checkpoint(self, *, since: Checkpoint | None=None) -> Checkpoint: r"""Save the present state of the files in `directory`, which `restore` can bring back."""
    def restore(self, checkpoint: Checkpoint, *, until: Checkpoint | None=None) -> Restored: r"""Restore the files in `directory` to their state at a checkpoint."""
    def terminal(self, command: CommandLike, *, columns: int=80, rows: int=24, term: str='xterm-256color', cwd: str | PathLike[str] | None=None, env: Mapping[str, str | None] | None=None, timeout: Seconds | None=None, silence: Seconds | None=None, grace: Seconds=..., left_behind: LeftBehind='adopt', listener: Listener | None=None, answers: bool=True, scrollback: int | None=None, record: str | PathLike[str] | Recording | None=None, reach: Reach | None=None, control: _engine.Control | None=None) -> DrivenTerminal: r"""Run a program on a terminal that the caller drives: type input, read the screen, wait for output."""
    def session(self, name: str | None=None, *, cwd: str | PathLike[str] | None=None, env: Mapping[str, str | None] | None=None, reach: Reach | None=None) -> Session: r"""Return a session: a persistent shell that keeps directory, variables and functions between commands."""
    @property
    def reach(self) -> Reach | None: r"""The reach of the environment's commands, with absolute paths; ``None`` without a reach."""
    @property
    def unconfined(self) -> bool: r"""Whether commands have no reach by default, rather than by an explicit preset ``none``."""
    @property
    def info(self) -> HostInfo: r"""The facts of the host."""
    def quote(self, *arguments: Argument) -> str: r"""Quote arguments as words of the shell's language, so that a text can hold each argument literally."""
    @property
    def os(self) -> OperatingSystem: r"""The host's system: ``linux``, ``macos`` or ``windows``."""
    @property
    def arch(self) -> str: r"""The host's architecture, such as ``x86_64``."""
    @property
    def shell(self) -> ShellInfo: r"""The shell that runs commands: its kind, path and version."""
    @property
    def host(self) -> str: r"""The name of the host for people."""
    @property
    def directory(self) -> str: r"""The default directory of commands; absolute, on the host."""
    @property
    def closed(self) -> bool: r"""Whether the environment was closed, and starts no more commands."""
    @property
    def entered(self) -> bool: r"""Whether the environment was entered with ``async with``, and so may own jobs, sessions and terminals."""
    @property
    def interactive(self) -> bool: r"""Whether the host's pager, editor, prompt, colour and progress variables are left unchanged."""
    @property
    def limits(self) -> OutputLimits: r"""The limits of an output's text."""
    @property
    def artifacts(self) -> ArtifactStore | None: r"""The store of whole outputs whose text was cut; ``None`` when no whole output is kept."""
    @property
    def audit(self) -> Audit | None: r"""The audit log of every command; ``None`` without an audit log."""
    @property
    def policy(self) -> Policy | None: r"""The policy for commands of models; ``None`` means no policy."""
    @property
    def prefix(self) -> str | None: r"""The words that stand before the shell that runs a command."""
    @property
    def terminals(self) -> bool: r"""Whether terminals should be offered: false if ``ANYSHELL_NO_PTY`` was set when the environment was made."""
    @property
    def snapshot(self) -> str | None: r"""The file on the host that every shell reads first; ``None`` if no snapshot was requested, or none could be made."""
    @property
    def snapshot_notices(self) -> tuple[str, ...]: r"""Notices about the snapshot of the user's set-up, one sentence each: failures and omissions."""
    @property
    def files(self) -> HostFiles: r"""The host's files."""
    @property
    def jobs(self) -> Jobs: r"""The running jobs of this environment, and the jobs that ended lately."""
    @property
    def background_after(self) -> float | None: r"""Seconds after which a command that `run` waits for goes on as a job; ``None`` is never."""
    @property
    def description(self) -> str: r"""The description of this host's shell for a model, with its values filled in."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

class Fleet:
    def __init__(self, hosts: Iterable[str | SSHOptions | Backend], *, parallelism: int=..., batch: int | None=None, stop_on_failure: bool=False, connect_timeout: Seconds | None=..., shell: str | None=None, cwd: str | PathLike[str] | None=None, interactive: bool=False, limits: OutputLimits | None=None, artifacts: ArtifactStore | Literal['default'] | None='default', snapshot: bool=False, prefix: str | None=None, variables: Variables | None=None, redact: bool | Redaction=False, audit: Audit | None=None, resolvers: Mapping[str, Resolver | None] | None=None, reach: Reach | Sandbox | None=None) -> None: ...
    @property
    def hosts(self) -> tuple[str, ...]: r"""The names of the hosts, in their order."""
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def run(self, command: CommandLike | Callable[[Environment], CommandLike], *, cwd: str | PathLike[str] | None=None, env: Mapping[str, str | None] | None=None, stdin: bytes | str | PathLike[str] | None=None, timeout: Seconds | None=None, silence: Seconds | None=None, grace: Seconds=..., left_behind: Literal['stop', 'keep']='stop', split_stderr: bool=False, stdout: str | PathLike[str] | None=None, effects: bool | Sequence[str] | Scan=False, listener: FleetListener | None=None, observer: FleetObserver | None=None) -> FleetRun: r"""Run a command on every host, each in a fresh shell. The run begins with the first step of ``async for``."""

class FleetRun:
    @property
    def hosts(self) -> tuple[HostProgress, ...]: r"""The progress of each host, in the fleet's order."""
    @property
    def ended(self) -> bool: r"""Whether every host has ended, and every outcome was taken."""
    def cancel(self) -> None: r"""Ask the command to end on every host, and begin no further host. Returns at once."""
    def __iter__(self) -> Iterator[HostOutcome]: ...

class HostFiles:
    def stat(self, path: AnyPath, *, follow: bool=True) -> FileStat: r"""Describe a file; the link itself when `follow` is false."""
    def exists(self, path: AnyPath) -> bool: r"""Return whether a file exists at the path. A link counts as its target."""
    def is_file(self, path: AnyPath) -> bool: r"""Return whether the path is a regular file, or a link to one."""
    def is_dir(self, path: AnyPath) -> bool: r"""Return whether the path is a directory, or a link to one."""
    def list(self, path: AnyPath='.') -> builtins.list[str]: r"""Return the sorted names in a directory, without ``.`` and ``..``."""
    def read(self, path: AnyPath, *, offset: int=0, length: int | None=None) -> bytes: r"""Read a file or a range of it."""
    def read_text(self, path: AnyPath, *, encoding: str='utf-8', errors: str='strict') -> str: r"""Read a whole file as text. Line ends stay exactly as they are in the file."""
    def read_lines(self, path: AnyPath, *, encoding: str='utf-8', errors: str='strict') -> builtins.list[str]: r"""Read a whole file as lines, each with its own line end: joined, the lines are the text."""
    def write(self, path: AnyPath, data: bytes, *, append: bool=False) -> None: r"""Append to a file, or replace the file atomically: a reader sees the old or the new content, never a mixture."""
    def write_text(self, path: AnyPath, text: str, *, encoding: str='utf-8', errors: str='strict') -> int: r"""Replace a file by a text, atomically. Line ends are written exactly as they are in the text."""
    def append_text(self, path: AnyPath, text: str, *, encoding: str='utf-8', errors: str='strict') -> int: r"""Append a text to a file; a missing file is created. Otherwise as `write_text`."""
    def mkdir(self, path: AnyPath, *, parents: bool=False, exist_ok: bool=False) -> None: r"""Make a directory; with `parents`, also its missing parent directories."""
    def remove(self, path: AnyPath, *, recursive: bool=False) -> None: r"""Remove a file, a link or an empty directory; with `recursive`, a whole tree. Never follows links."""
    def rename(self, source: AnyPath, target: AnyPath) -> None: r"""Rename a file. Replaces a file at `target`."""
    def glob(self, pattern: str, *, directory: AnyPath | None=None, hidden: bool=False) -> builtins.list[str]: r"""Find the files and directories whose paths match a pattern."""
    def upload(self, source: AnyPath, target: AnyPath, *, into: bool=True, on_progress: OnProgress | None=None) -> CopyResult: r"""Copy a file or a directory of this machine to the host."""
    def download(self, source: AnyPath, target: AnyPath, *, into: bool=True, on_progress: OnProgress | None=None) -> CopyResult: r"""Copy a file or a directory of the host to this machine."""

class Job:
    @property
    def id(self) -> str: ...
    @property
    def command(self) -> str: ...
    @property
    def adopted(self) -> bool: ...
    @property
    def ready(self) -> bool | None: ...
    @property
    def notice(self) -> str: ...
    @property
    def status(self) -> JobStatus: r"""The state of the job: ``running``, ``completed``, ``failed``, ``stopped``, ``timed_out`` or ``lost``."""
    @property
    def exit_code(self) -> int | None: r"""The exit code of the job; ``None`` while the job runs, after a signal, and when the code cannot be known."""
    @property
    def pid(self) -> int | None: r"""The pid of the job's program on the host; of an adopted job, the pid of one of its processes."""
    @property
    def printed(self) -> int: r"""Raw bytes that the job has printed so far."""
    @property
    def started(self) -> datetime: r"""The time at which the job began or was adopted, in UTC."""
    @property
    def ended(self) -> datetime | None: r"""The time at which the job ended, in UTC; ``None`` while the job runs."""
    @property
    def outcome(self) -> Outcome | None: r"""The outcome of the job; ``None`` while the job runs, or when the outcome could not be learnt."""
    def wait(self, *, timeout: Seconds | None=None) -> Outcome | None: r"""Wait for the end of the job. A cancellation of this wait does not stop the job."""
    def stop(self, *, grace: Seconds | None=None) -> Outcome: r"""Stop the job's whole tree, as a timeout does, and wait for its end. A cancelled wait does not cancel the stop."""
    def output(self, since: int=0, *, limit: int=..., wait: Seconds=0) -> JobOutput: r"""Read the job's output. Reading removes nothing: every reader can read the same bytes again."""
    @overload
    def wait_for(self, pattern: str | re.Pattern[str], *, timeout: Seconds | None=..., since: int=0) -> re.Match[str] | None: ...
    @overload
    def wait_for(self, *, port: int, timeout: Seconds | None=...) -> bool: ...
    @overload
    def wait_for(self, *, idle: Seconds, timeout: Seconds | None=...) -> bool: ...
    def send(self, data: str | bytes, *, close: bool=False) -> bool: r"""Send data to the job's stdin, as if a person typed it; a line needs its line feed."""

class JobTool:
    @property
    def definition(self) -> ToolDefinition: r"""The definition for the model: a name, a description, and a JSON schema with the limits in force."""
    def __call__(self, params: Mapping[str, object] | JobParams, *, call_id: str | None=None) -> JobResult: r"""Carry out one call."""
    def call(self, params: Mapping[str, object] | JobParams, *, call_id: str | None=None) -> JobResult: r"""Carry out one call."""

class Jobs:
    def list(self) -> Sequence[Job]: r"""Return the running jobs, and those that ended lately, in the order of their start."""
    def get(self, job_id: str) -> Job: r"""Return the job with an id."""
    def observe(self, observer: Observer) -> Callable[[], None]: r"""Call an observer on every job's progress and end, until the returned function is called."""
    @property
    def has_room(self) -> bool: r"""Whether one more job may be started."""
    def start(self, command: str, run: Callable[[Work], Coroutine[Any, Any, Outcome]], *, sends: bool, grace: float, ready: Ready | None, ready_timeout: float | None) -> Job: r"""Start a job, as described for `Environment.start`."""
    def adopt(self, process: Process, survivors: Sequence[ProcessInfo], spawn: Spawn, command: str) -> str: r"""Make a job of the processes that a command left behind; return the job's id. The engine awaits the job."""
    def take(self, command: str, work: Work, grace: float) -> Job: r"""Make a job of a run that a caller has waited for."""
    def close(self) -> None: r"""Stop all jobs at once, each with its own grace, and wait until their end is verified."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

class Session:
    @property
    def forked(self) -> bool: ...
    @property
    def name(self) -> str | None: r"""The name under which the session is shared; ``None`` when it belongs to its owner alone."""
    @property
    def shell(self) -> ShellInfo: r"""The shell of the session."""
    @property
    def directory(self) -> str: r"""The default directory of the next command: the shell's present directory; for a fresh shell, the start directory."""
    @property
    def alive(self) -> bool: r"""Whether the shell runs, as far as is known, and so still has the state from earlier commands."""
    @property
    def abandoned(self) -> Sequence[ProcessInfo]: r"""The processes of shells that could not be killed, which may still run. The last `MOST_ABANDONED`."""
    def __enter__(self) -> Session: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def run(self, command: CommandLike, *, cwd: str | PathLike[str] | None=None, env: Mapping[str, str | None] | None=None, stdin: Stdin | None=None, timeout: Seconds | None=None, silence: Seconds | None=None, grace: Seconds=..., left_behind: LeftBehind | None=None, split_stderr: bool=False, stdout: Stdout | None=None, variables: bool=False, may_be_fresh: bool=True, listener: Callable[[Channel, bytes], Awaitable[None]] | None=None, record: str | PathLike[str] | Recording | None=None, limits: OutputLimits | None=None, effects: bool | Sequence[str] | Scan=False, control: Control | None=None) -> Outcome: r"""Run a command in the session's shell and wait for its end."""
    def interrupt(self) -> bool: r"""Interrupt the running command, as ^C does at a prompt: send SIGINT to its processes; the shell is kept."""
    def fork(self, *, timeout: Seconds | None=None) -> Session: r"""Make a second session with a copy of this session's shell state, to try two ways side by side."""
    def restart(self) -> None: r"""Stop the running commands, end the shell, and run the next command in a fresh shell."""
    def close(self) -> None: r"""Stop the running commands and end the shell. Closing twice does nothing."""

class ShellTool:
    def __init__(self, env: Environment, *, approver: Approver, limits: ToolLimits | None=None, session: bool=False, jobs: bool=False, terminals: bool=False, secrets: SecretSource | None=None, console: ConsoleOpener | None=None, silence: Seconds | None=None, confirmed: bool=False, tools: Sequence[str]=..., advice: Collection[str]=..., policy: Policy | None=None, interception: bool | Iterable[InterceptionRule]=False, minimize: bool | Iterable[str | PathLike[str]]=False, view_limits: bool=False, ask_each: bool=False, effects: bool | Sequence[str] | Scan=False, approve: Approve='command') -> None: ...
    @property
    def definition(self) -> ToolDefinition: r"""The definition for the model: a name, a description of this host and the limits, and a JSON schema."""
    def describe(self, *, sections: Mapping[str, str | None] | None=None) -> ToolDefinition: r"""Return the definition with other texts in its description."""
    @property
    def job_tool(self) -> JobTool: r"""The tool ``job``, by which the model controls the jobs of this tool, with terminals or without."""
    @property
    def kept(self) -> tuple[str, ...]: r"""The ids of the kept outputs that results have named, the newest last."""
    def close(self) -> None: r"""Refuse further commands, and end the tool's session. The end of the environment does the same."""
    def cancel(self, call_id: str) -> None: r"""Cancel a call of this tool or of its `job_tool`. The call then returns a result."""
    def __call__(self, params: Mapping[str, object] | ShellParams, *, on_update: OnUpdate | None=None, call_id: str | None=None) -> ShellResult: r"""Carry out one call."""
    def call(self, params: Mapping[str, object] | ShellParams, *, on_update: OnUpdate | None=None, call_id: str | None=None) -> ShellResult: r"""Carry out one call."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

class Stream:
    @property
    def outcome(self) -> Outcome: r"""The outcome of the command."""
    @property
    def pid(self) -> int | None: r"""The pid on the host of the command's shell; also the id of its process group, where hosts have process groups."""
    def cancel(self) -> None: r"""Ask the command to end. Events continue until the end; the outcome is then ``cancelled``."""
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def __iter__(self) -> Iterator[OutputEvent]: ...

class Trial:
    @property
    def outcome(self) -> Outcome: r"""The outcome of the command; its `Outcome.effects` are `effects`. Raises `AnyshellError` before the end."""
    @property
    def effects(self) -> Effects: r"""The effects that a commit would have in the directory of the environment."""
    @property
    def diff(self) -> str: r"""The changes of text files as a unified diff; `Effects.without_diff` names the files without a diff."""
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def run(self) -> Outcome: r"""Run the command, once. The caller then has to call `discard`, unless `run` raises. ``async with`` calls both."""
    def commit(self) -> None: r"""Make the command's writes real: all writes, or none. Each file is whole at every moment."""
    def discard(self) -> None: r"""Discard the command's writes. A second call, or a call after a commit, does nothing."""
