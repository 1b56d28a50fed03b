from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harsanyinet import HarsanyiMLP
from harsanyinet.blocks import ActivationBlock, State, and_gate_, first_children, first_sets, select_children


def plain_and(t: torch.Tensor, sigma: torch.Tensor, mode: str) -> torch.Tensor:
    """The paper's formula to the letter, with the (B, U, D) tensor."""
    product = (sigma * t[:, None] + (1 - sigma)).prod(2)
    return product ** (1 / sigma.sum(1).clamp_min(1)) if mode == "geometric" else product


def random_case(seed: int, dead: float, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    t = torch.rand(40, 7, generator=g, dtype=dtype)
    t = torch.where(torch.rand(40, 7, generator=g) < dead, 0.0, t)
    sigma = (torch.rand(9, 7, generator=g) < 0.5).to(dtype)
    sigma[0], sigma[1], sigma[2] = 0.0, 1.0, torch.eye(7, dtype=dtype)[3]  # none, all, one child
    return t, sigma, torch.randn(40, 9, generator=g, dtype=dtype)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["geometric", "product"])
@pytest.mark.parametrize("dead", [0.0, 0.2])
def test_the_gate_equals_the_plain_product(seed, mode, dead):
    t, sigma, _ = random_case(seed, dead)
    gate = and_gate_(t.clone(), sigma, mode)
    expected = plain_and(t, sigma, mode)
    torch.testing.assert_close(gate, expected, rtol=1e-13, atol=0)
    assert torch.equal(gate == 0, expected == 0)  # a dead child closes the gate exactly
    if dead:
        assert bool((gate == 0).any())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["geometric", "product"])
@pytest.mark.parametrize("dead", [0.0, 0.2])
def test_the_gradient_equals_autograd_through_the_plain_product(seed, mode, dead):
    t, sigma, grad = random_case(seed, dead)
    if mode == "geometric":
        # The root of a dead product of two or more children has no finite derivative: those gates get no gradient.
        grad[(plain_and(t, sigma, mode) == 0) & (sigma.sum(1) > 1)] = 0
    leaves = [t.clone().requires_grad_(), sigma.clone().requires_grad_()]
    mine = torch.autograd.grad(and_gate_(*leaves, mode), leaves, grad)
    if mode == "product" or not dead:
        theirs = torch.autograd.grad(plain_and(*leaves, mode), leaves, grad)
    else:  # row by row over gates that have a derivative, because 0 * inf is NaN in autograd
        theirs = [torch.zeros_like(t), torch.zeros_like(sigma)]
        for b in range(len(t)):
            for u in range(len(sigma)):
                row, unit = t[b : b + 1].clone().requires_grad_(), sigma[u : u + 1].clone().requires_grad_()
                gate = plain_and(row, unit, mode)
                if gate.item() > 0 or unit.sum() <= 1:
                    of_t, of_sigma = torch.autograd.grad(gate, [row, unit], grad[b, u].reshape(1, 1))
                    theirs[0][b] += of_t[0]
                    theirs[1][u] += torch.nan_to_num(of_sigma[0])  # d(0^e)/de = 0 log 0 with one dead child
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)
        assert bool((a != 0).any())


