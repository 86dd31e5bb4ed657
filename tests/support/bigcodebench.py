"""Rows in the format of BigCodeBench's files, and an environment that has its checker."""

import json
import subprocess
import venv
from pathlib import Path

NEEDED = (
    "bigcodebench", "contourpy", "cycler", "fonttools", "kiwisolver", "matplotlib", "numpy",
    "packaging", "pillow", "pyparsing", "python-dateutil", "six",
)  # fmt: skip
"""Of constraints/bigcodebench.txt, what the checker itself imports."""

TEST = """import unittest
class TestCases(unittest.TestCase):
    def test_case_1(self):
        self.assertEqual(task_func(1), {one})
    def test_case_2(self):
        self.assertEqual(task_func(-1), {other})
"""


def bigcodebench_row(number: int, **changes) -> dict:
    """Return a problem of the published format: add `number` to x; its tests are two."""
    head = "import math\ndef task_func(x):\n"
    text = f"Add {number} to x."
    return {
        "task_id": f"BigCodeBench/{number}",
        "complete_prompt": f'{head}    """\n    {text}\n    """\n',
        "instruct_prompt": f"{text}\nYou should write self-contained code starting with:\n"
        f"```\n{head}```",
        "canonical_solution": f"    return int(math.fsum([x, {number}]))",
        "code_prompt": head,
        "test": TEST.format(one=1 + number, other=number - 1),
        "entry_point": "task_func",
        "doc_struct": json.dumps({"description": [text]}),
        "libs": "['math']",
    } | changes


def install_checker(repository: Path, folder: Path) -> Path:
    """Return the Python of a new environment with bigcodebench and what it imports, as pinned."""
    pins = {
        line.split("==")[0].lower(): line
        for line in (repository / "constraints/bigcodebench.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    venv.create(folder, symlinks=True, with_pip=True)
    command = [folder / "bin" / "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*command, *(pins[name] for name in NEEDED)], check=True)
    return folder / "bin" / "python"
