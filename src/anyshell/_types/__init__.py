"""The values that travel from a request to its outcome. All of these values are frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import importer

if TYPE_CHECKING:
    from .approval import ApprovalRequest as ApprovalRequest
    from .approval import Approved as Approved
    from .approval import CommandRequest as CommandRequest
    from .approval import Grant as Grant
    from .approval import JobInputRequest as JobInputRequest
    from .approval import NetworkRequest as NetworkRequest
    from .approval import ReachRequest as ReachRequest
    from .approval import Refused as Refused
    from .approval import SecretInputRequest as SecretInputRequest
    from .approval import TerminalInputRequest as TerminalInputRequest
    from .checks import LONGEST_NAME as LONGEST_NAME
    from .checks import as_duration as as_duration
    from .checks import check_choice as check_choice
    from .checks import check_count as check_count
    from .checks import check_port as check_port
    from .checks import check_seconds as check_seconds
    from .checks import check_text as check_text
    from .checks import check_variable as check_variable
    from .checks import cut_name as cut_name
    from .checks import exact as exact
    from .checks import one_line as one_line
    from .command import DEFAULT_GRACE as DEFAULT_GRACE
    from .command import READY_SECONDS as READY_SECONDS
    from .command import Command as Command
    from .command import LeftBehind as LeftBehind
    from .command import LoginCommand as LoginCommand
    from .command import ShellArgv as ShellArgv
    from .command import Spawn as Spawn
    from .effects import Effects as Effects
    from .effects import FileEffect as FileEffect
    from .effects import Scan as Scan
    from .effects import to_scan as to_scan
    from .expectation import ExpectTimeout as ExpectTimeout
    from .expectation import ProgramEnded as ProgramEnded
    from .files import CopyProgress as CopyProgress
    from .files import CopyResult as CopyResult
    from .files import FileEntry as FileEntry
    from .files import FileKind as FileKind
    from .files import FileStat as FileStat
    from .host import HostInfo as HostInfo
    from .host import HostQuery as HostQuery
    from .host import OperatingSystem as OperatingSystem
    from .names import Names as Names
    from .network import Destination as Destination
    from .network import Network as Network
    from .outcome import CommandFailed as CommandFailed
    from .outcome import JobStatus as JobStatus
    from .outcome import Outcome as Outcome
    from .outcome import Status as Status
    from .outcome import learn as learn
    from .output import MASK as MASK
    from .output import Output as Output
    from .output import OutputLimits as OutputLimits
    from .output_parts import Artifact as Artifact
    from .output_parts import JobOutput as JobOutput
    from .output_parts import OutputEvent as OutputEvent
    from .output_parts import OutputImage as OutputImage
    from .process import LONGEST_USED as LONGEST_USED
    from .process import Channel as Channel
    from .process import ExitStatus as ExitStatus
    from .process import ProcessInfo as ProcessInfo
    from .process import Signal as Signal
    from .process import Usage as Usage
    from .process import still_named as still_named
    from .process import told_usage as told_usage
    from .recording import LARGEST_RECORDING as LARGEST_RECORDING
    from .recording import LEAST_RECORDING as LEAST_RECORDING
    from .recording import LONGEST_TITLE as LONGEST_TITLE
    from .recording import Recording as Recording
    from .recording import RecordingReport as RecordingReport
    from .recording import to_recording as to_recording
    from .resolved import Creates as Creates
    from .resolved import Resolved as Resolved
    from .session import SessionReport as SessionReport
    from .shell import ShellCandidate as ShellCandidate
    from .shell import ShellInfo as ShellInfo
    from .shell import ShellKind as ShellKind
    from .terminal import LARGEST_TERMINAL as LARGEST_TERMINAL
    from .terminal import Foreground as Foreground
    from .terminal import Screen as Screen
    from .terminal import Terminal as Terminal
    from .terminal import TerminalKind as TerminalKind
    from .terminal import TerminalLines as TerminalLines
    from .terminal import Waiting as Waiting
    from .variables import SECRET_NAMES as SECRET_NAMES
    from .variables import Variables as Variables
    from .variables import matcher as matcher
else:
    __getattr__ = importer(
        __name__,
        {
            "approval": "ApprovalRequest Approved CommandRequest Grant JobInputRequest NetworkRequest ReachRequest Refused SecretInputRequest TerminalInputRequest",
            "checks": "LONGEST_NAME as_duration check_choice check_count check_port check_seconds check_text check_variable cut_name exact one_line",
            "command": "DEFAULT_GRACE READY_SECONDS Command LeftBehind LoginCommand ShellArgv Spawn",
            "names": "Names",
            "network": "Destination Network",
            "effects": "Effects FileEffect Scan to_scan",
            "expectation": "ExpectTimeout ProgramEnded",
            "files": "CopyProgress CopyResult FileEntry FileKind FileStat",
            "host": "HostInfo HostQuery OperatingSystem",
            "outcome": "CommandFailed JobStatus Outcome Status learn",
            "output": "MASK Output OutputLimits",
            "output_parts": "Artifact JobOutput OutputEvent OutputImage",
            "process": "Channel ExitStatus LONGEST_USED ProcessInfo Signal Usage still_named told_usage",
            "resolved": "Creates Resolved",
            "recording": "LARGEST_RECORDING LEAST_RECORDING LONGEST_TITLE Recording RecordingReport to_recording",
            "session": "SessionReport",
            "shell": "ShellCandidate ShellInfo ShellKind",
            "terminal": "LARGEST_TERMINAL Foreground Screen Terminal TerminalKind TerminalLines Waiting",
            "variables": "SECRET_NAMES Variables matcher",
        },
    )
