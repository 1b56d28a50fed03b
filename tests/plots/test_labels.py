"""Names that are too long for a plot."""

from __future__ import annotations

from harsanyinet.plots.labels import distinct_labels


def test_long_names_stay_apart():
    front, back, middle = "a" * 60, "b" * 60, "c" * 60
    names = [f"{front}1", f"{front}2", f"1{back}", f"2{back}", *(f"{middle}{i}{middle}" for i in "123"), "short"]
    found = distinct_labels(names)
    assert len(set(found)) == len(names)
    assert all(len(label) <= 40 for label in found)
    assert found[0].endswith("a1")
    assert found[-1] == "short"
    assert all(i in label for i, label in zip("123", found[4:7], strict=True))  # what differs is shown
    odd = ["x" * 30 + "1" + "y" * 40 + "1" + "y" * 30, "x" * 30 + "1" + "y" * 40 + "2" + "y" * 30, "x" * 30 + "z" * 70]
    assert len(set(distinct_labels([*odd, odd[0][:-1] + "z" + odd[0][-1]]))) == 4
