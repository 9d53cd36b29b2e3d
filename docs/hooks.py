"""What the site has beside docs/: files of the repository that its pages link to, and the docstring of each public name."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import anyshell

TOP = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add those files."""
    for path in [TOP / "SECURITY.md", *sorted((TOP / "examples").glob("*.*"))]:
        files.append(File.generated(config, path.relative_to(TOP).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Make links that lead out of docs/ lead to these, and name the public names where their docstrings stand."""
    if page.file.src_uri == "SECURITY.md":
        return markdown.replace("](docs/", "](")
    if page.file.src_uri == "reference/api.md":
        return markdown + "".join(
            f"\n::: anyshell.{name}\n" for name in sorted(anyshell.__all__) if name[0] != "_"
        )
    return markdown.replace("](../../SECURITY.md", "](../SECURITY.md").replace(
        "](../../examples/", "](../examples/"
    )
