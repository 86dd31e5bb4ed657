"""Checks one solution with evalplus, inside a sandbox of its own: evalplus itself isolates nothing.

evalplus runs the solution in a child of this process and compares there, so a solution that attacks
evalplus can forge its score; it can harm nothing else.
"""

from typing import Any

from evalplus.data.mbpp import mbpp_deserialize_inputs
from evalplus.eval import untrusted_check
from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS
from evalplus.gen.util import trusted_exec

from gmts.rewards.guest.channel import Channel


def main(arguments: list[str]) -> None:
    """Answer one request on the socket of this number."""
    channel = Channel(int(arguments[0]))
    request = channel.receive()
    channel.send(check(request["dataset"], request["problem"], request["solution"]))


def check(dataset: str, problem: dict[str, Any], solution: str) -> dict[str, Any]:
    """Return {base, plus}: evalplus's status (pass, fail, timeout) on each set of inputs.

    Args:
        dataset: humaneval or mbpp.
        problem: A row of evalplus's data, as in its file.
        solution: The program.
    """
    entry_point = problem["entry_point"]
    statuses = {}
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
        statuses[name] = untrusted_check(
            dataset,
            solution,
            inputs,
            entry_point,
            expected=expected,
            atol=problem["atol"],
            ref_time=seconds,
            fast_check=True,
        )[0]
    return statuses
