"""Small changes to the source that break it: comparisons, sums, conditions, constants, results,
slices, arguments, calls.

What no result depends on is left alone: annotations, signatures, messages of errors, log lines,
formatted texts.
"""

from __future__ import annotations

import ast
import collections
import copy
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Mutant = dict[str, Any]
"""``file``. ``function``, ``kind``, ``text``, ``new``, ``ordinal`` (among equals) find the mutant
again in another tree. ``lines``: the first of its statement, its own first and last. ``at``: the
bytes of the file that ``new`` replaces.
"""

COMPARISONS = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)]
ARITHMETIC = [(ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv), (ast.LShift, ast.RShift), (ast.BitAnd, ast.BitOr)]
SWAPPED: dict[type[ast.AST], type[Any]] = {a: b for pair in COMPARISONS + ARITHMETIC for a, b in (pair, pair[::-1])}
SWAPPED |= {ast.And: ast.Or, ast.Or: ast.And, ast.Mod: ast.FloorDiv, ast.Div: ast.Mult, ast.BitXor: ast.BitOr}
UNSEEN = {"strict", "thread_name_prefix", "stacklevel"}  # keywords on which no result depends
SPOKEN = ("_LOG.", "warn(", "warnings.")  # calls that only tell somebody
DEFAULTED = {"next": 2, "enumerate": 2, "getattr": 3, "get": 2, "pop": 2}  # arguments, of which the last has a default

Needed = set[tuple[str, str]]

SEED, COUNT = 16, 600
PURE = """accelerator/hosts accelerator/keras_args arguments arrays/blocks arrays/framing arrays/parsing dataset/info
dataset/repeats format/checksums format/example format/hashing format/manifest format/naming format/tfrecord runtime
sampling/blocks sampling/host_share sampling/order sampling/record_order sampling/steps storage/local
storage/local_errors storage/stored_file tfdata/records"""  # of the reader


def population() -> list[Path]:
    """Files of plain functions: all of ``transforms`` that does without Beam, and the reader's pure
    modules.
    """
    plain = [path for path in sorted(Path("transforms").rglob("*.py")) if "apache_beam" not in path.read_text()]
    return plain + [Path("shardfeed", f"{name}.py") for name in PURE.split()]


def sources() -> list[Path]:
    """All files of the product."""
    return [path for top in ("shardfeed", "transforms", "pipeline") for path in sorted(Path(top).rglob("*.py"))]


def drawn() -> list[Mutant]:
    """The sample, without what an edit elsewhere in the file changes."""
    needed = parameters_needed(sources())
    everything = [mutant for path in population() for mutant in mutants_of(path, needed)]
    print(f"{COUNT} of {len(everything)} mutants of {len(population())} files", flush=True)
    sample = (everything[at] for at in sorted(random.Random(SEED).sample(range(len(everything)), COUNT)))
    return [{key: mutant[key] for key in mutant if key not in ("lines", "at")} for mutant in sample]


def finder() -> Callable[[Mutant], Mutant | None]:
    """Function that gives a mutant of a list as it is in this tree; of several, that in the file of
    the same name.
    """
    needed, here = parameters_needed(sources()), collections.defaultdict(list)
    for one in (mutant for path in sources() for mutant in mutants_of(path, needed)):
        here[one["function"], one["kind"], one["text"], one["new"]].append(one)

    def find(mutant: Mutant) -> Mutant | None:
        same, path = here[mutant["function"], mutant["kind"], mutant["text"], mutant["new"]], Path(mutant["file"])
        same = [one for one in same if Path(one["file"]).name == path.name] or same
        same = [one for one in same if one["file"] == str(path)] or same
        same = [one for one in same if one["file"] == same[0]["file"]]
        return same[min(mutant["ordinal"], len(same) - 1)] if same else None

    return find


def parameters_needed(paths: list[Path]) -> Needed:
    """(function or class, parameter without a default): to drop such an argument would only be a
    TypeError.
    """
    found: Needed = set()
    for node in (node for path in paths for node in ast.walk(ast.parse(path.read_bytes()))):
        if isinstance(node, ast.FunctionDef):
            plain, named = node.args.args, zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            bare = plain[: len(plain) - len(node.args.defaults)] + [arg for arg, default in named if default is None]
            found |= {(node.name, arg.arg) for arg in bare}
        elif isinstance(node, ast.ClassDef):
            fields = (field for field in node.body if isinstance(field, ast.AnnAssign) and field.value is None)
            found |= {(node.name, ast.unparse(field.target)) for field in fields}
    return found


