"""Steps: losses, optimizers, clips and weight decay."""

import copy

import pytest
import torch
from torch import Tensor, nn
from trained_modules import Linear, linear_data, same_bits, squared

from harsanyinet.training import Batch, TrainingConfig, fit_module
from harsanyinet.training.steps import decayed_parameters


@pytest.mark.parametrize(("clip_norm", "length"), [(0.25, 0.25), (1e9, None), (None, None)])
def test_clipping_bounds_the_whole_gradient(clip_norm, length):
    x, y = linear_data(20)
    module = Linear()
    module.register_parameter("frozen", nn.Parameter(torch.ones(1), requires_grad=False))
    module.frozen.grad = torch.full((1,), 1e6)  # a left-over that must not count
    fit_module(
        module,
        x,
        y,
        loss=squared,
        config=TrainingConfig(epochs=1, optimizer="sgd", learning_rate=1.0, clip_norm=clip_norm),
    )
    moved = torch.cat([module.weight[0], module.bias]).norm().item()
    gradient = 2 * torch.cat([(y * x).mean(0), y.mean()[None]]).norm().item()  # at zero weights
    assert gradient > 1
    assert moved == pytest.approx(length if length is not None else gradient, rel=1e-5)  # torch adds 1e-6 to the norm


class Decaying(nn.Module):
    """Parameters of every kind, none with a slope of its own."""

    no_weight_decay = ("logits",)

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.ones(2, 2))
        self.kernel = nn.Parameter(torch.ones(2, 2, 1, 1))
        self.bias = nn.Parameter(torch.ones(2))
        self.logits = nn.Parameter(torch.ones(2, 2))
        self.frozen = nn.Parameter(torch.ones(2, 2), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(2, 2))

    def forward(self, x: Tensor) -> Tensor:
        used = (self.matrix, self.kernel, self.bias, self.logits, self.frozen)
        return x + 0 * sum(p.sum() for p in used)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_weight_decay_spares_vectors_and_the_exempt(optimizer):
    module = copy.deepcopy(Decaying())  # an exemption survives a copy
    assert [id(p) for p in decayed_parameters(module)] == [id(module.matrix), id(module.kernel), id(module.unused)]
    config = TrainingConfig(epochs=3, optimizer=optimizer, learning_rate=0.1, weight_decay=0.5)
    fit_module(module, torch.ones(4, 1), torch.zeros(4, 1), loss=squared, config=config)
    values = {name: p.unique().item() for name, p in module.named_parameters()}
    assert values == {
        "matrix": pytest.approx(0.95**3, rel=1e-6),
        "kernel": pytest.approx(0.95**3, rel=1e-6),
        "bias": 1.0,
        "logits": 1.0,
        "frozen": 1.0,
        "unused": 1.0,  # no gradient, no step
    }


def test_a_step_computes_what_a_loss_would():
    x, y = linear_data()
    config = TrainingConfig(epochs=3, batch_size=30, learning_rate=0.1, masked_share=0.4, validation_share=0.2)
    plain, own = Linear(), Linear()
    seen = []

    def step(module: nn.Module, batch: Batch) -> Tensor:
        seen.append((module.training, batch.present is None))
        return squared(module(batch.x, present=batch.present), batch.y)

    histories = [fit_module(plain, x, y, loss=squared, config=config), fit_module(own, x, y, step=step, config=config)]
    assert same_bits(plain, own)
    assert histories[0].validation_loss == histories[1].validation_loss
    # six training batches with masks; then two of the validation rows, with all players and with masks
    assert seen[:10] == [(True, False)] * 6 + [(False, True), (False, False)] * 2


def test_a_step_may_look_up_what_belongs_to_its_rows():
    """Targets may be row numbers; the rows of a batch and their numbers stay together."""
    x, y = linear_data(40)

    def step(module: nn.Module, batch: Batch) -> Tensor:
        assert torch.equal(x[batch.y], batch.x)
        assert batch.present is None
        return squared(module(batch.x), y[batch.y])

    looked_up, given = Linear(), Linear()
    config = TrainingConfig(epochs=2, batch_size=7)
    fit_module(looked_up, x, torch.arange(40), step=step, config=config)
    fit_module(given, x, y, loss=squared, config=config)
    assert same_bits(looked_up, given)


def test_either_a_loss_or_a_step():
    x, y = linear_data(10)
    with pytest.raises(TypeError, match="a loss or a step, however: neither"):
        fit_module(Linear(), x, y)
    with pytest.raises(TypeError, match="a loss or a step, however: both"):
        fit_module(Linear(), x, y, loss=squared, step=lambda module, batch: squared(module(batch.x), batch.y))


def test_a_module_may_slow_its_own_parameters_down():
    class Slow(nn.Module):
        rate_shares = {"tau": 0.01}  # noqa: RUF012

        def __init__(self) -> None:
            super().__init__()
            self.tau, self.weight = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))

        def forward(self, x):
            return x @ (self.tau + self.weight)

    x = torch.rand(64, 3, generator=torch.Generator().manual_seed(0))
    y = x @ torch.tensor([5.0, -5.0, 5.0])
    moved = {}
    for optimizer in ("adamw", "sgd"):
        module = Slow()
        config = TrainingConfig(epochs=1, batch_size=16, learning_rate=0.1, optimizer=optimizer)
        fit_module(module, x, y, loss=lambda out, y: (out - y).square(), config=config, progress=False)
        moved[optimizer] = (module.tau / module.weight).detach()
    torch.testing.assert_close(moved["adamw"], torch.full((3,), 0.01))  # the same steps, a hundredth as long
    torch.testing.assert_close(moved["sgd"], torch.ones(3))


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_steep_gradient_may_be_kept_out_of_the_clip(optimizer):
    class Steep(nn.Module):
        trained_apart = ("tau",)

        def __init__(self) -> None:
            super().__init__()
            self.tau, self.weight = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))

        def forward(self, x):
            return x @ (1000 * self.tau + self.weight)

    x = torch.rand(64, 3, generator=torch.Generator().manual_seed(0))
    y = x @ torch.tensor([5.0, -5.0, 5.0])
    slope = 2 * ((0 - y)[:, None] * x).mean(0)  # of the weight, at zero

    def moved(**options):
        module = Steep()
        settings = {"epochs": 1, "batch_size": 64, "learning_rate": 0.1, "optimizer": optimizer, "clip_norm": 1.0}
        config = TrainingConfig(**settings, **options)
        fit_module(module, x, y, loss=lambda out, y: (out - y).square(), config=config, progress=False)
        assert module.tau.grad is None
        return module.tau.detach(), module.weight.detach()

    tau, weight = moved(apart_rate=1e-6)
    torch.testing.assert_close(tau, -1e-6 * 1000 * slope)
    if optimizer == "sgd":
        torch.testing.assert_close(weight, -0.1 * slope / slope.norm(), rtol=1e-4, atol=0)
        assert float(moved()[1].norm()) < 2e-4  # in the clip it takes a thousand times the room of the weight
