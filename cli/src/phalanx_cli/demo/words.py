"""The demo's data: the English nouns, verbs and adjectives that the package wonderwords ships, as character tokens.

A list of words is small enough for two cores and still real: the model learns to spell. No torch here, so that the
tests of the data stay fast.
"""

from __future__ import annotations

from importlib import resources

ALPHABET = "\nabcdefghijklmnopqrstuvwxyz"
"""The end of a word, then the letters; the token of a character is its place here."""

_LISTS = ("nounlist.txt", "verblist.txt", "adjectivelist.txt")


class DataMissing(Exception):
    """The package with the words is not installed."""


def read_words() -> list[str]:
    """All words of plain letters, in lower case, in the order of the files.

    Raises:
        DataMissing: wonderwords is not installed.
    """
    try:
        folder = resources.files("wonderwords") / "assets"
        texts = [(folder / name).read_text(encoding="utf-8") for name in _LISTS]
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise DataMissing(
            f"the demo trains on the words of wonderwords; install phalanx-cli[demo] ({error})"
        ) from error
    words = (word.strip().lower() for text in texts for word in text.splitlines())
    return [word for word in words if word and all(letter in ALPHABET[1:] for letter in word)]


def as_tokens(words: list[str]) -> list[int]:
    """One long line of tokens, each word closed by the end token."""
    places = {letter: place for place, letter in enumerate(ALPHABET)}
    return [places[letter] for word in words for letter in word + "\n"]
