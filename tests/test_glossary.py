"""The glossary: every link leads somewhere, every spelling to one word."""

import math
import re

import pytest

from reticent.cli.main import main
from reticent.errors import InvalidParameterError
from reticent.glossary import explained, glossary
from reticent.guarantees import PureDP, best_guess


def test_links_lead_to_words_and_spellings_to_one_word():
    words = glossary()
    assert len(words) >= 60
    for key, term in words.items():
        assert set(term.see) <= words.keys() - {key}, key
        assert term.short.endswith("."), key
        for spelling in (key, term.name, *term.also):
            assert explained(spelling).key == key, spelling


@pytest.mark.parametrize("word", ["zCDP", "ZCDP", "  zcdp ", "Concentrated DP"])
def test_spelling_does_not_matter(word):
    assert explained(word).key == "zcdp"


def test_an_unknown_word_names_those_close_to_it():
    with pytest.raises(InvalidParameterError, match="epsilon"):
        explained("epsilom")
    with pytest.raises(InvalidParameterError, match="lists all words"):
        explained("qqqqqqqq")


def test_numbers_in_the_glossary_are_those_of_the_code():
    said = int(re.search(r"at most (\d+) times", glossary()["epsilon"].more)[1])
    assert said == math.ceil(100 * best_guess(PureDP(1.0)))


@pytest.mark.parametrize("words", [["zcdp"], ["unit", "of", "protection"], []])
def test_the_command_line_explains(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["explain", *words])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert (explained(" ".join(words)).name if words else "epsilon") in said


def test_the_command_line_says_that_a_word_is_unknown(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["explain", "epsilom"])
    assert ended.value.code == 2
    assert "Close to it: epsilon" in capsys.readouterr().err
