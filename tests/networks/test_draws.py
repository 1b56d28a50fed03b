"""First weights come from the seed alone, and a file's are not drawn first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from harsanyinet import HarsanyiCNN, HarsanyiMLP, load, save
from harsanyinet.networks.draws import from_seed, left_open, normal, uniform, xavier

NETWORKS = {
    "activation": lambda: HarsanyiMLP(5, 2, width=9),
    "deep": lambda: HarsanyiMLP.deep(5, 2, width=9),
    "presence": lambda: HarsanyiMLP(5, 2, width=9, gate="presence", channels=2),
    "learned children": lambda: HarsanyiMLP(5, 2, width=9, gate="presence", learn_children=True),
    "sets": lambda: HarsanyiMLP(5, 2, gate="presence", sets=[(0, 1), (2, 3, 4)]),
    "location": lambda: HarsanyiCNN(1, 8, 3, channels=4, gate="presence", children="location", stem="deep"),
    "group": lambda: HarsanyiCNN(1, 8, 3, channels=4, gate="presence", groups=2, stem="patch"),
    "paper": lambda: HarsanyiCNN(1, 8, 3, channels=4),
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The random functions of torch that were called."""
    calls: list[str] = []

    def watched(place: object, name: str) -> None:
        real = getattr(place, name)

        def call(*args: Any, **options: Any) -> Any:
            if not (args and isinstance(args[0], torch.Tensor) and args[0].is_meta):  # it holds no numbers
                calls.append(name)
            return real(*args, **options)

        monkeypatch.setattr(place, name, call)

    for name in ("rand", "randn", "randint", "randperm", "rand_like", "randn_like"):
        watched(torch, name)
    for name in ("uniform_", "normal_", "random_", "bernoulli_"):
        watched(torch.Tensor, name)
    for name in ("xavier_uniform_", "kaiming_uniform_", "uniform_", "normal_"):
        watched(torch.nn.init, name)
    return calls


@pytest.mark.parametrize("name", NETWORKS)
def test_reading_a_network_draws_nothing(name: str, tmp_path: Path, drawn: list[str]) -> None:
    net = NETWORKS[name]().eval()
    assert drawn  # what watches does see something
    save(net, tmp_path / "net")
    drawn.clear()
    state = torch.get_rng_state()
    again = load(tmp_path / "net")
    assert drawn == []
    assert torch.equal(torch.get_rng_state(), state)
    assert {k: v.tolist() for k, v in again.state_dict().items()} == {
        k: v.tolist() for k, v in net.state_dict().items()
    }
    assert again.config == net.config


@pytest.mark.parametrize("name", NETWORKS)
def test_first_weights_come_from_the_seed_alone(name: str) -> None:
    before = torch.get_rng_state()
    one = NETWORKS[name]()
    assert torch.equal(torch.get_rng_state(), before)  # torch's own generator is left alone
    torch.rand(7)
    two = NETWORKS[name]()
    for (key, first), second in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        assert torch.equal(first, second), key


def test_left_open_ends_with_its_block() -> None:
    with left_open():
        assert from_seed(0) is None
    with pytest.raises(KeyError), left_open():
        raise KeyError
    assert from_seed(0) is not None
    assert not uniform((3,), None).any()
    assert not normal((3,), None).any()
    assert not xavier((3, 2), None).any()
    assert bool(uniform((3,), from_seed(0)).all())