def test_a_dead_gate_of_several_children_gets_no_gradient():
    t = torch.tensor([[0.0, 0.5]], dtype=torch.float64, requires_grad=True)
    sigma = torch.ones(1, 2, dtype=torch.float64, requires_grad=True)
    of_t, of_sigma = torch.autograd.grad(and_gate_(t, sigma, "geometric").sum(), [t, sigma])
    assert torch.equal(of_t, torch.zeros(1, 2, dtype=torch.float64))
    assert torch.equal(of_sigma, torch.zeros(1, 2, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mode", ["geometric", "product"])
def test_tiny_children_neither_overflow_nor_revive_a_dead_gate(dtype, mode):
    tiny = torch.finfo(dtype).tiny
    t = torch.tensor([[tiny / 4, 1.0], [tiny, tiny], [0.0, tiny], [0.0, 1.0]], dtype=dtype, requires_grad=True)
    sigma = torch.ones(1, 2, dtype=dtype, requires_grad=True)
    gate = and_gate_(t, sigma, mode)
    assert bool((gate[2:] == 0).all())
    assert bool(((gate >= 0) & (gate <= 1)).all())
    for gradient in torch.autograd.grad(gate.sum(), [t, sigma]):
        assert bool(torch.isfinite(gradient).all())


def test_straight_through_gradient():
    tau = torch.linspace(-3, 3, 12, dtype=torch.float64).reshape(3, 4).requires_grad_()
    sigma = select_children(tau, beta=7.0)
    assert torch.equal(sigma, (tau > 0).double())
    grad = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    (found,) = torch.autograd.grad(sigma, tau, grad)
    expected = 7.0 * torch.exp(-tau) / (1 + torch.exp(-tau)) ** 2
    torch.testing.assert_close(found, grad * expected.detach())
    assert not select_children(tau.detach(), 7.0).requires_grad


@pytest.mark.parametrize("mode", ["geometric", "product"])
@pytest.mark.parametrize("dead", [0.0, 0.2, 0.7, 1.0])
@pytest.mark.parametrize(("deep", "told"), [(False, False), (True, False), (True, True)])
def test_the_gradient_of_a_block_equals_autograd_through_the_formula(mode, dead, deep, told):
    t, sigma, grad = random_case(0, dead)
    g = torch.Generator().manual_seed(1)
    tau = (sigma - 0.5) * torch.rand(sigma.shape, generator=g, dtype=torch.float64)
    block = ActivationBlock(7, 9, beta=3.0, gamma=2.0, mode=mode, tau=tau, generator=g).double()
    z = (0.4 * t.tan()).requires_grad_(deep)
    with torch.no_grad():
        z[::2] *= -1
    known = z.detach().abs().sum(1).nonzero()[:, 0] if told else None
    after = block(State(z, rows=known))
    found = after.values[:, :, 0]
    if deep:
        assert set(found.detach().sum(1).nonzero()[:, 0].tolist()) <= set(after.rows.tolist())
    chosen = select_children(block.tau, 3.0)
    expected = (z @ (block.weight * chosen).T * and_gate_((2.0 * z.abs()).tanh(), chosen, mode)).relu()
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)
    leaves = [block.weight, block.tau, *([z] if deep else [])]
    mine = torch.autograd.grad(found, leaves, grad, retain_graph=True)
    for a, b in zip(mine, torch.autograd.grad(expected, leaves, grad), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)
        assert bool((a != 0).any()) == (dead < 1)


@pytest.mark.parametrize("mode", ["geometric", "product"])
@pytest.mark.parametrize("children", [1, 3])
@pytest.mark.parametrize("n_rows", [0, 1, 60])
def test_a_training_step_in_one_piece_equals_one_block_by_block(mode, children, n_rows):
    g = torch.Generator().manual_seed(2)
    options = {"soft_and": mode, "initial_children": children, "output_bias": True, "dtype": torch.float64}
    net = HarsanyiMLP(5, 3, width=12, gamma=3.0, **options)
    x = torch.randn(n_rows, 5, generator=g, dtype=torch.float64, requires_grad=True)
    present = torch.rand(n_rows, 5, generator=g) < 0.9
    grad = torch.randn(n_rows, 3, generator=g, dtype=torch.float64)
    leaves = [x, *net.parameters()]
    mine, units = net(x, present), net.units(x, present)
    torch.testing.assert_close(mine, net._read(units), rtol=1e-12, atol=1e-14)
    if n_rows == 60:
        assert [bool(z.any()) for z in units] == [True, True, children == 1]  # silent blocks too
    theirs = torch.autograd.grad(net._read(units), leaves, grad)
    for a, b in zip(torch.autograd.grad(mine, leaves, grad), theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)
        a.mul_(2)  # an ordinary tensor, as whoever clips gradients expects


class LargestTensor(TorchDispatchMode):
    """Notes the largest tensor that any operation returns, forward and backward."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        self.largest = max([self.largest, *sizes])
        return out


@pytest.mark.parametrize("gate", ["activation", "presence"])
@pytest.mark.parametrize("connect", ["previous", "all"])
def test_no_tensor_of_rows_by_units_by_children(gate, connect):
    options = {"learn_children": True, "channels": 1} if gate == "presence" else {}
    net = HarsanyiMLP(20, 1, width=30, n_blocks=3, gate=gate, connect=connect, **options)
    x = torch.randn(500, 20)
    present = torch.rand(500, 20) < 0.9
    with LargestTensor() as watch:
        net(x, present).sum().backward()
        net.shapley_values(x).sum().backward()
        net.eval().explain(x)
    assert 500 * 30 <= watch.largest <= 500 * 30 * 2  # the units of two blocks side by side at most


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
