"""Near questions: the measures by hand, and the index against comparing every pair."""

import random
from difflib import SequenceMatcher

import pytest

from gmts.data.similarity import LONG_WORDS, NearIndex, compared_words, particulars

ALPHABET = "abcdefgh"


def near(references, text, **options):
    settings = {"overlap": 0.85, "similarity": 0.95} | options
    words = [compared_words(reference) for reference in references]
    return NearIndex(words, **settings).find(compared_words(text))


def numbered(first, last):
    return " ".join(f"w{i}" for i in range(first, last + 1))


def test_words_have_no_case_layout_or_punctuation_and_a_chinese_character_is_one():
    text = r"Let $\left(\dfrac{1}{x_2}\right)$ -- ＡＢ: 求和。"
    assert compared_words(text) == ("let", "1", "x", "2", "ab", "求", "和")
    assert compared_words(r"\frac12") == ("12",)


def test_a_long_question_counts_by_its_trigrams_in_the_text():
    # 30 words have 28 trigrams; without the last 4 words, 24 are left: 24 / 28 = 0.857.
    matches = near([numbered(1, 30)], numbered(1, 26))
    assert [(match.reference, match.measure) for match in matches] == [(0, "ngrams")]
    assert matches[0].similarity == pytest.approx(24 / 28)
    assert near([numbered(1, 30)], numbered(1, 25)) == []  # 23 / 28 = 0.82


def test_a_longer_text_that_holds_the_question_is_near_it_one_way_only():
    text = numbered(100, 180) + " " + numbered(1, 30)
    assert near([numbered(1, 30)], text)[0].similarity == 1.0
    assert near([numbered(1, 30)], text, both_ways=True) == []


def test_a_short_question_counts_by_words_matched_in_order():
    # 20 words each, 19 matched: 2 * 19 / 40 = 0.95. With 19 words each, 18 / 19 = 0.947.
    assert near([numbered(1, 20)], numbered(2, 20) + " other")[0].similarity == pytest.approx(0.95)
    assert near([numbered(1, 19)], numbered(2, 19) + " other") == []
    assert near(["a b c d"], "d c b a") == []


def test_matches_come_nearest_first_and_before_limits_them():
    references = [compared_words(numbered(1, last)) for last in (24, 23, 24)]
    index = NearIndex(references, overlap=0.85, similarity=0.9)
    assert [m.reference for m in index.find(references[2])] == [0, 2, 1]
    assert [m.reference for m in index.find(references[2], before=2)] == [0, 1]


def test_numbers_and_meaningful_commands_tell_variants_apart_and_layout_does_not():
    assert particulars(r"\sin 30") != particulars(r"\cos 30")
    assert particulars(r"\sin 30") != particulars(r"\sin 60")
    assert particulars(r"\left(\frac{1}{2}\right)") == particulars(
        r"(\dfrac12)".replace("12", "{1}{2}")
    )


def every_pair(references, text, overlap, similarity, *, both_ways):
    """The definition, pair by pair."""
    found = set()
    for number, reference in enumerate(references):
        if len(reference) >= LONG_WORDS:
            a, b = (
                {words[i : i + 3] for i in range(max(len(words) - 2, 1))}
                for words in (reference, text)
            )
            value = len(a & b) / (max(len(a), len(b)) if both_ways else len(a))
            limit = overlap
        else:
            value = SequenceMatcher(None, reference, text, autojunk=False).ratio()
            limit = similarity
        if value >= limit:
            found.add((number, round(value, 9)))
    return found


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize(("overlap", "similarity"), [(0.85, 0.95), (0.5, 0.6), (1.0, 1.0)])
def test_the_index_misses_no_pair_and_adds_none(overlap, similarity, both_ways):
    rng = random.Random(0)
    originals = [tuple(rng.choice(ALPHABET) for _ in range(rng.randint(1, 60))) for _ in range(60)]
    texts = []
    for words in originals:
        changed = list(words)
        for _ in range(rng.randint(0, 4)):
            position = rng.randrange(len(changed) + 1)
            changed[position : position + rng.randint(0, 1)] = rng.choices(
                ALPHABET, k=rng.randint(0, 2)
            )
        texts.append(tuple(changed))
    index = NearIndex(originals, overlap=overlap, similarity=similarity, both_ways=both_ways)
    total = 0
    for text in texts:
        expected = every_pair(originals, text, overlap, similarity, both_ways=both_ways)
        found = {(match.reference, round(match.similarity, 9)) for match in index.find(text)}
        assert found == expected
        total += len(expected)
    assert total > 5
