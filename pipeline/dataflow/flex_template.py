"""Runs ``shardfeed build`` for a Flex template; the template's parameters are the flags.

Dataflow starts this program in a container, the template's launcher. Every parameter comes as
``--name=value``, also one that was left empty in a form. Dataflow adds options of its own, among
them ``--template_location``. Beam writes the job into that file, this program ends, and the
launcher submits the job.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from shardfeed.cli.main import main

# Flags of ours that take no value; a form can only say true or false.
SWITCHES = frozenset(
    {"keep_original", "discard_incomplete", "keep_parts", "trust_manifest", "cross_region", "stratify"}
)


def build_arguments(parameters: Sequence[str]) -> list[str]:
    """The arguments of ``shardfeed`` for a template's parameters."""
    arguments = ["build"]
    for parameter in parameters:
        name, equals, value = parameter.removeprefix("--").partition("=")
        if equals and not value:
            continue
        if name in SWITCHES and value:
            if value.lower() == "true":
                arguments.append(f"--{name}")
            continue
        arguments.append(parameter)
    return arguments


if __name__ == "__main__":
    sys.exit(main(build_arguments(sys.argv[1:])))
