from __future__ import annotations

import pytest

from harsanyinet.images.cnn import HarsanyiCNN


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"gate": "and"}, "gate must be one of 'activation', 'presence', however: gate='and'"),
        ({"stem": "vgg"}, "stem must be 'paper', 'patch', 'deep', 'residual', 'map' or a module, however: stem='vgg'"),
        ({"gate": "presence", "groups": 3}, "channels must be a multiple of groups, however: channels=32, groups=3"),
        ({"groups": 2}, "groups belong to children='group', however: groups=2 with children='location'"),
        ({"children": "group"}, "children='group' belongs to the presence gate, however: gate='activation'"),
        (
            {"strides": [1, 2, 1, 1]},
            "strides must be 1, or 2 where children are chosen per group, however: strides=[1, 2, 1, 1] with "
            "children='location'",
        ),
        (
            {"gate": "presence", "channels": [4, 8]},
            "channels must hold one number for each of the 4 blocks, however: [4, 8]",
        ),
        (
            {"gate": "presence", "strides": (1, 3, 1, 1)},
            "strides must be 1, or 2 where children are chosen per group, however: strides=[1, 3, 1, 1] with "
            "children='group'",
        ),
        ({"gate": "presence", "strides": [0, 1, 1, 1]}, "strides must be at least 1, however: strides=0"),
        ({"n_blocks": 0}, "n_blocks must be at least 1, however: n_blocks=0"),
        ({"beta": 0.0}, "beta must be positive and finite, however: beta=0.0"),
        (
            {"stem": "patch", "patch": 3},
            "patch must divide the height and width of the images, however: patch=3, 8 x 8",
        ),
    ],
)
def test_wrong_settings(options, sentence):
    with pytest.raises(ValueError, match=r".") as error:
        HarsanyiCNN(1, 8, 3, **options)
    assert str(error.value) == sentence


def test_wrong_image_sizes():
    with pytest.raises(ValueError, match=r"image_size must be one number, or height and width, however: .*\(8, 8, 3\)"):
        HarsanyiCNN(3, (8, 8, 3), 2)
    with pytest.raises(ValueError, match=r"stem must take images of shape \(3, 1, 1\), however: .*too small"):
        HarsanyiCNN(3, 1, 2)
