"""The options of wrappers, programs that run a command given as their arguments: a table, and a function that reads options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .parsed import Argument, Assignment
from .words import names

if TYPE_CHECKING:
    from collections.abc import Sequence

# The options of each program, and the words after the options.
# -a: a flag. -a: with a colon takes a value. -a? takes a value within its own word. --a= takes a value within its word or in
# the next word. --a may have a value within its word. -# is a number. With ! the program runs no command.
# After the options: = for assignments to variables; the number of operands; and the meaning of the other words: words of a
# command (the default); `joined`: joined to a text for sh; `shell`: words, and without words a shell that reads stdin.
OPTIONS = {
    "sudo": "-A -b -B -E -H -k -K -l! -n -P -S -v -V! -u: -g: -h: -p: -C: -D: -r: -t: -T: -U: --user= --group= --host= --prompt= "
    "--chdir= --non-interactive --preserve-env --background --set-home --stdin --validate --list! --version! --reset-timestamp =",
    "doas": "-L! -n -u:",
    "pkexec": "--user= --disable-internal-agent --version!",
    "env": "-i -0 -v -u: -C: --ignore-environment --null --unset= --chdir= --debug --version! --help! =",
    "nohup": "--version! --help!",
    "setsid": "-c -f -w --ctty --fork --wait",
    "timeout": "-f -k: -p -s: -v --foreground --kill-after= --preserve-status --signal= --verbose --version! --help! 1",
    "nice": "-n: -# --adjustment= --version! --help!",
    "ionice": "-c: -n: -t --class= --classdata= --ignore",
    "chrt": "-a -b -d -f -i -m! -o -r -R -v -T: -P: -D: --batch --fifo --idle --other --rr --max! 1",
    "taskset": "-a -c --cpu-list --all-tasks 1",
    "stdbuf": "-i: -o: -e: --input= --output= --error=",
    "time": "-a -f: -o: -p -q -v --append --format= --output= --portability --quiet --verbose --version! --help! -l -h",
    "command": "-p -v! -V!",
    "builtin": "",
    "exec": "-c -l -a:",
    "chroot": "--groups= --userspec= --skip-chdir 1 shell",
    "unshare": "-c -f -i -m -n -p -r -u -C -T -U --fork --ipc --kill-child --map-auto --map-root-user --mount --mount-proc --net "
    "--pid --user --uts --cgroup --time shell",
    "nsenter": "-a -e -t: -m? -u? -i? -n? -p? -C? -U? -T? -F --all --target= --mount --uts --ipc --net --pid --cgroup --user shell",
    "setarch": "-R -v -3 --addr-no-randomize 1 shell",
    "linux32": "-R shell",
    "linux64": "-R shell",
    "strace": "-a: -A -b: -c -C -d -D -e: -E: -f -F -h! -i -I: -k -n -N -O: -P: -q -r -s: -S: -t -T -u: -U: -v -V! -w -x -X: -y -Y "
    "-z -Z --follow-forks --summary-only",
    "ltrace": "-a: -b -c -C -e: -f -i -L -l: -n: -r -s: -S -t -T -u: -V! -x:",
    "busybox": "--list! --help!",
    "toybox": "--help!",
    "fakeroot": "-u",
    "faketime": "-f -m -p: 1",
    "chronic": "-e -v",
    "unbuffer": "-p",
    "caffeinate": "-d -i -m -s -u -t: -w:",
    "xvfb-run": "-a -e: -f: -l -n: -p: -s: -w: --auto-servernum --error-file= --listen-tcp --server-args= --server-num= --wait=",
    "dbus-run-session": "",
    "firejail": "",
    "setpriv": "",
    "watch": "-b -c -d -e -g -n: -p -q: -r -t -w --beep --color --differences --errexit --chgexit --interval= --precise --no-title "
    "--no-wrap --help! --version! joined",
    "uv run": "-q -v --frozen --locked --no-sync --isolated --active --no-dev --all-extras --quiet --verbose --group= --extra= "
    "--with= --python= -p: --directory= --project= --package= --no-project --env-file= --only-group= --only-dev --no-build "
    "--no-default-groups --no-editable --managed-python --refresh -m! --module! -s! --script!",
    "poetry run": "",
    "pipenv run": "",
    "pdm run": "-s",
    "rye run": "",
    "bundle exec": "--keep-file-descriptors",
    "direnv exec": "1",
    "bisect run": "",
    "docker exec": "-d -e: -i -t -u: -w: --detach --env= --env-file= --interactive --privileged --tty --user= --workdir= 1",
    "podman exec": "-d -e: -i -t -u: -w: -l --detach --env= --interactive --privileged --tty --user= --workdir= 1",
    "kubectl exec": "-c: -i -n: -q -t --container= --namespace= --stdin --tty --quiet 1",
    "flock": "-e -E: -F -n -o -s -u -v -w: -x --close --conflict-exit-code= --exclusive --no-fork --nonblock --nb --shared "
    "--timeout= --unlock --verbose --wait= 1",
    "xargs": "-0 -a: -d: -e? -E: -i? -I: -J: -l? -L: -n: -o -p -P: -r -R: -s: -S: -t -x --arg-file= --delimiter= --eof --exit "
    "--interactive --max-args= --max-chars= --max-lines --max-procs= --no-run-if-empty --null --open-tty --process-slot-var= "
    "--replace --show-limits! --verbose --version! --help!",
    "parallel": "-0 -a: -d: -I: -j: -k -L: -m -n: -N: -P: -q -r -t -u -v -X --bar --citation! --colsep= --delay= --dry-run --eta "
    "--group --halt= --jobs= --joblog= --keep-order --line-buffer --lb --linebuffer --max-args= --no-notice --null --progress "
    "--results= --retries= --tag --timeout= --ungroup --verbose --will-cite --version! --help! joined",
    "ssh": "-4 -6 -A -a -C -f -G! -g -K -k -M -N! -n -q -s! -T -t -V! -v -W: -X -x -Y -y -B: -b: -c: -D: -e: -i: -J: -L: -l: -m: "
    "-o: -p: -Q! -R: -w:",
    "su": "-c: -f -g: -G: -l -m -p -P --command= --fast --group= --login --preserve-environment --pty --session-command=",
    "runuser": "-c: -f -g: -G: -l -m -p -P -u: --command= --fast --group= --login --preserve-environment --pty --user=",
    "script": "-a -c: -e -E: -f -q -t? --append --command= --flush --quiet --return --echo=",
    "git": "-C: -c: -p -P --bare --git-dir= --glob-pathspecs --help! --icase-pathspecs --literal-pathspecs --namespace= --no-lazy-fetch "
    "--no-optional-locks --no-pager --no-replace-objects --noglob-pathspecs --paginate --version! --work-tree= -h! -v! "
    "--exec-path! --html-path! --man-path! --info-path!",
    "shell": "-a -b -e -f -h -i -l -m -n -u -v -x -B -C -E -H -T -c -o: -r --login --noprofile --norc --restricted "
    "--verbose --version! --help!",
}
SETTINGS = names(
    "pipefail errexit nounset xtrace noglob noclobber allexport monitor verbose errtrace functrace noexec notify"
)
"""Settings of ``set -o``, or of a shell's option -o, that do not change how the shell reads texts and patterns."""
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_GIVEN = re.compile(r"([^=]*)=(.*)", re.DOTALL)  # env takes any word with = as a variable, such as a.b=c


