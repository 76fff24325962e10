"""The program of a Flex template's launcher: ``shardfeed build`` with the parameters as flags.

The launcher gives every parameter as ``--name=value``, also those left empty in a form. It adds
options of Dataflow, among them ``--template_location``. Beam then writes the job into that file,
this program ends, and the launcher hands the job over.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from shardfeed.cli.main import main

# Flags of ours that take no value; a form can only say true or false.
SWITCHES = frozenset({"keep_original", "discard_incomplete", "keep_parts", "trust_manifest", "cross_region"})


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
