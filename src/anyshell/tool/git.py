"""By which keys of its configuration git runs programs on a host that SSH reaches: its files, as that host tells them."""

from __future__ import annotations

import posixpath
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from ..policy.rules.git import (
    LARGEST_CONFIGURATION,
    LARGEST_INDEX,
    SUBMODULE,
    SYSTEM_CONFIGURATION,
    keys_that_run,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

FILE_ROUNDS = 5
"""Times that a host is asked for files of git's configuration: those of a plain repository are all told in the first."""

MOST_FILES = 100
"""Files that a host is asked for in one round, besides those that are always told; with more, the keys are not known."""

RESOLVE = r"""
resolve() {
  p=$1 t= i=0
  until [ -e "$p" ] && r=$(readlink -f -- "$p" && printf .); do
    if [ -L "$p" ]; then
      i=$((i + 1))
      if [ $i -gt 40 ] || ! r=$(readlink -- "$p" && printf .); then r=; return; fi
      case $r in /*) p=${r%??} ;; *) p=${p%/*}/${r%??} ;; esac
    else
      [ "$p" != / ] || break
      t=/${p##*/}$t p=${p%/*} p=${p:-/}
    fi
  done
  r=${r%??}
  r=${r%/}$t
  case $t/ in
  *//*|*/./*|*/../*) r= ;;
  *) r=${r:-/} ;;
  esac
}
"""
"""Sets ``r`` to an absolute path with its links resolved; one that does not exist, as far as it does. To nothing if not known."""

# The first argument is the directory; the others are what is asked for besides. First come HOME and XDG_CONFIG_HOME, the variables of
# git, an empty field, and the directory; then three fields a file: its path, its kind, and its content or the names in it.
# A NUL ends each field, so that one in a file becomes another character that no plain configuration has. An index is not told: only
# whether it has the mode of a submodule, in bytes that grep can be asked for.
_ASKED = (
    RESOLVE
    + rf"""
LC_ALL=C
export LC_ALL
look() {{
  printf '%s\0' "$1"
  d=${{1%/*}}
  if [ -d "$1" ]; then
    if (cd -- "$1") 2>/dev/null && [ -r "$1" ]; then
      printf 'd\0'
      (cd -- "$1" && for n in .* *; do
        case $n in .|..) continue ;; esac
        if [ -e "$n" ] || [ -L "$n" ]; then printf '%s/' "$n"; fi
      done)
    else printf '?\0'
    fi
  elif [ -f "$1" ] && [ -r "$1" ]; then
    case ${{1##*/}} in
    index)
      if [ $(wc -c < "$1") -gt {LARGEST_INDEX} ]; then printf '?\0'
      elif tr '\000\340' '\376\377' < "$1" | grep -q "$(printf '\376\376\377\376')"; then printf 's\0'
      else printf 'n\0'
      fi ;;
    *)
      printf 'f\0'
      dd if="$1" bs=1024 count={LARGEST_CONFIGURATION // 1024 + 1} 2>/dev/null | tr '\000' '\001' ;;
    esac
  elif [ -e "$1" ] || [ -L "$1" ] || {{ [ -d "${{d:-/}}" ] && [ ! -x "${{d:-/}}" ]; }}; then printf '?\0'
  else printf '%s\0' -
  fi
  printf '\0'
}}
printf '%s\0' "${{HOME-}}" "${{XDG_CONFIG_HOME-}}"
for n in $(env | sed -n 's/^\(GIT_[A-Za-z0-9_]*\)=.*/\1/p'); do
  eval "printf '%s=%s\0' $n \"\${{$n-}}\""
done
resolve "$1"
c=$r
printf '\0%s\0' "$c"
shift
if [ $# -gt 0 ]; then
  for n; do look "$n"; done
  exit
fi
look "${{XDG_CONFIG_HOME:-${{HOME-}}/.config}}/git/config"
look "${{HOME-}}/.gitconfig"
look {SYSTEM_CONFIGURATION}
while :; do
  for n in .git HEAD objects; do look "${{c%/}}/$n"; done
  if [ -d "${{c%/}}/.git" ]; then
    for n in commondir config config.worktree hooks index; do look "${{c%/}}/.git/$n"; done
  fi
  [ "$c" != / ] || break
  c=${{c%/*}} c=${{c:-/}}
done
"""
)


class _ToldFiles:
    """The files of a host as it has told them. What it was not asked for is taken for missing, and to be asked for.

    Args:
        directory: The one that is asked about, its links resolved.
        told: By their paths, each with its kind.
    """

    def __init__(self, directory: str, told: Mapping[str, tuple[str, bytes]]) -> None:
        self._directory = directory
        self._told = told
        self.missing: dict[str, None] = {}

    def join(self, directory: str, path: str) -> str:
        return posixpath.join(directory, path)

    def above(self, path: str) -> str:
        return posixpath.dirname(path)

    def real(self, path: str) -> str:
        return self._directory

    def is_directory(self, path: str) -> bool:
        return self._look(path)[0] == "d"

    def exists(self, path: str) -> bool:
        return self._look(path)[0] != "-"

    def names(self, directory: str) -> Sequence[str]:
        kind, data = self._look(directory)
        if kind not in ("d", "-"):
            raise NotADirectoryError(directory)
        return data.decode("utf-8", "surrogateescape").split("/")[:-1]

    def content(self, path: str, largest: int) -> bytes | None:
        kind, data = self._look(path)
        return data if kind == "-" or (kind == "f" and len(data) <= largest) else None

    def holds(self, path: str, data: bytes, largest: int) -> bool | None:
        kind, _ = self._look(path)
        return {"-": False, "n": False, "s": True}.get(kind) if data == SUBMODULE else None

    def _look(self, path: str) -> tuple[str, bytes]:
        if path not in self._told:
            self.missing[path] = None
            return "-", b""
        return self._told[path]


async def git_runs(
    directory: str, ask: Callable[[tuple[str, ...]], Awaitable[bytes | None]]
) -> tuple[str, ...] | None:
    """The keys by which git has run programs for a directory of a host, as `keys_that_run` gives them; ``None`` if not known.

    Args:
        directory: An absolute path there.
        ask: Has the host run what follows ``sh``; ``None`` when it did not in time, or said too much.
    """
    told: dict[str, tuple[str, bytes]] = {}
    asked: tuple[str, ...] = ()
    for _ in range(FILE_ROUNDS):
        answer = await ask(("-c", _ASKED, "sh", directory, *asked))
        if answer is None:
            return None
        try:
            fields = iter(answer.split(b"\0")[:-1])
            home, config_home = map(_text, islice(fields, 2))
            environ = dict(_text(field).split("=", 1) for field in takewhile(bool, fields))
            real = _text(next(fields))
            while len(looked := tuple(islice(fields, 3))) == 3:
                told[_text(looked[0])] = _text(looked[1]), looked[2].replace(b"\1", b"\0")
        except (StopIteration, ValueError):
            return None
        if looked or not all(path.startswith("/") for path in (home, real, config_home or "/")):
            return None
        files = _ToldFiles(real, told)
        try:
            keys = keys_that_run(real, home, {**environ, "XDG_CONFIG_HOME": config_home}, files=files)
        except OSError:
            keys = None
        if not files.missing:
            return keys
        asked = tuple(files.missing)
        if len(asked) > MOST_FILES or not all(path.startswith("/") for path in asked):
            return None
    return None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
