"""Small modules and data with known answers, to be trained."""

import copy

import torch
from torch import Tensor, nn

from harsanyinet.training import History, TrainingConfig, fit_module


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().flatten(1).mean(1)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def linear_data(n_rows: int = 200, noise: float = 0.1) -> tuple[Tensor, Tensor]:
    x = random(n_rows, 3)
    return x, x @ torch.tensor([[2.0], [-1.0], [0.5]], dtype=torch.float64) + 0.7 + noise * random(n_rows, 1, seed=1)


class Linear(nn.Module):
    """A linear map from zero in which absent players are zero, and which remembers how it was called."""

    def __init__(self, n_columns: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, n_columns, dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.calls: list[tuple[Tensor, Tensor | None, bool]] = []

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        self.calls.append((x, present, self.training))
        return nn.functional.linear(x if present is None else x * present, self.weight, self.bias)

    def masks(self, *, train: bool) -> list[Tensor]:
        return [present for _, present, training in self.calls if training == train and present is not None]


class Slope(nn.Module):
    """Its output is its only weight, whatever the row."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight.expand(len(x), 1)


def noisy_network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1)).double()


def overshooting(epochs: int = 20, **options: object) -> tuple[nn.Module, History, list[dict[str, Tensor]]]:
    """Trains a slope from 0 towards 3 by thirds of the way, validated at 2: the validation loss falls, then rises."""
    module, seen = Slope(), []
    config = TrainingConfig(
        epochs=epochs, optimizer="sgd", learning_rate=1 / 6, patience=options.pop("patience", None),
    )  # fmt: skip
    history = fit_module(
        module,
        torch.zeros(4, 1, dtype=torch.float64),
        torch.full((4, 1), 3.0, dtype=torch.float64),
        loss=options.pop("loss", squared),
        config=config,
        validation=(torch.zeros(2, 1, dtype=torch.float64), torch.full((2, 1), 2.0, dtype=torch.float64)),
        on_epoch=options.pop("on_epoch", lambda _, m: seen.append(copy.deepcopy(m.state_dict()))),
        **options,
    )
    return module, history, seen


def same_bits(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def module_of(state: dict[str, Tensor]) -> nn.Module:
    module = Slope()
    module.load_state_dict(state)
    return module
