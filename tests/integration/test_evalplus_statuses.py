"""Our statuses are those of evalplus's own command on the same samples."""

import json
import os
import subprocess
import sys

import pytest

from gmts.rewards.code.evalplus import Statuses, check_samples, read_problems
from tests.support.shared import shared_file

pytest.importorskip("evalplus")


def own_command(path, solutions, folder):
    """Statuses of `python -m evalplus.evaluate`, which wants a sample of every problem."""
    samples = folder / "samples.jsonl"
    rows = [json.dumps({"task_id": key, "solution": text}) for key, text in solutions.items()]
    samples.write_text("\n".join(rows) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "evalplus.evaluate", "--dataset", "humaneval"]
    environment = {**os.environ, "HUMANEVAL_OVERRIDE_PATH": str(path), "HOME": str(folder)}
    environment["XDG_CACHE_HOME"] = str(folder)
    subprocess.run(
        [*command, "--samples", str(samples), "--parallel", "1"],
        env=environment,
        cwd=folder,
        capture_output=True,
        check=True,
        timeout=600,
    )
    result = json.loads((folder / "samples_eval_results.json").read_text(encoding="utf-8"))
    return {
        key: Statuses(task_id=key, base=rows[0]["base_status"], plus=rows[0]["plus_status"])
        for key, rows in result["eval"].items()
    }


@pytest.mark.slow
def test_statuses_equal_those_of_evalplus_command(tmp_path):
    path = shared_file("data/humanevalplus_mini/HumanEvalPlus-Mini.jsonl.gz")
    problems = read_problems(path)
    solutions = dict.fromkeys(problems, "x = 1")
    chosen = list(problems)[:6]
    for key in chosen[:3]:
        solutions[key] = problems[key]["prompt"] + problems[key]["canonical_solution"]
    name = problems[chosen[3]]["entry_point"]
    solutions[chosen[3]] = f"def {name}(*args):\n    while True: pass\n"
    # Right on the base inputs, which are all it knows.
    base = problems[chosen[4]]
    right = base["prompt"] + base["canonical_solution"]
    solutions[chosen[4]] = (
        f"{right}\nright = {base['entry_point']}\nKNOWN = {base['base_input']!r}\n"
        f"def {base['entry_point']}(*args):\n"
        "    return right(*args) if list(args) in KNOWN else None\n"
    )
    ours = check_samples("humaneval", problems, [(key, solutions[key]) for key in chosen])
    expected = own_command(path, solutions, tmp_path)
    assert ours == [expected[key] for key in chosen]
    assert [item.correct for item in ours] == [(True, True)] * 3 + [(False, False)] + [
        (True, False),
        (False, False),
    ]


def test_unknown_task_or_data_set_is_refused():
    with pytest.raises(ValueError, match="dataset must be one of humaneval, mbpp"):
        check_samples("mbppplus", {}, [])
    with pytest.raises(ValueError, match="has no task HumanEval/9"):
        check_samples("humaneval", {}, [("HumanEval/9", "x = 1")])
