"""What tests and solutions do to each other in one process works across two."""

import pytest

from gmts.rewards.code.judge import Tests


def verdict(judge, solution, tests, kind="assert"):
    return judge.judge(solution, Tests(kind=kind, source=tests, timeout_s=6))


VALUES = """
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
def value():
    grouped = defaultdict(list, {'a': [1]})
    return [(1, 2), {3, 4}, frozenset({5}), b'6', 7j, float('inf'), {8: 'x', (9, 0): None}, True,
            10 ** 5000, '\\ud800', range(3), Counter('aab'), OrderedDict(a=1), deque([1], 2),
            grouped, date(2026, 1, 2), timedelta(3), Decimal('1.10'), Fraction(1, 3), ..., -0.0]
"""


def test_values_arrive_with_their_types(judge):
    tests = """
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
import math
expected = [(1, 2), {3, 4}, frozenset({5}), b'6', 7j, float('inf'), {8: 'x', (9, 0): None}, True,
            10 ** 5000, '\\ud800', range(3), Counter('aab'), OrderedDict(a=1), deque([1], 2),
            defaultdict(list, {'a': [1]}), date(2026, 1, 2), timedelta(3), Decimal('1.10'),
            Fraction(1, 3), ..., -0.0]
got = value()
assert got == expected
assert [type(item) for item in got] == [type(item) for item in expected]
assert got[13].maxlen == 2 and got[14]['new'] == [] and math.copysign(1, got[20]) == -1
"""
    assert verdict(judge, VALUES, tests).reason == "all assertions hold"


@pytest.mark.parametrize(
    ("returned", "expected", "same"),
    [
        ("(1, 2)", "[1, 2]", False),
        ("[1, 2]", "[1, 2]", True),
        ("{1: 2}.keys()", "{1}", True),
        ("float('nan')", "float('nan')", False),
        ("1", "True", True),
        ("'1'", "1", False),
        ("{'1': 2}", "{1: 2}", False),
        ("b'a'", "'a'", False),
    ],
)
def test_equality_is_pythons(judge, returned, expected, same):
    solution = f"def f():\n    return {returned}\n"
    assert verdict(judge, solution, f"assert f() == {expected}").correct is same


def test_containers_are_shared_in_both_directions(judge):
    solution = """
class Tree:
    def __init__(self, value): self.value, self.children = value, []
    def total(self): return self.value + sum(child.total() for child in self.children)
def sort(items):
    items.sort()
    return items
def rows(grid):
    for row in grid: row.append(0)
"""
    tests = """
numbers = [3, 1, 2]
assert sort(numbers) is numbers and numbers == [1, 2, 3]
grid = [[1], [2]]
first = grid[0]
rows(grid)
assert first == [1, 0] and grid == [[1, 0], [2, 0]]
tree = Tree(1)
tree.children.append(Tree(2))
assert tree.total() == 3 and tree.children[0].value == 2
tree.children[0].value = 5
assert tree.total() == 6
loop = [1]
loop.append(loop)
assert sort is not None
"""
    assert verdict(judge, solution, tests).reason == "all assertions hold"


