"""A step's metrics from those of its mini-batches."""

from collections.abc import Mapping, Sequence

_SUMMED = ("train/no_signal", "train/kl_only")
_SUFFIX_OF_MAXIMA = "_max"


def over_mini_batches(results: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean over the mini-batches that have a metric.

    Counts of mini-batches (train/no_signal, train/kl_only) are summed; of metrics whose name ends
    in _max the largest is taken.
    """
    merged = {}
    for name in sorted({name for result in results for name in result}):
        values = [result[name] for result in results if name in result]
        if name in _SUMMED:
            merged[name] = sum(values)
        elif name.endswith(_SUFFIX_OF_MAXIMA):
            merged[name] = max(values)
        else:
            merged[name] = sum(values) / len(values)
    return merged
