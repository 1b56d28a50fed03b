"""First weights come from the seed alone, and a file's are not drawn first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from harsanyinet import HarsanyiCNN, HarsanyiMLP, load, save
from harsanyinet.networks.draws import first_children, first_sets, from_seed, left_open, normal, uniform, xavier

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


def test_first_children_by_the_papers_and_the_authors_rule():
    g = torch.Generator().manual_seed(0)
    assert (first_children(50, 12, None, g) > 0).sum(1).tolist() == [10] * 50
    assert (first_children(50, 4, None, g) > 0).sum(1).tolist() == [4] * 50
    assert (first_children(50, 12, 0.1, g) > 0).sum(1).tolist() == [1] * 50
    assert (first_children(50, 100, 0.1, g) > 0).sum(1).tolist() == [10] * 50
    tau = first_children(2000, 10, 3, g)
    assert set(tau.unique().tolist()) == {-1.0, 1.0}
    share = (tau > 0).float().mean(0)
    assert bool(((share - 0.3).abs() < 0.05).all())  # every candidate is as likely; standard error 0.01


def test_first_sets_singles_first_then_even_random_sets():
    sets = first_sets(40, 6, (2, 3), torch.Generator().manual_seed(0))
    assert torch.equal(sets[:6], torch.eye(6, dtype=torch.bool))
    assert sets[6:].sum(1).tolist() == [2, 3] * 17
    counts = sets[6:].sum(0)
    assert int(counts.max() - counts.min()) <= 2
    few = first_sets(10, 100, (2, 3), torch.Generator().manual_seed(0))
    assert bool(few.any(0).all())  # fewer units than variables: still every variable is somewhere
    assert first_sets(3, 1, (2,), torch.Generator().manual_seed(0)).all()