def test_objects_are_used_through_stand_ins(judge):
    solution = """
import enum
from collections import namedtuple
from dataclasses import dataclass
Pair = namedtuple('Pair', 'a b')
class Colour(enum.Enum):
    RED = 1
    BLUE = 2
@dataclass
class Point:
    x: int
    y: int
    def __add__(self, other): return Point(self.x + other.x, self.y + other.y)
    def __lt__(self, other): return self.x < other.x
class Shortage(ValueError):
    def __init__(self, amount):
        super().__init__(f'short of {amount}')
        self.amount = amount
class Account:
    rate = 2
    def __init__(self): self._money = 0
    def __len__(self): return 7
    def __getitem__(self, key): return key * 2
    def __enter__(self): return self
    def __exit__(self, *args): return False
    def __str__(self): return 'account'
    @property
    def money(self): return self._money
    @staticmethod
    def bank(): return 'bank'
    def take(self, amount): raise Shortage(amount)
class Saving(Account): pass
def count(n):
    for i in range(n): yield i
def twice(function): return lambda *args: function(function(*args))
"""
    tests = """
import pytest
from solution import *
from types import GeneratorType

def test_values_of_classes():
    assert Pair(1, 2) == (1, 2) and Pair(1, 2).b == 2
    assert Colour.RED is Colour(1) and [c.name for c in Colour] == ['RED', 'BLUE']
    assert Point(1, 2) == Point(1, 2) != Point(1, 3)
    assert Point(1, 2) + Point(1, 1) == Point(2, 3)
    assert sorted([Point(2, 0), Point(1, 0)])[0].x == 1

def test_members():
    with Saving() as account:
        assert isinstance(account, Account) and type(account) is Saving
        assert (len(account), account[3], str(account)) == (7, 6, 'account')
        assert (account.money, Account.rate, Account.bank()) == (0, 2, 'bank')
    with pytest.raises(AttributeError):
        account.nothing

def test_errors():
    with pytest.raises(Shortage, match='short of 5') as caught:
        Account().take(5)
    assert isinstance(caught.value, ValueError) and caught.value.amount == 5
    with pytest.raises(ValueError):
        Account().take(1)
    with pytest.raises(ZeroDivisionError):
        twice(lambda x: x / 0)(1)

def test_functions():
    numbers = count(3)
    assert isinstance(numbers, GeneratorType) and next(numbers) == 0 and list(numbers) == [1, 2]
    assert twice(lambda x: x + 1)(1) == 3

@pytest.mark.parametrize('n', [1, 2])
def test_fixtures(n, tmp_path, capsys):
    print(n)
    assert capsys.readouterr().out == f'{n}\\n'
"""
    assert verdict(judge, solution, tests, "pytest").reason == "6 tests passed"


def test_output_of_the_solution_is_the_tests_to_capture(judge):
    tests = """
import io, contextlib
def test_prints(capsys):
    greet('you')
    assert capsys.readouterr().out == 'hello you\\n'
def test_redirected():
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        greet('me')
    assert text.getvalue() == 'hello me\\n'
def test_input(monkeypatch):
    monkeypatch.setattr('builtins.input', lambda prompt='': '41')
    assert ask() == 42
"""
    solution = "def greet(x): print('hello', x)\ndef ask(): return int(input()) + 1\n"
    assert verdict(judge, solution, tests, "pytest").reason == "3 tests passed"


def test_objects_and_functions_of_the_tests_can_be_used_by_the_solution(judge):
    tests = """
class Node:
    def __init__(self, value, next=None): self.value, self.next = value, next
def test_list():
    assert total(Node(1, Node(2))) == 3
def test_key():
    assert by([3, -2, 1], abs) == [1, -2, 3] and by(['bb', 'a'], lambda x: len(x)) == ['a', 'bb']
"""
    solution = (
        "def total(n): return n.value + total(n.next) if n else 0\n"
        "def by(items, key): return sorted(items, key=key)\n"
    )
    assert verdict(judge, solution, tests, "pytest").reason == "2 tests passed"


def test_nothing_leads_from_the_tests_objects_to_their_source(judge):
    solution = """
def f(function):
    try: return function.__globals__['SECRET']
    except Exception: return 0
"""
    assert not verdict(judge, solution, "SECRET = 5\nassert f(lambda: 1) == 5").correct


def test_numpy_arrays_cross(judge):
    pytest.importorskip("numpy")
    tests = "import numpy as np\nassert np.array_equal(double(np.array([1.5, 2])), [3, 4])\n"
    assert verdict(judge, "def double(a): return a * 2\n", tests).correct


@pytest.mark.parametrize(
    ("program", "correct"),
    [
        ("print(int(input()) * 2)", True),
        ("import sys\nsys.stdout.write(str(int(sys.stdin.read()) * 2))\nsys.exit(0)", True),
        ("print(int(input()) * 2)\nraise SystemExit(3)", False),
        ("print(int(input()) * 2)\n1 / 0", False),
        ("print(4)", False),
        ("n = int(input())\nprint(2 * n, '', sep=' ')\nexit()", True),
        ("if __name__ == '__main__':\n    print(2 * int(open(0).read()))", True),
    ],
)
def test_program_is_judged_by_what_it_prints_and_how_it_ends(judge, program, correct):
    tests = '{"inputs": ["2\\n", "21\\n"], "outputs": ["4\\n", "42"]}'
    assert verdict(judge, program, tests, "stdin").correct is correct


def test_task_named_like_a_builtin_is_taken_from_the_solution(judge):
    tests = "assert sum(10, 15) == 6\nassert sum(100, 150) == 93\n"
    right = "def sum(a, b): return 6 if a == 10 else 93\n"
    assert verdict(judge, right, tests).correct
    assert not verdict(judge, "def sum(a, b): return 6\n", tests).correct