class Read(NamedTuple):
    """The options of a program, as read by the table."""

    rest: tuple[Argument, ...]
    values: dict[str, Argument]
    flags: frozenset[str]
    variables: tuple[Assignment, ...]
    ends: bool  # the program runs no command
    unknown: str


def read_options(program: str, arguments: Sequence[Argument]) -> Read:
    """Read the options of a program by the table. An option that is not in the table is unknown: it may take the next word."""
    known = names(OPTIONS[program])
    values: dict[str, Argument] = {}
    flags: set[str] = set()
    variables: list[Assignment] = []
    ends, position, unknown = False, 0, ""
    operands = max((int(each) for each in known if each.isdigit()), default=0)
    # Invariant: all words before `position` are understood. An option that is not in the table ends the reading as unknown:
    # the option may take the next word, and then the program to run is a later word.
    while position < len(arguments) and not unknown:
        word = arguments[position]
        text = word.text
        pattern = _GIVEN if word.literal and not text.startswith("-") else _ASSIGNED
        assigned = pattern.fullmatch(text) if "=" in known else None
        if assigned and (word.single):
            start = word.span[0] + len(assigned[1]) + 1
            variables.append(
                Assignment(
                    assigned[1], Argument(assigned[2], word.literal, (min(start, word.span[1]), word.span[1]))
                )
            )
        elif not word.literal and not (word.single and re.match(r"--[\w-]+=", text)):
            if not re.match(r"\"?[\w./~+@:%]", text):
                unknown = f"{program} with a word that may be an option: {text[:40]}"
            break
        elif text == "--":
            position += 1
            break
        elif text == "-" and program in ("env", "su", "runuser"):
            flags.add("-")
        elif not text.startswith("-") or text == "-":
            break
        elif text.startswith("--"):
            name, equals, value = text.partition("=")
            if f"{name}=" in known:
                if not equals:
                    position += 1
                    if position >= len(arguments) or not (arguments[position].single):
                        unknown = f"{program} {name} without a value that is one word"
                        break
                values[name] = Argument(value, word.literal, word.span) if equals else arguments[position]
            elif name in known or f"{name}!" in known:
                flags.add(name)
                ends = ends or f"{name}!" in known
                if equals:
                    values[name] = Argument(value, word.literal, word.span)
            else:
                unknown = f"{program} with the option {name[:40]}, which is not known"
        elif "-#" in known and text[1:].lstrip("+-").isdigit():
            flags.add(text)
        else:
            position, ended, unknown = _letters(program, known, arguments, position, values, flags)
            ends = ends or ended
        position += 1
    if not unknown and position < len(arguments) and operands:
        taken = arguments[position : position + operands]
        if not all(each.single for each in taken):
            unknown = f"{program} with an operand that may be several words"
        position += operands
        if position < len(arguments) and arguments[position].text == "--" and program == "kubectl exec":
            position += 1
    return Read(tuple(arguments[position:]), values, frozenset(flags), tuple(variables), ends, unknown)


def _letters(
    program: str,
    known: frozenset[str],
    arguments: Sequence[Argument],
    position: int,
    values: dict[str, Argument],
    flags: set[str],
) -> tuple[int, bool, str]:
    """Read a word of one-letter options; the last option may have its value in the same word or in the next word."""
    word, ends = arguments[position], False
    for place, letter in enumerate(word.text[1:], 2):
        option = f"-{letter}"
        value = word.text[place:]
        if option in known or f"{option}!" in known:
            flags.add(option)
            ends = ends or f"{option}!" in known
        elif f"{option}?" in known:
            flags.add(option)
            values[option] = Argument(value, True, word.span)
            break
        elif f"{option}:" in known:
            flags.add(option)
            if not value:
                position += 1
                if position >= len(arguments) or not (arguments[position].single):
                    return position, ends, f"{program} {option} without a value that is one word"
            values[option] = Argument(value, True, word.span) if value else arguments[position]
            setting = values[option]
            if (program, option) == ("shell", "-o") and (
                value or not setting.literal or setting.text not in SETTINGS
            ):
                return position, ends, f"a shell with -o {setting.text[:40]} may read texts in another way"
            break
        else:
            return position, ends, f"{program} with the option {option}, which is not known"
    return position, ends, ""
