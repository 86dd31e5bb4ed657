"""Faults that people really make in this code, each with the tests that must catch it."""

from dataclasses import dataclass

TERMS, WEIGHTS = "gmts/objective/terms.py", "gmts/objective/weights.py"
ADVANTAGE, SIGNAL = "gmts/objective/advantage.py", "gmts/objective/signal.py"
SELECT, SCORES = "gmts/selection/select.py", "gmts/selection/scores.py"
TOPK, RADIX, TIES = "gmts/selection/topk.py", "gmts/selection/radix.py", "gmts/selection/ties.py"
STEP, FORWARD, LOGITS = (
    "gmts/trainers/standalone/step.py",
    "gmts/trainers/standalone/forward.py",
    "gmts/logits.py",
)
FINITE, PLAN = "gmts/trainers/update/finite.py", "gmts/trainers/update/plan.py"
AUTOGRAD = "tests/reference/test_objective_autograd.py"
OBJECTIVE, SELECTION = "tests/unit/objective", "tests/unit/selection"
SETS, UPDATE = "tests/invariance/test_selection.py", "tests/invariance/test_update_step.py"
RANKS, HEAD = "tests/invariance/test_selection_ranks.py", "tests/unit/test_logits.py"
HEAD_EDGES, STEP_RANKS = (
    "tests/unit/test_logits_edges.py",
    "tests/invariance/test_update_step_ranks.py",
)


