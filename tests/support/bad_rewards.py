"""Own scorers that misbehave."""


def raises(response, ground_truth, meta):
    """Fail."""
    return response + 1


def text(response, ground_truth, meta):
    """Return what is no verdict."""
    return "yes"


def nan(response, ground_truth, meta):
    """Return what is no number."""
    return float("nan")