def mutants_of(path: Path, needed: Needed) -> list[Mutant]:
    """All mutants of the functions of a file, in order."""
    data = path.read_bytes()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []
    seen: collections.Counter[tuple[str, ...]] = collections.Counter()

    def walk(node: Any, function: str, inside: bool, statement: Any) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            function, inside = f"{function}.{node.name}".lstrip("."), inside or isinstance(node, ast.FunctionDef)
        statement = node if isinstance(node, ast.stmt) else statement
        for kind, old, new in _changes(node, needed) if inside else ():
            text, new = ast.unparse(old), f"({new})" if isinstance(old, ast.expr) else new
            mutant = {"file": str(path), "function": function, "kind": kind, "text": text, "new": new}
            ordinal = seen[function, kind, text, new]
            seen[function, kind, text, new] += 1
            at = [starts[old.lineno - 1] + old.col_offset, starts[old.end_lineno - 1] + old.end_col_offset]
            lines = [statement.lineno, old.lineno, old.end_lineno]
            found.append({**mutant, "ordinal": ordinal, "lines": lines, "at": at})
        for child in _children(node):
            walk(child, function, inside, statement)

    walk(ast.parse(data), "", False, None)
    return found


def applied(mutant: Mutant) -> bytes:
    """Content of the mutant's file with its change."""
    data, (start, end) = Path(mutant["file"]).read_bytes(), mutant["at"]
    return b"".join((data[:start], mutant["new"].encode(), data[end:]))


def _changes(node: Any, needed: Needed) -> Iterator[tuple[str, Any, str]]:
    """(kind, node to replace, its new source) of each way to break ``node`` itself."""
    if _speaks(node):
        return
    match node:
        case ast.Compare(ops=ops):
            for at, op in enumerate(ops):
                yield "compare", node, _with(node, ops=[*ops[:at], SWAPPED[type(op)](), *ops[at + 1 :]])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in SWAPPED:
            if not _is_sequence(left) and not _is_sequence(right):
                yield "arithmetic", node, _with(node, op=SWAPPED[type(op)]())
        case ast.AugAssign(op=op):
            if type(op) in SWAPPED:
                yield "arithmetic", node, _with(node, op=SWAPPED[type(op)]())
            yield "delete", node, "pass"
        case ast.BoolOp(op=op):
            yield "boolean", node, _with(node, op=SWAPPED[type(op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield "boolean", node, ast.unparse(node.operand)
        case ast.Constant(value=bool(value)):
            yield "constant", node, str(not value)
        case ast.Constant(value=int(value)):
            yield "constant", node, str(value + 1)
        case ast.Return(value=ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()) as value):
            yield "return", node, f"return not ({ast.unparse(value)})"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return", node, "return None"
        case ast.Expr(value=ast.Call()):
            yield "delete", node, "pass"
        case ast.Slice(lower=lower, upper=upper):
            for bound, sign in ((lower, "+"), (upper, "-")):
                if bound is not None:
                    yield "slice", bound, f"{ast.unparse(bound)} {sign} 1"
        case ast.Call(func=func, args=args, keywords=keywords):
            name = ast.unparse(func).rpartition(".")[2]
            for word in keywords:
                names = {(name, word.arg), ("__init__" if name[:1].isupper() else name, word.arg)}
                if word.arg and word.arg not in UNSEEN and not names & needed:
                    yield "argument", node, _with(node, keywords=[other for other in keywords if other is not word])
            if DEFAULTED.get(name) == len(args):
                yield "argument", node, _with(node, args=args[:-1])
    if isinstance(node, ast.If | ast.While | ast.IfExp) and isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
        yield "boolean", node.test, f"not {ast.unparse(node.test)}"


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below ``node`` whose change can show."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr) or _speaks(node):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
        yield from node.body if isinstance(node.body, list) else [node.body]
        return
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            unseen = isinstance(child, ast.keyword) and child.arg in UNSEEN
            bound = isinstance(node, ast.Slice) and isinstance(child, ast.Constant | ast.UnaryOp)  # has its own kind
            if isinstance(child, ast.AST) and name != "annotation" and not unseen and not bound:
                yield child


def _speaks(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith(SPOKEN)


def _is_sequence(node: ast.AST) -> bool:
    """Whether it is a literal that can be joined but not subtracted."""
    text = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return text or isinstance(node, ast.JoinedStr | ast.List | ast.Tuple)


def _with(node: ast.AST, **fields: Any) -> str:
    """Source of ``node`` with other ``fields``."""
    new = copy.copy(node)
    vars(new).update(fields)
    return ast.unparse(new)
