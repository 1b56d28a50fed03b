from __future__ import annotations

import torch

from harsanyinet.images.pixels import augmented


def test_augmentation():
    g = torch.Generator().manual_seed(0)
    x = torch.randint(1, 256, (64, 3, 6, 8), generator=g).to(torch.uint8)
    mirrored = augmented(x, g, flip=True, crop=0, cutout=0)
    same, turned = ((mirrored == other).flatten(1).all(1) for other in (x, x.flip(3)))
    assert bool((same ^ turned).all())
    assert 16 < int(turned.sum()) < 48
    moved = augmented(x, g, flip=False, crop=1, cutout=0)
    assert moved.shape == x.shape
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
    shifts = {
        (top, left)
        for image, wide in zip(moved, padded, strict=True)
        for top in range(3)
        for left in range(3)
        if torch.equal(image, wide[:, top : top + 6, left : left + 8])
    }
    assert len(shifts) == 9
    holes = (augmented(x, g, flip=False, crop=0, cutout=4) == 0).all(1).flatten(1).sum(1)
    assert int(holes.max()) == 16
    assert int(holes.min()) >= 4  # at a corner
