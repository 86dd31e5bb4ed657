"""The mathematics of docs/objective.md as plain float64 loops. Imports nothing from gmts.

A batch is a list of responses, each a dict with lists over tokens (old, ref, new, rollout:
log-probs; entropy), and A (advantage), id (sample), group.
"""

import math
from decimal import Decimal

MASK64 = 2**64 - 1


def advantages(rewards, *, std=True, ddof=1):
    mean = math.fsum(rewards) / len(rewards)
    if len(set(rewards)) == 1:
        return [0.0] * len(rewards)
    if not std:
        return [reward - mean for reward in rewards]
    variance = math.fsum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - ddof)
    return [(reward - mean) / (math.sqrt(variance) + 1e-6) for reward in rewards]


def clip(x, low, high):
    return max(low, min(high, x))


def surrogate(ratio, A, eps1, eps2, c):
    """Return (objective, coefficient, which branch) of one token, KL aside."""
    if A > 0 and ratio > 1 + eps2:
        return (1 + eps2) * A, 0.0, "high"
    if A < 0 and ratio < 1 - eps1:
        return (1 - eps1) * A, 0.0, "low"
    if c is not None and A < 0 and ratio > c:
        return c * A, 0.0, "dual"
    return ratio * A, ratio * A, "inside"


def kl(log_ref_over_pi, beta):
    """Return (beta D, coefficient) of the k3 penalty of one token."""
    x = clip(log_ref_over_pi, -20.0, 20.0)
    D = math.exp(x) - x - 1
    if D > 10.0:
        return beta * 10.0, 0.0
    return beta * D, beta * (math.exp(x) - 1)


def token_terms(batch, config):
    """Return per response a list of (pg objective, pg omega, beta D, kl omega)."""
    result = []
    for response in batch:
        logs = [new - old for new, old in zip(response["new"], response["old"], strict=True)]
        if config["level"] == "sequence" and logs:
            log_s = math.fsum(logs) / len(logs)
            ratios = [math.exp(min(log_s, 10.0))] * len(logs)
            cut = [log_s > 10.0] * len(logs)
        else:
            ratios = [math.exp(clip(x, -20.0, 20.0)) for x in logs]
            cut = [abs(x) > 20.0 for x in logs]
        terms = []
        for t, ratio in enumerate(ratios):
            value, omega, _ = surrogate(
                ratio, response["A"], config["eps1"], config["eps2"], config["c"]
            )
            w = 1.0
            if config.get("C") is not None:
                mismatch = response["old"][t] - response["rollout"][t]
                w = min(math.exp(clip(mismatch, -20.0, 20.0)), config["C"])
            penalty, pull = 0.0, 0.0
            if config["beta"] > 0:
                penalty, pull = kl(response["ref"][t] - response["new"][t], config["beta"])
            terms.append((w * value, 0.0 if cut[t] else w * omega, penalty, pull))
        result.append(terms)
    return result


def base_weights(lengths, aggregation, limit):
    tokens, responses = sum(lengths), sum(length > 0 for length in lengths)
    weight = {
        "token_mean": lambda length: 1 / tokens,
        "sequence_mean": lambda length: 1 / (responses * length),
        "fixed_length": lambda length: 1 / (responses * limit),
    }[aggregation]
    return [[weight(length) for _ in range(length)] for length in lengths]


def final_weights(base, selected, eligible, groups, denominator):
    """Return weights after selection; lists of lists over responses and tokens."""
    flat = [
        (w, m, e)
        for row in zip(base, selected, eligible, strict=True)
        for w, m, e in zip(*row, strict=True)
    ]
    kept = math.fsum(w for w, m, _ in flat if m)
    if denominator == "group_selected":
        counts = dict.fromkeys(groups, 0)
        for group, row in zip(groups, selected, strict=True):
            counts[group] += sum(row)
        return [
            [1 / counts[group] / len(counts) if m else 0.0 for m in row]
            for group, row in zip(groups, selected, strict=True)
        ]
    scale = {
        "all": 1.0,
        "selected": math.fsum(w for w, _, _ in flat) / kept if kept else 0.0,
        "eligible": math.fsum(w for w, _, e in flat if e) / kept if kept else 0.0,
    }[denominator]
    return [
        [w * scale if m else 0.0 for w, m in zip(*row, strict=True)]
        for row in zip(base, selected, strict=True)
    ]


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def tie_key(seed, step, sample, position, stream=0x7469):
    state = 0
    for field in (stream, seed, step, sample, position):
        state = mix((state * 31 + 0x9E3779B97F4A7C15 + field) & MASK64)
    return state


def select(scores, eligible, ids, num_tokens, ratio, *, seed, step, side="top"):
    """Return the selected (response, token) pairs of one scope."""
    top_ratio = Decimal(str(ratio)) if side == "top" else 1 - Decimal(str(ratio))
    pool = [
        (-scores[i][t], tie_key(seed, step, ids[i], t), ids[i], t, i)
        for i in range(len(scores))
        for t in range(len(scores[i]))
        if eligible[i][t]
    ]
    k = min(math.ceil(top_ratio * num_tokens), len(pool))
    pool.sort()
    chosen = pool[:k] if side == "top" else pool[k:]
    return {(i, t) for _, _, _, t, i in chosen}
