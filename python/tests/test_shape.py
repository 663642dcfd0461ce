import pytest

from pathways._cluster.shape import Shape


def test_a_shape_reads_and_prints_the_same():
    assert Shape.parse("2x3x4") == Shape(2, 3, 4)
    assert str(Shape.parse(" 2 X 3 x 4 ")) == "2x3x4"


def test_hosts_are_numbered_through_all_islands():
    assert Shape(2, 2, 1).placement() == [("island0", "host0"), ("island0", "host1"), ("island1", "host2"), ("island1", "host3")]


@pytest.mark.parametrize("text", ["", "4", "2x4", "0x1x1", "1x1x-1", "axbxc", "1x1x99999"])
def test_a_bad_shape_says_what_is_expected(text):
    with pytest.raises(ValueError, match="expected ISLANDSxHOSTSxDEVICES|between 1 and"):
        Shape.parse(text)
