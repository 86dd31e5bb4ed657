"""Speed of mathematical verdicts: gmts' pool beside math-verify in one process, same answers.

    python benchmarks/rewards.py [--workers N]

Answers are of the kinds that MATH-500 has, in its proportions: 69% integers, the rest fractions,
roots, tuples, intervals, polynomials, words; half of the responses are right. The pool's
workers have been started and have seen none of the answers.
math-verify runs with its defaults, in this process, for the same pairs.
"""

import argparse
import logging
import time

from math_verify import parse, verify

from gmts.rewards.config import PoolConfig
from gmts.rewards.kinds import Job
from gmts.rewards.pool import RewardPool

OTHER = (
    (r"\frac{#}{30030}", r"\frac{2 \cdot #}{60060}", r"\frac{30030}{#}"),
    (r"#\sqrt{13}", r"#\frac{13}{\sqrt{13}}", r"\sqrt{13#}"),
    (r"\left( #, \frac{\pi}{2} \right)", r"(#,\pi/2)", r"(\pi/2,#)"),
    (r"6 - #i", "-#i+6", "6+#i"),
    (r"#^\circ", "#", "1#"),
    (r"x^3+#x-6", "x(x^2+#)-6", "x^3-#x-6"),
    (r"(-\infty, 2) \cup (#, \infty)", r"(#,\infty)\cup(-\infty,2)", r"(2,#)"),
    (r"\text{even #}", "even #", "odd #"),
    (r"\frac{\sqrt{#}}{5}", r"\frac15\sqrt{#}", r"\frac{#}{5}"),
    (r"1 \pm \sqrt{#}", r"1+\sqrt{#}, 1-\sqrt{#}", r"1+\sqrt{#}"),
    (r"#.25", r"\frac{#25}{100}", "#.26"),
    (r"# \pi", r"\pi\cdot #", "#"),
)
"""(gold, right, wrong); # is another number in every pair, so that no cache answers."""
COUNT = 1000
INTEGERS = 0.69


def pairs() -> list[tuple[str, str, bool]]:
    """Return (gold, answer, right), no two of the integers alike."""
    found = []
    for number in range(COUNT):
        right = number % 2 == 0
        if number < INTEGERS * COUNT:
            gold = str(number * 37 + 11)
            answer = gold if right else str(number * 37 + 12)
        else:
            gold, good, bad = OTHER[number // 2 % len(OTHER)]
            gold = gold.replace("#", str(number))
            answer = (good if right else bad).replace("#", str(number))
        found.append((gold, answer, right))
    return found


def pool_rate(asked: list[tuple[str, str, bool]], workers: int) -> tuple[float, int]:
    """Return verdicts per second in the first round, and how many were wrong."""
    jobs = [
        Job(id="", response=f"Thus ${a}$ and so\n\\boxed{{{a}}}.", ground_truth=g, meta={})
        for g, a, _ in asked
    ]
    with RewardPool("math", PoolConfig(workers=workers, deadline_s=3, memory_mib=1024)) as pool:
        pool.score_all(jobs[:workers])
        start = time.perf_counter()
        verdicts = pool.score_all(jobs)
        seconds = time.perf_counter() - start
    wrong = sum(v.correct != right for v, (_, _, right) in zip(verdicts, asked, strict=True))
    return len(jobs) / seconds, wrong


def math_verify_rate(asked: list[tuple[str, str, bool]]) -> tuple[float, int]:
    """Return math-verify's verdicts per second in this process, and how many were wrong."""
    wrong = 0
    start = time.perf_counter()
    for gold, answer, right in asked:
        wrong += verify(parse(rf"\boxed{{{gold}}}"), parse(rf"\boxed{{{answer}}}")) != right
    return len(asked) / (time.perf_counter() - start), wrong


def main() -> None:
    """Print rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    asked = pairs()
    ours, our_wrong = pool_rate(asked, options.workers)
    theirs, their_wrong = math_verify_rate(asked)
    print(f"pool, {options.workers} workers: {ours:.0f} verdicts/s, {our_wrong} of {COUNT} wrong")
    print(f"math-verify, one process: {theirs:.0f} verdicts/s, {their_wrong} of {COUNT} wrong")
    print(f"ratio {ours / theirs:.1f}")


if __name__ == "__main__":
    main()
