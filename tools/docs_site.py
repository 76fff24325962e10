"""MkDocs hooks: what the site takes from the repository, so that no fact is written twice.

README.md and other files outside of docs/ become pages. The page of commands is made from the
argument parser. A link to a file that is not a page, such as a test, becomes the file's path.
After the build, a page that would load anything from another host is an error.
"""

from __future__ import annotations

import argparse
import importlib
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUTSIDE = {  # file outside of docs/ -> its page
    "README.md": "index.md",
    "benchmarks/results.md": "project/results.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "examples/SAMPLE_PHOTOS.md": "project/sample-photos.md",
}
COMMANDS = ("build", "plan", "status", "verify", "inspect", "find", "report", "benchmark")
_PLACE = "<!-- commands -->"
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?![a-z]+:)([^)#]*)(#[^)]*)?\)")
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["'](?:https?:)?//|<link\b[^>]*\bhref=["'](?:https?:)?//"""
)


def commands_page() -> str:
    """Every command with every flag, as Markdown."""
    return "\n".join(_command(name, parser_of(name)) for name in COMMANDS)


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of the command ``name``, with all of its flags."""
    parser = importlib.import_module("shardfeed.cli.main")._parser(name)
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    if set(commands.choices) != set(COMMANDS):
        raise ValueError(f"tools/docs_site.py documents {sorted(COMMANDS)}, the program has {sorted(commands.choices)}")
    found: argparse.ArgumentParser = commands.choices[name]
    return found


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    out = [f"## `shardfeed {name}`", "", _one_line(parser.description), ""]
    described: set[str] = set()
    if name == "plan":
        described = {flag for action in parser_of("build")._actions for flag in action.option_strings}
        out += ["It takes all flags of [`shardfeed build`](#shardfeed-build), and:", ""]
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if not isinstance(action, argparse._HelpAction)]
        actions = [action for action in actions if not described.intersection(action.option_strings)]
        if not actions:
            continue
        if group.title not in ("positional arguments", "options"):
            out += [f"### {name}: {group.title}", ""]
        for action in actions:
            out += [_heading(action), f":   {_help(action)}", ""]
    for paragraph in (parser.epilog or "").strip().split("\n\n"):
        out += _paragraph(paragraph.splitlines())
    return "\n".join(out)


def _paragraph(lines: list[str]) -> list[str]:
    """A paragraph of an epilog as Markdown. Its indented lines are commands."""
    text = _escaped(_one_line(" ".join(line for line in lines if not line.startswith(" "))))
    code = [line.strip() for line in lines if line.startswith(" ")]
    return [text[:1].upper() + text[1:], "", *(["```sh", *code, "```", ""] if code else [])]


def _heading(action: argparse.Action) -> str:
    name = ", ".join(action.option_strings)
    value = action.metavar or (
        "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    )
    if not name:
        return f"`{value}`"
    return f"`{name}`" if action.nargs == 0 else f"`{name} {value}`"


def _help(action: argparse.Action) -> str:
    if not action.help or action.help == argparse.SUPPRESS:
        raise ValueError(f"{action.option_strings or action.dest} has no help text")
    return _escaped(_one_line(argparse.HelpFormatter("")._expand_help(action)))


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", r"\*").replace("_", r"\_")


def formats_table() -> str:
    """The table of ``docs/reference/images.md``."""
    table = importlib.import_module("shardfeed.transforms.images.formats.table")
    rows = [
        "| kind | `--formats` | read by default | usual suffixes | decoder | what becomes of it |",
        "|---|---|---|---|---|---|",
    ]
    for row in table.INPUT_FORMATS.values():
        default = "yes" if row.default else f"no; needs `pip install {table.install(row)}`" if row.extra else "no"
        suffixes = ", ".join(f"`{suffix}`" for suffix in row.suffixes)
        rows.append(f"| {row.shown} | `{row.name}` | {default} | {suffixes} | {row.decoder} | {row.what} |")
    return "\n".join(rows)


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def site_links(markdown: str, source: str, page: str) -> str:
    """``markdown`` of the file ``source`` with the links of its page ``page`` on the site."""

    def place(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if not target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        found = OUTSIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if found is None:
            return f"`{path}`"
        return f"[{text}]({posixpath.relpath(found, posixpath.dirname(page) or '.')}{anchor})"

    return _LINK.sub(place, markdown)


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that are files outside of docs/."""
    from mkdocs.structure.files import File

    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fills in the commands, and makes links those of the site."""
    path = page.file.src_uri
    if path.endswith("index.md"):  # the only page of its tab
        page.meta["hide"] = ["navigation"]
    source = next((source for source, own in OUTSIDE.items() if own == path), f"docs/{path}")
    return site_links(markdown, source, path).replace(_PLACE, commands_page() if _PLACE in markdown else "")


def on_post_build(config: Any) -> None:
    """Refuses a site that would load something from another host."""
    for page in Path(config["site_dir"]).rglob("*.html"):
        if found := _LOADED.search(page.read_text()):
            raise ValueError(f"{page} would load from another host: {found[0]}")
