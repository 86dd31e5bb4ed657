"""What gmts has to know of a data set to read it from the Hub or from local files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gmts.data.questions import Question
from gmts.data.records import Record

Fields = Mapping[str, tuple[str, ...]]
"""Our name of a field -> dotted names under which releases of the set have it, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A training set. The revision is the experiment's: data.hub.revision."""

    repo: str
    """Id of the data set on the Hub."""
    files: tuple[str, ...]
    """Patterns of the training files in the repository."""
    fields: Fields
    normalise: Callable[[Record, Fields], Question]
    """Makes a row a question.

    Raises:
        BadRowError: If the row lacks what a question needs.
    """
    license: str
    """As its authors state it."""
    answer_is_text: bool = True
    """Equal questions have equal answers; False where the answer is one solution of many."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Top-level columns that `normalise` may read."""
        return tuple({name.split(".")[0]: None for names in self.fields.values() for name in names})
