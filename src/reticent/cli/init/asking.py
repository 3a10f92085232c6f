"""Questions to a person at a terminal; in a pipe, options must have answered them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer

from reticent.cli.output import Output
from reticent.errors import InvalidParameterError

T = TypeVar("T")


class Asker:
    """Asks until an answer is valid; never makes one up.

    Parameters
    ----------
    output : Output
        Where sentences go.
    interactive : bool
        Whether there is somebody to answer.
    """

    def __init__(self, output: Output, *, interactive: bool) -> None:
        self.output = output
        self.interactive = interactive

    def say(self, *lines: str) -> None:
        """Tell a person something, where there is one."""
        if self.interactive:
            for line in lines:
                self.output.note(line)

    def ask(
        self,
        question: str,
        option: str,
        read: Callable[[str], T],
        *,
        given: str | None = None,
        default: str | None = None,
    ) -> T:
        """Return what an option says, or what a person answers.

        Parameters
        ----------
        question : str
            The question.
        option : str
            What to give in a pipe.
        read : callable
            Makes sense of the text, or raises InvalidParameterError.
        given : str or None, default=None
            What the option says.
        default : str or None, default=None
            Taken for an empty answer, and in a pipe.
        """
        if given is not None:
            return read(given)
        if not self.interactive:
            if default is None:
                raise InvalidParameterError(f"{question} Give {option}.")
            return read(default)
        while True:
            text: Any = typer.prompt(question, default=default, err=True)
            try:
                return read(str(text).strip())
            except InvalidParameterError as error:
                self.output.note(f"  {error}")

    def confirmed(self, question: str, *, default: bool) -> bool:
        """Return whether a person says yes; in a pipe nobody does."""
        return self.interactive and typer.confirm(question, default=default, err=True)

    def agree(self, question: str, option: str, *, given: bool) -> None:
        """Continue only if a person says yes, or the option was given."""
        if given:
            return
        if not self.interactive:
            raise InvalidParameterError(f"{question} Confirm it with {option}.")
        if not typer.confirm(question, default=None, err=True):
            raise InvalidParameterError(
                "so no model was made. Correct what you declared, and run 'reticent "
                "init' again."
            )


def one_of(*choices: str) -> Callable[[str], str]:
    """Return a reader that takes one of some words, or the beginning of one."""

    def read(text: str) -> str:
        found = [c for c in choices if text and c.lower().startswith(text.lower())]
        exact = [choice for choice in choices if choice == text]
        if len(exact or found) != 1:
            raise InvalidParameterError(
                f"answer with one of {', '.join(choices)}; got {text!r}."
            )
        return (exact or found)[0]

    return read
