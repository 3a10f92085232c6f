"""Side information: what is written is read, and no string begins another."""

from itertools import combinations, product

import pytest

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.generalization.compression.side_information import (
    BitReader,
    BitWriter,
    width,
)


@pytest.mark.parametrize("choices", [1, 2, 3, 8, 9, 1000])
def test_numbers_come_back_in_the_announced_width(choices):
    for value in {0, choices // 2, choices - 1}:
        writer = BitWriter()
        writer.write(value, choices=choices)
        assert len(writer.bits) == width(choices)
        assert 2 ** width(choices) >= choices
        assert BitReader(writer.bits).read(choices=choices) == value


@pytest.mark.parametrize(("of", "size"), [(5, 0), (5, 2), (5, 5), (7, 3)])
def test_subsets_are_numbered_without_gaps(of, size):
    seen = set()
    for members in combinations(range(of), size):
        writer = BitWriter()
        writer.write_subset(members, of=of)
        seen.add(writer.bits)
        assert BitReader(writer.bits).read_subset(size, of=of) == list(members)
    assert len(seen) == sum(1 for _ in combinations(range(of), size))


def test_strings_of_one_format_satisfy_krafts_inequality():
    def string(rounds, subsets):
        writer = BitWriter()
        writer.write(rounds - 1, choices=3)
        for members in subsets:
            writer.write_subset(members, of=4)
        return writer.bits

    strings = [
        string(rounds, subsets)
        for rounds in (1, 2, 3)
        for subsets in product(combinations(range(4), 2), repeat=rounds)
    ]
    assert len(set(strings)) == len(strings)
    assert sum(2.0 ** -len(text) for text in strings) <= 1
    beginnings = {text[:k] for text in strings for k in range(len(text))}
    assert not beginnings & set(strings)


def test_writer_refuses_what_does_not_fit():
    with pytest.raises(InvalidParameterError, match="value=4"):
        BitWriter().write(4, choices=4)
    with pytest.raises(InvalidParameterError, match="below 3"):
        BitWriter().write_subset([0, 3], of=3)
    with pytest.raises(InvalidParameterError, match="different"):
        BitWriter().write_subset([1, 1], of=3)
    with pytest.raises(InvalidParameterError, match="choices=0"):
        width(0)


def test_reader_refuses_foreign_bits():
    with pytest.raises(InvalidDataError, match="text of 0 and 1"):
        BitReader("012")
    with pytest.raises(InvalidDataError, match="ends before"):
        BitReader("0").read(choices=4)
    with pytest.raises(InvalidDataError, match="out of bounds"):
        BitReader("11").read(choices=3)
    with pytest.raises(InvalidDataError, match="no subset"):
        BitReader("").read_subset(3, of=2)
    reader = BitReader("10")
    reader.read(choices=2)
    with pytest.raises(InvalidDataError, match="1 bits"):
        reader.finish()
