"""The rows of a training: masks, weights, batches, and sentences about wrong ones."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from trained_modules import Linear, linear_data, noisy_network, random, same_bits, squared

from harsanyinet.training import TrainingConfig, fit_module
from harsanyinet.training.rows import draw_masks


def test_validation_rows_may_have_weights():
    x, y = linear_data(12)
    weight = torch.arange(12).double()
    module = Linear()
    history = fit_module(
        module, x, y, loss=squared, config=TrainingConfig(epochs=1), validation=(x, y, weight)
    )  # fmt: skip
    losses = squared(module(x), y).detach()
    assert history.validation_loss[0] == pytest.approx((weight @ losses / weight.sum()).item(), rel=1e-12)


def test_validation_share_splits_rows_off():
    x, y = linear_data(40)
    weight = random(40).abs() + 0.1
    module = Linear()
    config = TrainingConfig(epochs=2, batch_size=16, validation_share=0.3)
    history = fit_module(module, x, y, loss=squared, config=config, sample_weight=weight)
    parts = [torch.cat([x for x, _, training in module.calls if training == train]) for train in (True, False)]
    assert [len(part) for part in parts] == [56, 24]  # two epochs of 28 and 12 rows
    together = torch.cat([parts[0][:28], parts[1][:12]])
    assert torch.equal(together.sort(0).values, x.sort(0).values)
    rows = (parts[1][:12, None] == x).all(2).nonzero()[:, 1]
    losses = (module(x[rows]) - y[rows]).square()[:, 0]
    assert history.best_epoch == 1
    assert history.validation_loss[1] == pytest.approx(((weight[rows] @ losses) / weight[rows].sum()).item(), rel=1e-12)


def test_a_passed_validation_set_goes_before_the_share():
    module = Linear()
    x, y = linear_data(10)
    config = TrainingConfig(epochs=1, validation_share=0.5)
    fit_module(module, x, y, loss=squared, config=config, validation=linear_data(3))
    assert [len(x) for x, _, _ in module.calls] == [10, 3]


def test_drawn_masks_have_uniform_rates():
    masks = draw_masks(4000, 300, torch.Generator().manual_seed(0))
    assert masks.shape == (4000, 300)
    assert masks.dtype == torch.bool
    rates = masks.double().mean(1).sort().values
    # largest distance between the distribution of the row rates and the uniform one (Kolmogorov-Smirnov)
    assert (rates - (torch.arange(4000) + 0.5) / 4000).abs().max() < 0.03
    assert (masks.double().mean(0) - 0.5).abs().max() < 0.03


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_masks_reach_the_module_and_the_loss(share):
    """No row is passed twice in training: it is shown with its own mask, which most often hides nothing."""
    x, y = linear_data(40)
    module = Linear()
    with torch.no_grad():
        module.weight.add_(1.0)
    start = copy.deepcopy(module)
    config = TrainingConfig(epochs=2, masked_share=share)
    history = fit_module(module, x, y, loss=squared, config=config, validation=linear_data(12))

    first, second = module.masks(train=True)
    assert first.shape == second.shape == (40, 3)
    assert first.dtype == torch.bool
    assert not torch.equal(first, second)
    rows = module.calls[0][0]
    targets = y[(rows[:, None] == x).all(2).nonzero()[:, 1]]
    assert history.train_loss[0] == pytest.approx(squared(start(rows, first), targets).mean().item(), rel=1e-12)

    fixed, again = module.masks(train=False)  # one set of masks for all epochs
    assert torch.equal(fixed, again)
    assert fixed.shape == (12, 3)
    assert not fixed.all()
    x, y = linear_data(12)
    plain, masked = (squared(module(x, m), y).mean().item() for m in (None, fixed))
    assert history.validation_loss[1] == pytest.approx((1 - share) * plain + share * masked, rel=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.7, 1.0])
def test_the_share_is_the_chance_of_a_row_to_be_masked(share):
    """With 200 players a masked row is as good as never complete, so that masked rows can be counted."""
    module = Linear(200)
    config = TrainingConfig(epochs=4, batch_size=300, masked_share=share)
    fit_module(module, torch.ones(2000, 200).double(), torch.ones(2000, 1).double(), loss=squared, config=config)
    if share == 0:
        assert module.masks(train=True) == []
        return
    masks = torch.cat(module.masks(train=True))
    hidden = ~masks.all(1)
    # 8000 rows: a standard deviation of at most 0.0056; a masked row is complete with chance 1/201
    assert hidden.double().mean().item() == pytest.approx(share * 200 / 201, abs=0.02)
    rates = masks[hidden].double().mean(1)
    assert rates.mean().item() == pytest.approx(0.5, abs=0.03)  # of all sizes, as `draw_masks` has them
    assert rates.min() < 0.02
    assert rates.max() > 0.98


def test_no_masks_without_a_share():
    module = Linear()
    fit_module(module, *linear_data(10), loss=squared, config=TrainingConfig(epochs=1, validation_share=0.5))
    assert len(module.calls) == 2
    assert all(present is None for _, present, _ in module.calls)


def test_players_need_not_be_columns():
    class Grouped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Linear(4)

        def forward(self, x: Tensor, present: Tensor) -> Tensor:
            return self.inner(x, present.repeat_interleave(2, dim=1))

    module = Grouped()
    config = TrainingConfig(epochs=1, batch_size=4, masked_share=1.0)
    fit_module(module, random(10, 4), random(10, 1), loss=squared, config=config, n_players=2)
    assert [m.shape for m in module.inner.masks(train=True)] == [(4, 4), (4, 4), (2, 4)]


@pytest.mark.parametrize("garbage", [1e9, math.nan, math.inf])
def test_a_row_of_weight_zero_is_as_good_as_absent(garbage):
    x, y = linear_data(60)
    weight = (torch.arange(60) % 3 > 0).double()
    spoilt_x, spoilt_y = x.clone(), y.clone()
    spoilt_x[::3], spoilt_y[::3] = garbage, garbage
    config = TrainingConfig(epochs=3, batch_size=16, learning_rate=0.01, validation_share=0.2)
    a, b = noisy_network(), noisy_network()
    fit_module(a, spoilt_x, spoilt_y, loss=squared, config=config, sample_weight=weight)
    fit_module(b, x[weight > 0], y[weight > 0], loss=squared, config=config)
    assert same_bits(a, b)


def test_weights_count_rows_and_have_no_scale():
    x, y = linear_data(20)
    count = torch.arange(20) % 3 + 1
    config = TrainingConfig(epochs=10, batch_size=100, learning_rate=0.1)
    weighted, scaled, repeated = Linear(), Linear(), Linear()
    fit_module(weighted, x, y, loss=squared, config=config, sample_weight=count)
    fit_module(scaled, x, y, loss=squared, config=config, sample_weight=count.float() * 1000)
    fit_module(repeated, x.repeat_interleave(count, 0), y.repeat_interleave(count, 0), loss=squared, config=config)
    # 1e-9: the sums differ in their order
    torch.testing.assert_close(weighted.weight, scaled.weight, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(weighted.weight, repeated.weight, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "sizes"),
    [(8, 3, [3, 3, 2]), (7, 3, [3, 3]), (6, 3, [3, 3]), (3, 1, [1, 1, 1]), (1, 3, [1]), (2, 9, [2]), (9, 9, [9])],
)
def test_batch_sizes(n_rows, batch_size, sizes):
    module = Linear()
    x, y = linear_data(n_rows)
    fit_module(module, x, y, loss=squared, config=TrainingConfig(epochs=1, batch_size=batch_size))
    assert [len(x) for x, _, _ in module.calls] == sizes


def _nan_at(n_rows: int, row: int) -> Tensor:
    y = torch.zeros(n_rows, 1)
    y[row] = math.nan
    return y


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": torch.zeros(0, 3), "y": torch.zeros(0, 1)}, "x must have at least one row, however: x.shape=(0, 3)"),
        ({"y": torch.zeros(3, 1)}, "x and y must be equally long, however: len(x)=4, len(y)=3"),
        ({"y": _nan_at(4, 2)}, "y must be finite, however: 1 values are NaN or infinite"),
        (
            {"validation": (torch.zeros(0, 3), torch.zeros(0, 1))},
            "validation x must have at least one row, however: x.shape=(0, 3)",
        ),
        (
            {"validation": (torch.zeros(2, 3), torch.zeros(1, 1))},
            "validation x and y must be equally long, however: len(x)=2, len(y)=1",
        ),
        (
            {"validation": (torch.zeros(2, 3), _nan_at(2, 0))},
            "validation y must be finite, however: 1 values are NaN or infinite",
        ),
        (
            {"config": TrainingConfig(validation_share=0.9)},
            "validation_share must leave rows to train on, however: 0.9 of 4 rows leaves none",
        ),
        (
            {"config": TrainingConfig(patience=2)},
            "patience must come with validation rows, however: patience=2 without any",
        ),
        ({"sample_weight": torch.ones(3)}, "sample_weight must have shape (4,), however: shape=(3,)"),
        ({"sample_weight": torch.ones(4, 1)}, "sample_weight must have shape (4,), however: shape=(4, 1)"),
        (
            {"sample_weight": torch.tensor([1.0, 1.0, -1.0, 1.0])},
            "sample_weight must be finite, nowhere negative and somewhere positive, however: min=-1.0, max=1.0",
        ),
        (
            {"sample_weight": torch.zeros(4)},
            "sample_weight must be finite, nowhere negative and somewhere positive, however: min=0.0, max=0.0",
        ),
        (
            {"sample_weight": torch.tensor([1.0, 1.0, math.inf, 1.0])},
            "sample_weight must be finite, nowhere negative and somewhere positive, however: min=1.0, max=inf",
        ),
        (
            {"loss": lambda out, y: (out - y).square().mean()},
            "loss must return one value per row, (4,), however: shape=()",
        ),
        (
            {"loss": lambda out, y: (out - y).square()},
            "loss must return one value per row, (4,), however: shape=(4, 1)",
        ),
        ({"module": nn.Identity()}, "module must have a parameter that requires a gradient, however: it has none"),
        (
            {"config": TrainingConfig(masked_share=0.5), "x": torch.zeros(4)},
            "n_players must be positive, however: n_players=0",
        ),
        (
            {"config": TrainingConfig(masked_share=0.5), "n_players": -1},
            "n_players must be positive, however: n_players=-1",
        ),
    ],
)
def test_input_errors(options, message):
    defaults = {"module": nn.Linear(3, 1), "x": torch.zeros(4, 3), "y": torch.zeros(4, 1), "loss": squared}
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared)
        fit_module(**{**defaults, **options})
    assert str(error.value) == message
