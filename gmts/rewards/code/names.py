"""What tests take from a solution, and whether they can be run beside another process at all."""

import ast
import builtins
import collections
import functools
import importlib.util
import symtable
import sys
import typing
from collections.abc import Iterator

_NAME_OF_SOLUTION = "solution"
_ALIASES = {"np": "numpy"}
_PACKAGES = frozenset({"numpy", "scipy", "pytest", _NAME_OF_SOLUTION})
"""What tests may import besides the standard library: their values cross, or never need to."""
_SOLUTION_FILES = frozenset({"inspect", "importlib", "subprocess", "runpy", "multiprocessing"})
_PATCHABLE = (_NAME_OF_SOLUTION, "builtins.input", "sys.stdout", "sys.stdin", "builtins.print")


class TestsError(ValueError):
    """Tests that say nothing about a solution, or cannot be run in another process than it."""

    __test__ = False


def free_names(source: str, entry_point: str | None = None) -> list[str]:
    """Return the names that tests use and do not define, sorted: the solution has to define them.

    A name of Python's own (a builtin, a standard module, a name of typing or collections) means
    Python's, so that a solution cannot replace the judge's tools; a builtin name is
    taken from the solution only where it is `entry_point`, or where the tests are nothing but
    assertions, use no other name, and most of them call it first (MBPP has a task named `sum`).

    Raises:
        TestsError: If the source does not parse.
    """
    table = _table(source)
    defined = {symbol.get_name() for symbol in table.get_symbols() if _is_bound(symbol)}
    used = {name for scope in _scopes(table) for name in _global_uses(scope)}
    called = _called_names(source)
    free = {name for name in used - defined if not _is_pythons(name, called)}
    if entry_point is not None and entry_point in used - defined:
        free.add(entry_point)
    if not free and not _imports_solution(source) and not defined:
        counts = collections.Counter(name for name in called if name not in defined)
        free = {name for name, _ in counts.most_common(1)}
    return sorted(free)


def missing_imports(source: str, entry_point: str | None = None) -> str:
    """Return imports, on one line, of Python's own names that tests use and do not import."""
    table = _table(source)
    defined = {symbol.get_name() for symbol in table.get_symbols() if _is_bound(symbol)}
    used = {name for scope in _scopes(table) for name in _global_uses(scope)} - defined
    wanted = sorted(used - set(free_names(source, entry_point)))
    return "; ".join(statement for name in wanted if (statement := _import_of(name)) is not None)


def check_tests(source: str, entry_point: str | None = None) -> None:
    """Refuse tests that cannot judge a solution in another process.

    Raises:
        TestsError: If they use nothing of the solution; read its source; subclass its classes;
            patch what it sees of other modules; or import a package whose values do not cross.
    """
    tree = _parse(source)
    names = set(free_names(source, entry_point))
    imported = set(_imported_from_solution(tree))
    if not names and not imported and not _imports_solution(source):
        raise TestsError("the tests use nothing that the solution defines")
    for problem in _problems(tree, names | imported):
        raise TestsError(problem)


def _problems(tree: ast.Module, of_solution: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _import_problems(node)
        elif isinstance(node, ast.ClassDef):
            bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
            for name in sorted(bases & of_solution):
                yield f"the tests derive {node.name} from the solution's {name}"
        elif isinstance(node, ast.Call):
            yield from _patch_problems(node)


def _import_problems(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    modules = (
        [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
    )
    for module in modules:
        top = module.partition(".")[0]
        if top in _SOLUTION_FILES:
            yield f"the tests import {top}, which needs the solution in their own process"
        elif top not in _PACKAGES and top not in sys.stdlib_module_names:
            yield f"the tests import {top or 'a relative module'}, whose values do not cross"
        elif top in ("numpy", "scipy") and importlib.util.find_spec(top) is None:
            yield f"the tests import {top}, which is not installed"


def _patch_problems(node: ast.Call) -> Iterator[str]:
    """Patches by name reach the tests' process only."""
    function = ast.unparse(node.func)
    if function.rpartition(".")[2] not in ("patch", "setattr") or not node.args:
        return
    target = node.args[0]
    name = target.value if isinstance(target, ast.Constant) else None
    if isinstance(name, str) and not name.startswith(_PATCHABLE):
        yield f"the tests patch {name}, which the solution would not see"


def _parse(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise TestsError(f"the tests do not parse: {error}") from error


def _table(source: str) -> symtable.SymbolTable:
    _parse(source)
    return symtable.symtable(source, "tests.py", "exec")


def _scopes(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _scopes(child)


def _is_bound(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _global_uses(scope: symtable.SymbolTable) -> Iterator[str]:
    at_top = scope.get_type() == "module"
    for symbol in scope.get_symbols():
        if symbol.is_referenced() and (at_top or symbol.is_global()):
            yield symbol.get_name()


def _is_pythons(name: str, called: list[str]) -> bool:
    if name in sys.stdlib_module_names and name in called:
        return False  # a module cannot be called: it is a function that has the module's name
    return name in vars(builtins) or name.startswith("__") or _import_of(name) is not None


@functools.cache
def _import_of(name: str) -> str | None:
    """The import that a name of Python's own stands for."""
    if name in _ALIASES:
        return f"import {_ALIASES[name]} as {name}"
    if name in sys.stdlib_module_names or name in _PACKAGES - {_NAME_OF_SOLUTION}:
        return f"import {name}"
    for module in (typing, collections):
        if name in module.__all__:
            return f"from {module.__name__} import {name}"
    return None


def _imported_from_solution(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == _NAME_OF_SOLUTION:
            yield from (alias.name for alias in node.names)


def _imports_solution(source: str) -> bool:
    tree = _parse(source)
    plain = any(
        alias.name == _NAME_OF_SOLUTION
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    )
    names = set(_imported_from_solution(tree)) - {"*"}
    return plain or bool(names)


def _called_names(source: str) -> list[str]:
    """The name that each assertion calls first."""
    found = []
    for node in ast.walk(_parse(source)):
        if isinstance(node, ast.Assert):
            calls = [call for call in ast.walk(node.test) if isinstance(call, ast.Call)]
            found += [call.func.id for call in calls if isinstance(call.func, ast.Name)][:1]
    return found
