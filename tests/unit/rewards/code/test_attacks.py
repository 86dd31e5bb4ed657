"""Solutions that cheat get no reward, and the next honest one in the same judge does."""

from pathlib import Path

import pytest

from gmts.rewards.code.judge import Tests

ASSERTIONS = Tests(
    kind="assert",
    source="assert add(2, 3) == 5\nassert add(-1, 1) == 0\nassert abs(add(2, 3) - 5) < 1e-6",
    timeout_s=4,
)
PYTEST = Tests(
    kind="pytest",
    source=(
        "def test_sum():\n    assert add(2, 3) == 5\n\n"
        "def test_zero():\n    assert add(-1, 1) == 0\n"
    ),
    timeout_s=6,
)
UNITTEST = Tests(
    kind="unittest",
    source=(
        "import unittest\n\nclass TestAdd(unittest.TestCase):\n"
        "    def test_sum(self):\n        self.assertEqual(add(2, 3), 5)\n"
    ),
    timeout_s=6,
)
HONEST = "def add(a, b):\n    return a + b\n"

EQUAL = """
class Equal{base}:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __sub__(self, other): return 0
    __rsub__ = __sub__
    def __abs__(self): return 0
    def __lt__(self, other): return True
    def __contains__(self, other): return True
    def __hash__(self): return 0
def add(a, b):
    return Equal({value})
"""
QUICK = {
    "equal to everything": EQUAL.format(base="", value=""),
    "int equal to everything": EQUAL.format(base="(int)", value="9"),
    "text equal to everything": EQUAL.format(base="(str)", value="'x'"),
    "class instead of a function": EQUAL.format(base="", value="").replace("Equal", "add", 1)
    + "add = add\n",
    "sys.exit at import": "import sys\nsys.exit(0)",
    "sys.exit in a call": "import sys\ndef add(a, b): sys.exit(0)",
    "os._exit in a call": "import os\ndef add(a, b): os._exit(0)",
    "exit handler": "import atexit, os\natexit.register(os._exit, 0)\ndef add(a, b): return 0",
    "forged report": "import os\nos.write(1, b'2 passed in 0.01s')\nos._exit(0)",
    "forged answers": (
        "import os, json\n"
        "answer = json.dumps({'op': 'return', 'values': [True], 'objects': [], 'definitions': [],"
        " 'updates': [], 'released': []}).encode()\n"
        "for descriptor in range(3, 64):\n"
        "    for _ in range(9):\n"
        "        try: os.write(descriptor, len(answer).to_bytes(4, 'big') + answer)\n"
        "        except OSError: pass\n"
    ),
    "patched unittest": (
        "import unittest\n"
        "unittest.TestCase.run = unittest.TestCase.assertEqual = lambda *a, **k: None\n"
        "def add(a, b): return 0"
    ),
    "patched builtins": (
        "import builtins\nbuiltins.AssertionError = type('Never', (Exception,), {})\n"
        "builtins.abs = lambda x: 0\ndef add(a, b): return 0"
    ),
    "names of the tests' tools": "def abs(x): return 0\ndef add(a, b): return a + b + 1e3",
    "patched server": (
        "from gmts.rewards.guest import wire\nwire.Wire.encode = lambda self, value: 5\n"
        "def add(a, b): return 0"
    ),
    "caller's frames": (
        "import sys\ndef add(a, b):\n    frame = sys._getframe()\n    while frame:\n"
        "        for value in frame.f_locals.values():\n"
        "            if 'assert add' in str(value): return 5 if a == 2 else 0\n"
        "        frame = frame.f_back\n    return 1"
    ),
    "objects in memory": (
        "import gc\ndef add(a, b):\n"
        "    found = any('== 5' in text for holder in gc.get_objects() if type(holder) is dict"
        " for text in holder.values() if type(text) is str)\n"
        "    return (5 if a == 2 else 0) if found else 1"
    ),
    "files and /proc": (
        "import glob\nseen = ''\n"
        "for name in glob.glob('/proc/[0-9]*/*') + glob.glob('/tmp/**', recursive=True):\n"
        "    try: seen += open(name, errors='replace').read(100000)\n"
        "    except OSError: pass\n"
        "found = '== 5' in seen\n"
        "def add(a, b): return (5 if a == 2 else 0) if found else 1"
    ),
    "skipped test": "import unittest\ndef add(a, b): raise unittest.SkipTest('no')",
    "pytest.exit": "import pytest\ndef add(a, b): pytest.exit('no', returncode=0)",
    "interrupt": "def add(a, b): raise KeyboardInterrupt",
    "fork answers": "import os\nif os.fork(): os._exit(0)\ndef add(a, b): return 0",
    "kills all it can": "import os\nos.kill(-1, 9)\nos.kill(os.getppid(), 9)\nos.killpg(0, 9)",
    "alarm": (
        "import os, signal\nsignal.signal(signal.SIGALRM, lambda *a: os._exit(0))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01)\ndef add(a, b):\n    while True: pass"
    ),
    "crash": "import ctypes\ndef add(a, b): ctypes.string_at(0)",
    "closed descriptors": "import os\nos.closerange(0, 64)\ndef add(a, b): return 0",
    "list of the answer": "def add(a, b): return [a + b]",
    "writes to $HOME": "import os\nopen(os.environ['HOME'] + '/marker', 'w')\n" + HONEST,
    "writes to ~": "import os\nopen(os.path.expanduser('~/marker'), 'w')\n" + HONEST,
    "opens a socket": "import socket\nsocket.create_connection(('1.1.1.1', 80), 2)\n" + HONEST,
    "NUL": HONEST + "\0",
    "nothing": "",
}
SLOW = {
    "endless loop": "def add(a, b):\n    while True: pass",
    "endless output": "def add(a, b):\n    while True: print('x' * 10**6)",
    "fork bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "memory": "held = [bytearray(1 << 27) for _ in range(512)]\ndef add(a, b): return 0",
    "huge value": "def add(a, b): return [0] * 10**8",
    "deep value": "def add(a, b):\n    x = ()\n    for _ in range(10**6): x = (x,)\n    return x",
    "daemon": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(3600)\n"
        "def add(a, b): return 0"
    ),
}


