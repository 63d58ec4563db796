"""What the stages before this one made, asked of the worker only when it is looked at."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from takeup.core.errors import InvalidInput

Names = tuple[str, ...] | None
"""Of files; None is all there are."""


@dataclass(frozen=True, slots=True)
class Made:
    """One finished task of a stage that this one needs."""

    segment: int | None
    result: Mapping[str, Any]
    files: Mapping[str, Path]


class Input:
    """The outputs of one stage: of the whole, of the same segment, or of all segments in their order."""

    def __init__(self, stage: str, made: Sequence[Made]) -> None:
        """What was made by the stage of this name."""
        self.stage = stage
        self.made = tuple(made)

    @property
    def result(self) -> Mapping[str, Any]:
        """The result of the one task; a stage with many segments has `results`."""
        return self._one().result

    @property
    def results(self) -> list[Mapping[str, Any]]:
        """The results of all tasks, in the order of their segments."""
        return [made.result for made in self.made]

    def path(self, name: str) -> Path:
        """The output file of this name of the one task."""
        files = self._one().files
        if name not in files:
            known = ", ".join(sorted(files)) or "no files"
            raise InvalidInput(f"stage {self.stage} made no {name!r}; it made: {known}")
        return files[name]

    def paths(self, name: str | None = None) -> list[Path]:
        """The output files of this name, or all of them, in the order of the segments."""
        return [
            path for made in self.made for file, path in sorted(made.files.items()) if name in (None, file)
        ]

    def _one(self) -> Made:
        if len(self.made) != 1:
            raise InvalidInput(
                f"stage {self.stage} has {len(self.made)} finished tasks here; use .results and .paths()"
            )
        return self.made[0]


class Inputs(Mapping[str, Input]):
    """The inputs by stage name; each is fetched once."""

    def __init__(self, stages: Sequence[str], fetch: Callable[[str, Names], Input]) -> None:
        """`fetch` asks the worker for one stage's outputs, with all files or those of these names."""
        self._stages = tuple(stages)
        self._fetch = fetch
        self._known: dict[tuple[str, Names], Input] = {}

    def __getitem__(self, stage: str) -> Input:
        """The outputs of a stage that this one needs."""
        return self._of(stage, None)

    def only(self, stage: str, *names: str) -> Input:
        """The same with no other files than these: a worker elsewhere does not fetch the rest."""
        return self._of(stage, names)

    def _of(self, stage: str, names: Names) -> Input:
        if stage not in self._stages:
            known = ", ".join(self._stages) or "nothing"
            raise KeyError(f"this stage does not need {stage!r}; it needs: {known}")
        if (stage, names) not in self._known:
            self._known[stage, names] = self._fetch(stage, names)
        return self._known[stage, names]

    def __iter__(self) -> Iterator[str]:
        """The names of the stages that this one needs."""
        return iter(self._stages)

    def __len__(self) -> int:
        """How many stages this one needs."""
        return len(self._stages)
