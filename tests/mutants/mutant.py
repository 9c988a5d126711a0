"""A fault that is seeded into the code to see whether a test notices it."""

from typing import NamedTuple


class Edit(NamedTuple):
    file: str  # below the sources of its suite
    text: str  # stands in the file once
    replacement: str


class Mutant(NamedTuple):
    breaks: str
    file: str
    text: str
    replacement: str
    more: tuple[Edit, ...] = ()  # further edits of the same fault

    def edits(self):
        return (Edit(self.file, self.text, self.replacement), *self.more)
