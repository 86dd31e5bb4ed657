"""Checks one solution with evalplus, inside a sandbox of its own: evalplus itself isolates nothing.

evalplus runs the solution in a child of this process and compares there, so a solution that attacks
evalplus can forge its score; it can harm nothing else.
"""

import sys
import types
from collections.abc import Callable
from typing import Any

from gmts.rewards.guest.channel import Channel

# evalplus.data loads `datasets` for a benchmark that is not ours, which takes seconds a sample.
sys.modules["datasets"] = types.ModuleType("datasets")
sys.modules["datasets"].load_dataset = None  # type: ignore[attr-defined]
try:
    from evalplus.data.mbpp import mbpp_deserialize_inputs
    from evalplus.eval import untrusted_check
    from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS
    from evalplus.gen.util import trusted_exec
finally:
    del sys.modules["datasets"]


def main(arguments: list[str]) -> None:
    """Answer one request on the socket of this number."""
    channel = Channel(int(arguments[0]))
    request = channel.receive()
    check = prepare(request["dataset"], request["problem"])
    channel.send({"ready": True})
    channel.send(check(request["solution"]))


def prepare(dataset: str, problem: dict[str, Any]) -> Callable[[str], dict[str, str]]:
    """Compute the expected results; return what checks a program by them.

    That is a function from a program to {base, plus}: evalplus's status (pass, fail, timeout) on
    each set of inputs.

    Args:
        dataset: humaneval or mbpp.
        problem: A row of evalplus's data, as in its file.
    """
    entry_point = problem["entry_point"]
    sets = {}
    for name in ("base", "plus"):
        inputs = problem[f"{name}_input"]
        if dataset == "mbpp":
            inputs = mbpp_deserialize_inputs(problem["task_id"], inputs)
        expected, seconds = trusted_exec(
            problem["prompt"] + problem["canonical_solution"],
            inputs,
            entry_point,
            record_time=True,
            output_not_none=dataset == "mbpp" and entry_point in MBPP_OUTPUT_NOT_NONE_TASKS,
        )
        sets[name] = (inputs, expected, seconds)

    def check(solution: str) -> dict[str, str]:
        return {
            name: untrusted_check(
                dataset,
                solution,
                inputs,
                entry_point,
                expected=expected,
                atol=problem["atol"],
                ref_time=seconds,
                fast_check=True,
            )[0]
            for name, (inputs, expected, seconds) in sets.items()
        }

    return check
