"""The configuration keys by which git runs programs on an SSH host, from files that the host tells."""

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
"""Times that a host is asked for files of git's configuration; then the keys are not known. A plain repository needs one."""

MOST_FILES = 100
"""Files that a host is asked for in one round, apart from files that are always told; with more, the keys are not known."""

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
"""A shell function that sets ``r`` to a path with its links resolved, up to the last existing part; empty if unknown."""

# The first argument is the directory; the others are further files to tell. The answer begins with HOME, XDG_CONFIG_HOME, the
# variables of git, an empty field, and the directory. Then each file has three fields: path, kind, and content or entry names.
# A NUL ends each field. A NUL in a file therefore becomes \1, which no plain configuration has. The content of an index is not
# told: only whether an entry has the mode of a submodule, in bytes that grep can search for.
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
    """The files of a host, from the host's answers. A file that is not told yet counts as missing, and goes into `missing`.

    Args:
        directory: The directory in question, with its links resolved.
        told: The kind and the content of each file, by path.
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
    """Return the keys by which git runs programs in a directory of a host, as `keys_that_run` does; ``None`` if unknown.

    Args:
        directory: An absolute path on the host.
        ask: Runs ``sh`` with the given arguments on the host; returns ``None`` if the output is too late or too long.
    """
    told: dict[str, tuple[str, bytes]] = {}
    asked: tuple[str, ...] = ()
    # Each round tells more files. The keys are known once `keys_that_run` has missed no file; then its answer is final.
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
