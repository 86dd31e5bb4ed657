import torch

from gmts.selection.ties import first_positions, random_scores, tie_keys, tie_states
from tests.support.selection_reference import token_hash


def as_unsigned(keys: torch.Tensor) -> list[int]:
    return [key % 2**64 for key in keys.flatten().tolist()]


def test_tie_keys_are_the_documented_hash_of_seed_step_sample_and_position():
    ids = [0, 1, 17, 2**62, -5]
    for seed, step in ((0, 0), (42, 1), (-3, 10**9), (2**64 - 1, 2**40)):
        states = tie_states(torch.tensor(ids), seed=seed, step=step)
        keys = tie_keys(states[:, None], torch.arange(6)[None])
        expected = [
            token_hash(b"ti", seed, step, sample_id, position)
            for sample_id in ids
            for position in range(6)
        ]
        assert as_unsigned(keys) == expected


def test_random_scores_are_the_hash_of_another_stream_in_the_unit_interval():
    mask = torch.tensor([[True, True, False], [False, True, True]])
    values = random_scores(torch.tensor([5, 9]), mask, seed=1, step=2)
    expected = [
        ((token_hash(b"rn", 1, 2, sample_id, position) >> 40) + 1) / 2**24
        for sample_id, position in ((5, 0), (5, 1), (9, 0), (9, 1))
    ]
    assert values[mask].tolist() == expected


def test_positions_count_from_the_first_response_token():
    mask = [
        [True, True, False, False],
        [False, False, True, True],
        [False, True, False, True],
        [False, False, False, False],
    ]
    assert first_positions(torch.tensor(mask)).tolist() == [0, 2, 1, 0]
    assert first_positions(torch.zeros((3, 0), dtype=torch.bool)).tolist() == [0, 0, 0]


def test_random_scores_are_uniform_and_never_zero():
    values = random_scores(
        torch.arange(500), torch.ones(500, 400, dtype=torch.bool), seed=11, step=3
    )
    assert float(values.min()) > 0
    assert float(values.max()) <= 1
    counts = torch.histc(values, bins=100, min=0, max=1)
    # 2,000 expected in each of 100 bins; the statistic has mean 99 and deviation 14.
    assert float(((counts - 2000) ** 2 / 2000).sum()) < 99 + 5 * 14


def test_a_bit_of_any_field_changes_half_of_the_bits_of_a_key():
    def key(seed, step, sample_id, position):
        states = tie_states(torch.tensor([sample_id]), seed=seed, step=step)
        return as_unsigned(tie_keys(states, torch.tensor([position])))[0]

    generator = torch.Generator().manual_seed(0)
    flips = []
    for _ in range(100):
        fields = torch.randint(0, 2**20, (4,), generator=generator).tolist()
        for index in range(4):
            for bit in (0, 7, 19):
                other = list(fields)
                other[index] ^= 1 << bit
                flips.append((key(*fields) ^ key(*other)).bit_count())
    # 1,200 draws of 64 fair bits: the mean is 32 with deviation 4 / sqrt(1200) = 0.12.
    assert abs(sum(flips) / len(flips) - 32) < 0.6
    assert min(flips) > 8