@dataclass(frozen=True, slots=True)
class Fault:
    """`old` in `file` becomes `new`; `tests` must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: str


FAULTS = (
    Fault("clip is not strict above", TERMS,
          "(value > 1 + config.clip_ratio_high)", "(value >= 1 + config.clip_ratio_high)",
          AUTOGRAD),
    Fault("clip is not strict below", TERMS,
          "(value < 1 - config.clip_ratio_low)", "(value <= 1 - config.clip_ratio_low)", AUTOGRAD),
    Fault("dual clip missing in omega", TERMS,
          "inactive = high | low | dual | beyond", "inactive = high | low | beyond", AUTOGRAD),
    Fault("clamped ratio keeps its omega", TERMS,
          "inactive = high | low | dual | beyond", "inactive = high | low | dual", AUTOGRAD),
    Fault("one clip bound for both sides", TERMS,
          "(1 - config.clip_ratio_low) * advantages", "(1 - config.clip_ratio_high) * advantages",
          AUTOGRAD),
    Fault("KL pulls the wrong way", TERMS,
          "config.beta * (log_ratio.detach().exp() - 1)",
          "config.beta * (1 - log_ratio.detach().exp())", AUTOGRAD),
    Fault("KL without its cap", TERMS, "divergence.clamp_max(KL_LIMIT)", "divergence", AUTOGRAD),
    Fault("GSPO leaks gradient through s", TERMS,
          "log_s = log_ratio.detach().sum(1, keepdim=True) / counts",
          "log_s = log_ratio.sum(1, keepdim=True) / counts", AUTOGRAD),
    Fault("masked positions reach exp", TERMS,
          "log_ratio = torch.where(mask, log_probs - batch.old_log_probs, zero)",
          "log_ratio = log_probs - batch.old_log_probs", OBJECTIVE),
    Fault("KL stays in omega although it is not masked", TERMS,
          "return self.pg_omega + self.kl_omega if mask_kl else self.pg_omega",
          "return self.pg_omega + self.kl_omega", OBJECTIVE),
    Fault("rollout weights missing in omega", TERMS,
          "surrogate, pg_omega = surrogate * weights, pg_omega * weights",
          "surrogate = surrogate * weights", AUTOGRAD),
    Fault("rollout weights the wrong way round", TERMS,
          "batch.old_log_probs - batch.rollout_log_probs, zero",
          "batch.rollout_log_probs - batch.old_log_probs, zero", AUTOGRAD),
    Fault("rollout weights are not truncated", TERMS,
          "ratio.clamp_max(config.rollout_is_threshold)", "ratio", AUTOGRAD),
    Fault("population deviation always", ADVANTAGE,
          "correction=std_ddof", "correction=0", OBJECTIVE),
    Fault("rejected rewards count in the mean", ADVANTAGE,
          "rows = (group == index) & valid", "rows = group == index", OBJECTIVE),
    Fault("denominator of all tokens for selected", WEIGHTS,
          "chosen = chosen * (whole / kept) if kept else chosen", "chosen = chosen", OBJECTIVE),
    Fault("eligible and selected denominators swapped", WEIGHTS,
          'if config.denominator == "selected" else eligible',
          'if config.denominator == "eligible" else eligible', OBJECTIVE),
    Fault("denominator of one rank", WEIGHTS,
          "whole, kept = global_sum(sums, process_group).tolist()",
          "whole, kept = sums.tolist()", RANKS),
    Fault("empty responses count", WEIGHTS,
          "(lengths > 0).sum()]", "(lengths >= 0).sum()]", OBJECTIVE),
    Fault("KL outside the mask is masked anyway", WEIGHTS,
          "kl = chosen if config.mask_kl else base", "kl = chosen", OBJECTIVE),
    Fault("zero scores are eligible", SCORES,
          "else mask & (values > 0))", "else mask & (values >= 0))", SELECTION),
    Fault("k from floats", SELECT,
          "return math.ceil(ratio * num_tokens)", "return math.ceil(float(ratio) * num_tokens)",
          SELECTION),
    Fault("k of the eligible instead of all tokens", SELECT,
          "min(num_wanted(top_ratio, size), eligible)", "num_wanted(top_ratio, eligible)", SETS),
    Fault("bottom is the bottom of all", SELECT,
          'top_ratio = ratio if config.side == "top" else 1 - ratio', "top_ratio = ratio", SETS),
    Fault("ties by position", TOPK,
          "return tie_keys(candidates.tie_states[block, None], positions)",
          "return (positions << _FIRST_DIGIT).expand(candidates.keys[block].shape)", SETS),
    Fault("tie order ignores the step", TIES,
          "for field in (stream, _signed(seed), _signed(step), sample_ids)",
          "for field in (stream, _signed(seed), sample_ids)", SELECTION),
    Fault("histograms are not reduced", TOPK,
          "lambda counts: global_sum(counts, process_group)", "lambda counts: counts", RANKS),
    Fault("group scope within one rank", SELECT,
          "everywhere, own = gather_rows(rows, process_group)",
          "everywhere, own = gather_rows(rows, None)", RANKS),
    Fault("selection per micro-batch", SELECT,
          'elif config.scope == "micro_batch" and micro_batch_ids is not None:',
          "elif micro_batch_ids is not None:", UPDATE),
    Fault("no-signal steps are taken", STEP,
          'if plan.signal == "none" and settings.skip_no_signal:', "if False:", UPDATE),
    Fault("KL-only steps count as no signal", SIGNAL,
          'return "kl_only" if kl else "none"', 'return "none"', UPDATE),
    Fault("divided by the micro-batch's tokens", STEP,
          "loss = masked_sum(plan.weights.pg[index] * terms.pg_loss, wanted)",
          "loss = masked_sum(plan.weights.pg[index] * terms.pg_loss, wanted) / len(rows)", UPDATE),
    Fault("log-probs are off by one", FORWARD,
          "positions + starts.to(device)[rows] - 1]", "positions + starts.to(device)[rows] - 2]",
          UPDATE),
    Fault("non-finite gradients are applied", FINITE,
          'if norm != norm or norm == float("inf"):', "if False:", UPDATE),
    Fault("norm cancels for certain tokens", LOGITS,
          "norm[rows] = (p.sum(-1).square() + p.square().sum(-1)).sqrt()",
          "p_o = log_probs[rows].exp(); "
          "norm[rows] = (1 - 2 * p_o + p.square().sum(-1) + p_o.square()).clamp_min(0).sqrt()",
          HEAD),
    Fault("temperature forgotten in the gradient", LOGITS,
          "grad_logits.mul_((grad[rows] / ctx.temperature)[:, None])",
          "grad_logits.mul_(grad[rows][:, None])", HEAD),
    Fault("entropy has the wrong sign", LOGITS,
          "entropy[rows] = -torch.where(", "entropy[rows] = torch.where(", HEAD),
    Fault("entropy hides NaN logits", LOGITS,
          "torch.where(p == 0, torch.zeros_like(p), p * log_p)",
          "torch.where(p > 0, p * log_p, torch.zeros_like(p))", HEAD_EDGES),
    Fault("the token's own gradient cancels", LOGITS,
          "scatter_(1, own, rest / (rest + itself))",
          "scatter_(1, own, 1 - itself / (rest + itself))", HEAD_EDGES),
    Fault("KL of rounding counts", TERMS,
          "raw = torch.where(raw.detach().abs() < config.kl_zero_tolerance, zero, raw)",
          "raw = raw + zero", OBJECTIVE),
    Fault("score none keeps the selection's denominator", PLAN,
          'if selection.score == "none" else objective', "if False else objective", UPDATE),
    Fault("a broken value stops one rank alone", FINITE,
          "if global_sum(count, process_group):", "if count:", STEP_RANKS),
    Fault("gradients of one rank", STEP,
          "parameter.grad = global_sum(parameter.grad, process_group)", "pass", STEP_RANKS),
)  # fmt: skip
