"""The fit loop, against small hand-made modules and plain torch loops."""

import copy
import inspect
import itertools
import math
import signal

import pytest
import torch
from torch import Tensor, nn

from harsanyinet import progress as progress_module
from harsanyinet.training import loop as training
from harsanyinet.training.loop import (
    Batch,
    TrainingConfig,
    decayed_parameters,
    draw_masks,
    fit_module,
    learning_rate_factor,
    plateau_factor,
)


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


def overshooting(epochs: int = 20, **options: object) -> tuple[nn.Module, training.History, list[dict[str, Tensor]]]:
    """Trains a slope from 0 towards 3 by thirds of the way, validated at 2: the validation loss falls, then rises."""
    module, seen = Slope(), []
    config = TrainingConfig(
        epochs=epochs, optimizer="sgd", learning_rate=1 / 6, patience=options.pop("patience", None),
        tolerance=options.pop("tolerance", 0.0),
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


# What it learns


@pytest.mark.parametrize(
    "config",
    [
        TrainingConfig(epochs=150, batch_size=50, learning_rate=0.1, schedule="cosine"),
        TrainingConfig(epochs=60, batch_size=50, optimizer="sgd", learning_rate=0.1, schedule="cosine"),
        TrainingConfig(epochs=60, batch_size=50, optimizer="sgd", learning_rate=0.1, momentum=0.9, schedule="onecycle"),
    ],
    ids=["adamw", "sgd", "momentum"],
)
def test_recovers_least_squares(config):
    x, y = linear_data()
    module = Linear()
    history = fit_module(module, x, y, loss=squared, config=config)
    solution = torch.linalg.lstsq(torch.cat([x, torch.ones_like(y)], dim=1), y).solution[:, 0]
    # 1e-3: mini-batches jitter until the schedule has run out
    torch.testing.assert_close(torch.cat([module.weight[0], module.bias]).detach(), solution, rtol=0, atol=1e-3)
    assert len(history.train_loss) == config.epochs
    assert history.train_loss[-1] < 0.02 < history.train_loss[0]
    assert history.validation_loss == ()
    assert history.best_epoch is None
    assert history.seconds > 0


def test_classification_with_integer_targets():
    x = random(100, 2)
    y = (x[:, 0] > 0).long()
    module = nn.Linear(2, 2).double()
    config = TrainingConfig(epochs=100, learning_rate=0.1)
    fit_module(module, x, y, loss=lambda out, y: nn.functional.cross_entropy(out, y, reduction="none"), config=config)
    assert (module(x).argmax(1) == y).double().mean() > 0.97


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_agrees_with_a_plain_loop(optimizer):
    x, y = linear_data(40)
    config = TrainingConfig(
        epochs=12,
        optimizer=optimizer,
        learning_rate=0.05,
        weight_decay=0.3,
        momentum=0.8 if optimizer == "sgd" else 0.0,
    )
    module = Linear()
    history = fit_module(module, x, y, loss=squared, config=config)

    plain, velocity, losses = Linear(), [0.0, 0.0], []
    groups = [{"params": [plain.weight], "weight_decay": 0.3}, {"params": [plain.bias], "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=0.05)
    for _ in range(12):
        loss = (plain(x) - y).square().mean()
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, [plain.weight, plain.bias])
        if optimizer == "adamw":
            plain.weight.grad, plain.bias.grad = gradients
            adamw.step()
            continue
        with torch.no_grad():
            plain.weight.mul_(1 - 0.05 * 0.3)
            for i, (p, gradient) in enumerate(zip([plain.weight, plain.bias], gradients, strict=True)):
                velocity[i] = 0.8 * velocity[i] + gradient
                p.sub_(0.05 * velocity[i])
    torch.testing.assert_close(module.weight, plain.weight, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(module.bias, plain.bias, rtol=1e-12, atol=1e-12)
    assert history.train_loss == pytest.approx(losses, rel=1e-12)


# Learning rate, clipping, weight decay


def test_learning_rate_factors():
    assert [learning_rate_factor("constant", step, 4) for step in range(4)] == [1.0] * 4
    half = math.sqrt(0.5) / 2
    cosine = [learning_rate_factor("cosine", step, 4) for step in range(5)]
    assert cosine == pytest.approx([1.0, 0.5 + half, 0.5, 0.5 - half, 0.0], abs=1e-15)
    cycle = [learning_rate_factor("onecycle", step, 40) for step in range(41)]
    assert cycle[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert cycle[4:] == pytest.approx([learning_rate_factor("cosine", step, 36) for step in range(37)])
    assert learning_rate_factor("onecycle", 0, 1) == 1.0


@pytest.mark.parametrize("schedule", ["constant", "cosine", "onecycle"])
def test_the_schedule_runs_per_step_over_all_epochs(schedule):
    module, positions = Slope(), [0.0]  # the gradient is 1, so that each step is as long as its learning rate
    fit_module(
        module,
        torch.zeros(6, 1, dtype=torch.float64),
        torch.zeros(6, 1, dtype=torch.float64),
        loss=lambda out, y: (out - y)[:, 0],
        config=TrainingConfig(epochs=10, batch_size=3, optimizer="sgd", learning_rate=0.5, schedule=schedule),
        on_epoch=lambda _, m: positions.append(m.weight.item()),
    )
    rates = [0.5 * learning_rate_factor(schedule, step, 20) for step in range(20)]
    steps = [before - after for before, after in itertools.pairwise(positions)]
    assert steps == pytest.approx([a + b for a, b in zip(rates[::2], rates[1::2], strict=True)])


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


# Random numbers


@pytest.mark.parametrize(
    "config",
    [
        TrainingConfig(epochs=4, batch_size=8, learning_rate=0.01),
        TrainingConfig(epochs=4, batch_size=8, learning_rate=0.01, validation_share=0.25),
    ],
    ids=["plain", "validated"],
)
def test_the_same_seed_gives_the_same_bits(config):
    x, y = linear_data(60)

    def run(seed: int) -> tuple[nn.Module, training.History]:
        torch.rand(3)  # wherever the global state happens to be
        module = noisy_network()
        return module, fit_module(module, x, y, loss=squared, config=config, seed=seed)

    (a, first), (b, second), (c, third) = run(5), run(5), run(6)
    assert same_bits(a, b)
    assert (first.train_loss, first.validation_loss) == (second.train_loss, second.validation_loss)
    assert not same_bits(a, c)
    assert first.train_loss != third.train_loss


class Dropping(Linear):
    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        outputs = super().forward(x, present)
        return nn.functional.dropout(outputs, 0.5, self.training)


def test_the_order_depends_on_the_seed_alone():
    x, y = linear_data(30)

    def order(module: Linear, share: float, seed: int) -> Tensor:
        config = TrainingConfig(epochs=2, batch_size=10, masked_share=share)
        fit_module(module, x, y, loss=squared, config=config, seed=seed)
        return torch.cat([x for x, _, _ in module.calls])

    rows = order(Linear(), 0.0, seed=0)
    assert torch.equal(rows, order(Linear(), 1.0, seed=0))
    assert torch.equal(rows, order(Dropping(), 0.0, seed=0))
    assert not torch.equal(rows, order(Linear(), 0.0, seed=1))
    assert not torch.equal(rows[:30], rows[30:])
    for epoch in rows.split(30):
        assert torch.equal(epoch.sort(0).values, x.sort(0).values)


def test_the_split_and_the_masks_depend_on_the_seed():
    x, y = linear_data(30)
    held_out, masks, held_out_masks = [], [], []
    for seed in (0, 1):
        module = Linear()
        config = TrainingConfig(epochs=1, validation_share=0.5, masked_share=1.0)
        fit_module(module, x, y, loss=squared, config=config, seed=seed)
        held_out.append(module.calls[1][0].sort(0).values)
        masks += module.masks(train=True)
        held_out_masks += module.masks(train=False)
    for drawn in (held_out, masks, held_out_masks):
        assert not torch.equal(*drawn)
    assert not torch.equal(masks[0], held_out_masks[0])


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_the_global_random_state_is_left_alone(share):
    x, y = linear_data(30)
    before = torch.random.get_rng_state()
    config = TrainingConfig(epochs=2, validation_share=0.2, masked_share=share)
    fit_module(Dropping(), x, y, loss=squared, config=config)
    assert torch.equal(torch.random.get_rng_state(), before)


# Validation and the best weights


def test_early_stopping_restores_the_best_weights():
    module, history, seen = overshooting(patience=3)
    # the slope after epoch e is 3 * (1 - (2/3) ** (e + 1)): 1, 1.67, 2.11, 2.41, ...
    slopes = [3 * (1 - (2 / 3) ** (e + 1)) for e in range(6)]
    assert history.validation_loss == pytest.approx([(slope - 2) ** 2 for slope in slopes])
    assert history.best_epoch == 2
    assert len(history.train_loss) == len(seen) == 6
    assert same_bits(module, _slope(seen[2]))
    assert (module.weight.item() - 2) ** 2 == pytest.approx(min(history.validation_loss), rel=1e-15)


def _slope(state: dict[str, Tensor]) -> nn.Module:
    module = Slope()
    module.load_state_dict(state)
    return module


@pytest.mark.parametrize("offset", [0.0, 5.0, -5.0])
@pytest.mark.parametrize("tolerance", [0.0, 0.01, 0.1])
def test_the_last_epoch_within_the_tolerance_is_kept(tolerance, offset):
    """The share is one of the best loss, whatever its sign."""

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return squared(outputs, targets) + offset

    module, history, seen = overshooting(tolerance=tolerance, loss=loss)
    losses = [(3 * (1 - (2 / 3) ** (e + 1)) - 2) ** 2 + offset for e in range(20)]
    assert history.validation_loss == pytest.approx(losses)
    best = min(losses)
    expected = max(e for e in range(20) if losses[e] == best or losses[e] < best + tolerance * abs(best))
    assert history.best_epoch == expected
    assert expected == {(0.1, 5.0): 4, (0.1, -5.0): 4}.get((tolerance, offset), 2)
    assert same_bits(module, _slope(seen[expected]))


def test_what_is_kept_is_measured_by_the_best_and_not_by_the_last_one_kept():
    """A loss that creeps up by less than the tolerance in each epoch must not be followed for ever."""
    module, steps = Slope(), itertools.count()

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        worse = 0.0 if module.training else 0.009 * next(steps)
        return squared(outputs, targets) * 0 + 1.0 + worse

    x = torch.zeros(4, 1, dtype=torch.float64)
    config = TrainingConfig(epochs=10, tolerance=0.02, patience=3)
    history = fit_module(module, x, x, loss=loss, config=config, validation=(x, x))
    assert history.best_epoch == 2
    assert len(history.validation_loss) == 6  # and patience counts from there


def test_validation_rows_may_have_weights():
    x, y = linear_data(12)
    weight = torch.arange(12).double()
    module = Linear()
    history = fit_module(
        module, x, y, loss=squared, config=TrainingConfig(epochs=1), validation=(x, y, weight)
    )  # fmt: skip
    losses = squared(module(x), y).detach()
    assert history.validation_loss[0] == pytest.approx((weight @ losses / weight.sum()).item(), rel=1e-12)


def test_without_patience_all_epochs_run_and_the_best_is_restored():
    module, history, seen = overshooting(patience=None)
    assert len(history.train_loss) == len(seen) == 20
    assert history.best_epoch == 2
    assert same_bits(module, _slope(seen[2]))
    assert history.validation_loss[-1] > 2 * min(history.validation_loss)


def test_buffers_are_restored_and_validation_runs_in_eval_mode():
    x, y = linear_data(40)
    module, seen = noisy_network(), []
    validation = (random(30, 3, seed=3), random(30, 1, seed=4))
    history = fit_module(
        module,
        x,
        y,
        loss=squared,
        config=TrainingConfig(epochs=15, batch_size=7, learning_rate=0.05),
        validation=validation,
        on_epoch=lambda _, m: seen.append((copy.deepcopy(m.state_dict()), m.training)),
    )
    assert history.best_epoch is not None
    assert history.best_epoch < 14
    best = noisy_network()
    best.load_state_dict(seen[history.best_epoch][0])
    assert same_bits(module, best)
    assert not any(training for _, training in seen)
    assert not module.training
    expected = (module(validation[0]) - validation[1]).square().mean().item()  # 30 rows in batches of 7
    assert history.validation_loss[history.best_epoch] == pytest.approx(expected, rel=1e-12)
    assert expected == pytest.approx(min(history.validation_loss), rel=1e-12)


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


def test_a_validation_loss_that_is_not_finite_is_never_the_best():
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        bad = len(outputs) == 2 and outputs[0, 0] < 1.5  # the validation rows, in the first epoch
        return squared(outputs, targets) * (math.nan if bad else 1.0)

    _, history, _ = overshooting(epochs=4, loss=loss)
    assert math.isnan(history.validation_loss[0])
    assert history.best_epoch == 2
    with pytest.raises(FloatingPointError, match="validation loss must be finite, however: it was nan to the end"):
        overshooting(epochs=1, loss=loss)


# Interruptions and divergence


def test_ctrl_c_is_raised_and_leaves_the_best_weights():
    states, modules = [], []

    def on_epoch(epoch: int, module: nn.Module) -> None:
        modules.append(module)
        states.append(copy.deepcopy(module.state_dict()))
        if epoch == 4:
            signal.raise_signal(signal.SIGINT)

    before = torch.random.get_rng_state()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            overshooting(on_epoch=on_epoch)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert len(states) == 5
    assert same_bits(modules[0], _slope(states[2]))
    assert not modules[0].training
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("validation_share", [0.0, 0.5])
def test_ctrl_c_within_an_epoch_leaves_the_last_good_weights(validation_share):
    x, y = linear_data(20)
    module, calls, seen = Linear(), [], []

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        calls.append(len(outputs))
        if len(calls) == 8:
            raise KeyboardInterrupt
        return squared(outputs, targets)

    config = TrainingConfig(batch_size=5, validation_share=validation_share)
    with pytest.raises(KeyboardInterrupt):
        fit_module(
            module, x, y, loss=loss, config=config, on_epoch=lambda _, m: seen.append(copy.deepcopy(m.state_dict()))
        )
    assert any(all(torch.equal(module.state_dict()[k], state[k]) for k in state) for state in seen)
    assert not module.training
    assert module.weight.grad is None


def test_other_exceptions_pass_through():
    def on_epoch(epoch: int, module: nn.Module) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        overshooting(on_epoch=on_epoch)


@pytest.mark.parametrize("validated", [False, True])
def test_divergence_is_an_error_and_leaves_finite_weights(validated):
    module, states = Slope(), [torch.zeros(())]
    x, y = torch.zeros(4, 1, dtype=torch.float64), torch.ones(4, 1, dtype=torch.float64)
    with pytest.raises(FloatingPointError, match=r"diverged in epoch \d+, try a smaller learning_rate or a clip_norm"):
        fit_module(
            module,
            x,
            y,
            loss=squared,
            config=TrainingConfig(epochs=1000, optimizer="sgd", learning_rate=100.0),
            validation=(x, y) if validated else None,
            on_epoch=lambda _, m: states.append(m.weight.detach().clone()),
        )
    # each epoch is worse than the one before, thus the first is the best; without validation the last finite one stays
    assert module.weight.item() == states[1 if validated else -1].item()
    assert math.isfinite(states[-1].item())
    assert not module.training


def test_no_step_is_made_along_a_loss_that_is_not_finite():
    module = Linear()
    with pytest.raises(FloatingPointError, match=r"loss=nan, learning_rate=0\.001, clip_norm=None"):
        fit_module(
            module,
            *linear_data(20),
            loss=lambda out, y: math.nan * squared(out, y),
            config=TrainingConfig(batch_size=5),
        )
    assert len(module.calls) == 1


def test_divergence_in_the_very_last_step_is_noticed():
    module = Slope()
    x, y = torch.zeros(4, 1, dtype=torch.float64), torch.ones(4, 1, dtype=torch.float64)
    config = TrainingConfig(epochs=1, optimizer="sgd", learning_rate=1e308)
    with pytest.raises(FloatingPointError, match="diverged in epoch 0"):
        fit_module(module, x, y, loss=lambda out, y: 10 * squared(out, y), config=config)
    assert module.weight.item() == 0.0


# Random masks


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


# A step of one's own


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


@pytest.mark.parametrize("patience", [0, 1, 3])
def test_the_plateau_is_that_of_torch(patience):
    losses = [5.0, 4.0, 3.9999, 3.9998, 4.1, 4.0, 4.2, 3.0, 3.5, 3.5, 3.0, 2.9999999, 2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6]
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=patience)
    for n_epochs, loss in enumerate(losses, 1):
        scheduler.step(loss)
        assert plateau_factor(losses[:n_epochs], patience) == optimizer.param_groups[0]["lr"]
    assert plateau_factor(losses, patience) < 1.0


@pytest.mark.parametrize(("patience", "rates"), [(2, [0.5] * 3), (3, [0.5] * 3 + [0.3]), (9, [0.5] * 6 + [0.3] * 3)])
def test_rates_fall_on_a_plateau_down_to_a_least_one(patience, rates):
    """No epoch after the first lowers the validation loss: the rate is halved after patience // 2 of them and one."""
    module, places = Slope(), [0.0]
    config = TrainingConfig(
        epochs=9, optimizer="sgd", learning_rate=0.5, schedule="plateau", patience=patience, min_learning_rate=0.3
    )
    x = torch.zeros(4, 1, dtype=torch.float64)
    fit_module(
        module, x, x, loss=lambda out, _: out[:, 0] if module.training else torch.ones(len(out)), config=config,
        validation=(x, x), on_epoch=lambda _, m: places.append(m.weight.item()),
    )  # fmt: skip
    assert [a - b for a, b in itertools.pairwise(places)] == pytest.approx(rates)


def test_a_plateau_needs_patience():
    with pytest.raises(ValueError, match="patience must be a positive integer, however: patience=None"):
        TrainingConfig(schedule="plateau")
    with pytest.raises(ValueError, match="min_learning_rate must be between 0 and learning_rate"):
        TrainingConfig(learning_rate=0.1, min_learning_rate=0.2)


# Rows, weights and batches


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


def test_what_is_left_behind():
    x, y = linear_data(20)
    module, frozen = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)).double(), random(4, 3)
    module[0].weight.requires_grad_(False).copy_(frozen)
    epochs = []
    config = TrainingConfig(epochs=3, weight_decay=0.1)
    fit_module(module, x, y, loss=squared, config=config, on_epoch=lambda epoch, _: epochs.append(epoch))
    assert epochs == [0, 1, 2]
    assert torch.equal(module[0].weight, frozen)
    assert not module.training
    assert all(p.grad is None for p in module.parameters())


# Progress


def test_a_short_run_shows_nothing(capfd):
    fit_module(Linear(), *linear_data(20), loss=squared, config=TrainingConfig(epochs=5))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("progress", [True, False])
@pytest.mark.parametrize("validated", [True, False])
def test_the_bar_shows_the_losses(capfd, monkeypatch, progress, validated):
    bar = progress_module.tqdm
    monkeypatch.setattr(progress_module, "visible", lambda progress: progress)
    monkeypatch.setattr(progress_module, "tqdm", lambda **options: bar(**options | {"delay": 1e-9, "mininterval": 0}))
    config = TrainingConfig(epochs=5, validation_share=0.5 * validated)
    fit_module(Linear(), *linear_data(20), loss=squared, config=config, progress=progress)
    out, err = capfd.readouterr()
    assert out == ""
    assert ("5/5" in err and "train=" in err) == progress
    assert ("validation=" in err) == (progress and validated)


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be a positive integer, however: epochs=0"),
        ({"epochs": 2.5}, "epochs must be a positive integer, however: epochs=2.5"),
        ({"batch_size": 0}, "batch_size must be a positive integer, however: batch_size=0"),
        ({"optimizer": "adam"}, "optimizer must be one of ('adamw', 'sgd'), however: optimizer='adam'"),
        ({"learning_rate": -1.0}, "learning_rate must be positive, however: learning_rate=-1.0"),
        ({"learning_rate": math.nan}, "learning_rate must be positive, however: learning_rate=nan"),
        ({"weight_decay": -0.1}, "weight_decay must be at least zero, however: weight_decay=-0.1"),
        (
            {"optimizer": "sgd", "momentum": 1.0},
            "momentum must be in [0, 1), and zero unless optimizer='sgd', however: momentum=1.0",
        ),
        ({"momentum": 0.9}, "momentum must be in [0, 1), and zero unless optimizer='sgd', however: momentum=0.9"),
        (
            {"schedule": "linear"},
            "schedule must be one of ('constant', 'cosine', 'onecycle', 'plateau'), however: schedule='linear'",
        ),
        ({"apart_rate": 0.0}, "apart_rate must be positive or None, however: apart_rate=0.0"),
        ({"clip_norm": 0.0}, "clip_norm must be positive or None, however: clip_norm=0.0"),
        ({"patience": 0}, "patience must be a positive integer or None, however: patience=0"),
        ({"validation_share": 1.0}, "validation_share must be in [0, 1), however: validation_share=1.0"),
        ({"masked_share": 1.5}, "masked_share must be in [0, 1], however: masked_share=1.5"),
        ({"tolerance": -0.1}, "tolerance must be at least zero, however: tolerance=-0.1"),
        ({"tolerance": math.nan}, "tolerance must be at least zero, however: tolerance=nan"),
    ],
)
def test_config_errors(options, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the whole message is compared)
        TrainingConfig(**options)
    assert str(error.value) == message


def test_config_is_frozen_and_by_keyword():
    with pytest.raises(AttributeError):
        TrainingConfig().epochs = 3
    with pytest.raises(TypeError):
        TrainingConfig(3)


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


def test_it_does_not_know_the_model():
    files = "from harsanyinet.files import check_place, write_beside\n"  # a file is a file
    source = inspect.getsource(training).replace(files, "").replace("from harsanyinet.progress import bar\n", "")
    assert "arsanyi" not in source


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
