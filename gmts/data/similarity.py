r"""Which questions are near one another: word n-grams for long ones, word edits for short ones.

A question becomes words: NFKC, lower case, LaTeX commands (`\frac`, `\left`) and punctuation
dropped; a Chinese or Japanese character is a word. For a reference question R and a text T:

- R of at least 25 words: the share of R's distinct word trigrams that T has too,
- shorter R: 2M / (|R| + |T|), with M the words that difflib.SequenceMatcher matches in order.

Both lie in [0, 1]. The first is 1 where T holds all of R: R quoted within a longer T counts.
"""

import math
import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

LONG_WORDS = 25
"""Questions of at least so many words are compared by n-grams."""

NGRAM = 3

_COMMAND = re.compile(r"\\[a-z]+")
_LAYOUT = Counter(
    dict.fromkeys(
        (
            *(r"\frac", r"\dfrac", r"\tfrac", r"\left", r"\right", r"\displaystyle", r"\quad"),
            *(r"\text", r"\textbf", r"\mathrm", r"\mathbf", r"\mathcal", r"\operatorname"),
            *(r"\begin", r"\end", r"\dots", r"\ldots", r"\cdots", r"\big", r"\bigg"),
        ),
        1 << 30,
    )
)
_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")

_COUNT_BITS = 22
_COUNT_MASK = (1 << _COUNT_BITS) - 1
"""Features are counted by the low bits of their hash: 16 MiB for any number of questions."""

Words = tuple[str, ...]
_Feature = tuple[str, int]


def compared_words(text: str) -> Words:
    """Return the words by which `text` is compared."""
    normal = unicodedata.normalize("NFKC", text).casefold()
    return tuple(_WORD.findall(_COMMAND.sub(" ", normal)))


def particulars(text: str) -> Counter[str]:
    """Return what tells variants of a question apart: numbers, and LaTeX commands with a meaning.

    The commands that only lay out are not among them.
    """
    normal = unicodedata.normalize("NFKC", text).casefold()
    found = Counter(word for word in compared_words(text) if any(map(str.isdigit, word)))
    return found + Counter(_COMMAND.findall(normal)) - _LAYOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A reference that is near a text."""

    reference: int
    """Its number, in the order in which references were added."""
    similarity: float
    measure: str
    """ngrams or edits."""


class NearIndex:
    """Reference questions, found again by texts that are near them.

    No pair is missed: a reference is posted under so many of its features that a text which
    reaches the threshold must share one of them (prefix filtering), and then compared in full.
    The features it is posted under are its rarest, which only spares comparisons.
    """

    def __init__(
        self,
        references: Sequence[Words],
        *,
        overlap: float,
        similarity: float,
        both_ways: bool = False,
    ) -> None:
        """Index references; their numbers are their positions.

        Args:
            references: The questions' words.
            overlap: Threshold of the n-gram measure, in (0, 1].
            similarity: Threshold of the edit measure, in (0, 1].
            both_ways: Require the n-gram measure of the text in the reference too, so that a
                longer text that holds the reference is not near it.
        """
        self._overlap = overlap
        self._similarity = similarity
        self._both_ways = both_ways
        self._references = references
        self._counts = array("I", bytes(4 << _COUNT_BITS))
        for words in references:
            for feature in _features(words):
                self._counts[hash(feature) & _COUNT_MASK] += 1
        self._postings: defaultdict[_Feature, list[int]] = defaultdict(list)
        for number, words in enumerate(references):
            for feature in self._prefix(_features(words), self._needed(words)):
                self._postings[feature].append(number)

    def find(self, words: Words, *, before: int | None = None) -> list[Match]:
        """Return the references near a text, nearest first, then by number.

        Args:
            words: The text.
            before: Look only among references of a lower number; None: among all.
        """
        ngrams = _ngrams(words)
        probed = set(ngrams)
        if self._both_ways:
            probed = set(self._prefix(ngrams, self._overlap * len(ngrams)))
        # A text that is twice as long as a short reference may still be near it.
        if len(words) * self._similarity <= LONG_WORDS * (2 - self._similarity):
            probed |= _counted(words)
        candidates = {
            number
            for feature in probed
            for number in self._postings.get(feature, ())
            if before is None or number < before
        }
        found = (
            self._by_ngrams(number, ngrams)
            if len(self._references[number]) >= LONG_WORDS
            else self._by_edits(number, words)
            for number in candidates
        )
        matches = [match for match in found if match is not None]
        return sorted(matches, key=lambda match: (-match.similarity, match.reference))

    def _needed(self, words: Words) -> float:
        """Return how many features of a reference a text must share to be near it."""
        if len(words) >= LONG_WORDS:
            return self._overlap * len(_ngrams(words))
        # A text with M matches has at least M words, so 2M / (|R| + |T|) >= s needs this M.
        return len(words) * self._similarity / (2 - self._similarity)

    def _prefix(self, features: set[_Feature], needed: float) -> list[_Feature]:
        # A sum of products of floats may lie a rounding above the whole number it stands for.
        count = len(features) - max(math.ceil(needed - 1e-9), 1) + 1
        counts = self._counts
        return sorted(features, key=lambda f: (counts[hash(f) & _COUNT_MASK], f))[:count]

    def _by_ngrams(self, number: int, text: set[_Feature]) -> Match | None:
        reference = _ngrams(self._references[number])
        size = max(len(reference), len(text)) if self._both_ways else len(reference)
        share = len(reference & text) / size
        if share < self._overlap:
            return None
        return Match(reference=number, similarity=share, measure="ngrams")

    def _by_edits(self, number: int, text: Words) -> Match | None:
        reference = self._references[number]
        shortest, total = min(len(reference), len(text)), len(reference) + len(text)
        if 2 * shortest < self._similarity * total:
            return None
        matcher = SequenceMatcher(None, reference, text, autojunk=False)
        if matcher.quick_ratio() < self._similarity:  # an upper bound that costs little
            return None
        ratio = matcher.ratio()
        if ratio < self._similarity:
            return None
        return Match(reference=number, similarity=ratio, measure="edits")


def _features(words: Words) -> set[_Feature]:
    return _ngrams(words) if len(words) >= LONG_WORDS else _counted(words)


def _ngrams(words: Words) -> set[_Feature]:
    """Return the distinct n-grams of words; of fewer words, what there is."""
    count = max(len(words) - NGRAM + 1, 1)
    return {(" ".join(words[start : start + NGRAM]), NGRAM) for start in range(count)}


def _counted(words: Words) -> set[_Feature]:
    """Return the words, the second, third ... occurrence of one told apart; negative, to differ."""
    seen: Counter[str] = Counter()
    features = set()
    for word in words:
        seen[word] += 1
        features.add((word, -seen[word]))
    return features
