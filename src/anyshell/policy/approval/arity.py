"""The number of words that name a command, as a table. The longest entry that a command begins with decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# A program whose effects are in its paths is named by one word. A program that runs other programs by an option, such as find,
# tar or ssh, is in no list; nor is a program that runs a text, such as python -c: all of its words name the command.
_BY_COUNT: Mapping[int, str] = {
    1: (
        "basename, cat, cd, chgrp, chmod, chown, cmp, comm, cp, cut, date, df, diff, dirname, du, echo, "
        "false, file, fmt, fold, grep, head, hexdump, id, ln, ls, md5sum, mkdir, mktemp, mv, nl, od, paste, "
        "printf, ps, pwd, readlink, realpath, rm, rmdir, seq, sha256sum, sleep, stat, tac, tail, touch, tr, "
        "true, truncate, type, uname, uniq, unlink, wc, which, whoami"
    ),
    2: (
        "apt, apt-get, brew, bun, bundle, cargo, composer, conda, deno, dnf, docker, dotnet, flutter, gem, "
        "gh, git, go, gradle, helm, hg, just, kubectl, make, mix, mvn, nix, npm, npx, pip, pip3, pnpm, "
        "podman, poetry, pre-commit, rake, ruff, rustup, svn, swift, systemctl, task, terraform, tox, uv, "
        "yarn, pytest, mypy, eslint, tsc, jest, vitest"
    ),
    3: (
        "aws, az, gcloud, bun run, bundle exec, composer run, deno task, mix do, npm run, pnpm run, poetry "
        "run, yarn run, uv pip, uv run, uv tool, docker compose, docker image, docker network, docker volume, "
        "gh issue, gh pr, gh run, git bisect, git notes, git stash, git worktree, python "
        "-m, python3 -m"
    ),
    # All words name the command: the other words name a text or program that runs or a destination for data, or the command
    # changes what later commands run.
    0: (
        "bun x, docker exec, docker run, gh alias, gh api, gh extension, git clean, git config, git remote, "
        "git submodule, kubectl exec, kubectl run, npm config, npm exec, podman exec, podman run, apt install, "
        "apt-get install, brew install, bun add, cargo install, composer require, dnf install, gem install, "
        "go install, npm add, npm i, npm install, pip install, pip3 install, pnpm add, poetry add, uv add, "
        "yarn add, conda install, go get, docker push, podman push, helm push, cargo publish, dotnet nuget, gem push, gh release, "
        "gh repo, gcloud compute, hg push, npm publish, pnpm publish, poetry publish, svn commit, twine upload, uv publish, "
        "yarn publish"
    ),
}

ARITY: Mapping[tuple[str, ...], int] = {
    tuple(entry.split()): count for count, entries in _BY_COUNT.items() for entry in entries.split(", ")
}


def words_of_name(words: tuple[str, ...]) -> int:
    """Return the number of words that name a command, with the program; 0 if all of the command's words name it."""
    entry = next((words[:size] for size in (2, 1) if words[:size] in ARITY), ())
    count = ARITY.get(entry, 0)
    named = words[len(entry) : count]
    # An option between the words may change the command's target, as git -C does.
    return count if len(words) >= count and not any(word.startswith("-") for word in named) else 0