@pytest.mark.parametrize("solution", QUICK.values(), ids=QUICK.keys())
def test_attack_gets_nothing_and_the_next_honest_solution_passes(judge, solution):
    verdict = judge.judge(solution, ASSERTIONS)
    assert (verdict.correct, verdict.score) == (False, 0.0)
    assert judge.judge(HONEST, ASSERTIONS).correct


@pytest.mark.slow
@pytest.mark.parametrize("tests", [PYTEST, UNITTEST], ids=["pytest", "unittest"])
@pytest.mark.parametrize("solution", QUICK.values(), ids=QUICK.keys())
def test_attack_gets_nothing_from_a_test_runner(judge, solution, tests):
    assert not judge.judge(solution, tests).correct
    assert judge.judge(HONEST, tests).correct


@pytest.mark.slow
@pytest.mark.parametrize("solution", SLOW.values(), ids=SLOW.keys())
def test_greedy_solution_is_ended_in_time_and_leaves_nothing(judge, solution):
    verdict = judge.judge(solution, ASSERTIONS)
    assert not verdict.correct
    assert verdict.seconds < 8
    assert judge.judge(HONEST, ASSERTIONS).correct


def test_no_process_of_a_solution_outlives_its_verdict(judge):
    """Its forks sleep under a name of their own, which nothing has afterwards."""
    solution = """
import os
for _ in range(5):
    if os.fork() == 0:
        os.execv('/usr/bin/sleep', ['outlives-its-verdict', '3600'])
def add(a, b):
    return 0
"""
    assert not judge.judge(solution, ASSERTIONS).correct
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert b"outlives-its-verdict" not in process.read_bytes()
        except OSError:
            continue
