"""Captum's interface: exact Shapley values behind `.attribute(x, target=...)`. Needs the extra `captum`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harsanyinet.extras import need_package
from harsanyinet.networks.mlp import HarsanyiMLP

_attr, _log = need_package("captum.attr", "captum"), need_package("captum.log", "captum")


class Attribution(_attr.Attribution):  # type: ignore[misc, name-defined]
    """A captum attribution method that asks the network for its own exact Shapley values.

    Works wherever captum takes an attribution method, for example in `NoiseTunnel` or a metric. Differentiable.

    Args:
        net: A network in evaluation mode, one column per player.

    Examples:
        >>> from harsanyinet import HarsanyiMLP
        >>> net = HarsanyiMLP(4, 3, seed=0).eval()
        >>> Attribution(net).attribute(torch.ones(2, 4), target=1).shape
        torch.Size([2, 4])
    """

    def __init__(self, net: HarsanyiMLP) -> None:
        super().__init__(net)
        self.net = net

    @property
    def multiplies_by_inputs(self) -> bool:
        """Shapley values are in units of the output, not of its gradient."""
        return True

    def has_convergence_delta(self) -> bool:
        """The sum of the values against the output."""
        return True

    @_log.log_usage()  # type: ignore[untyped-decorator]  # captum's own wrappers unwrap it
    def attribute(
        self,
        inputs: Tensor,
        target: int | list[int] | Tensor | None = None,
        present: Tensor | None = None,
        return_convergence_delta: bool = False,
    ) -> Any:
        """Exact Shapley values (B, P) of one output per row.

        Args:
            inputs: (B, P).
            target: The output: one for all rows or one per row. May be left out when there is one output.
            present: Players that are there, as in the network's `forward`.
            return_convergence_delta: Also returns sum of values - (v(x) - v(empty)), (B,), zero up to rounding.
        """
        values = self.net.shapley_values(inputs, present)  # (B, P, K)
        if values.shape[1] != inputs.shape[1]:
            raise ValueError(
                f"captum expects one value per column, however: {inputs.shape[1]} columns belong to "
                f"{values.shape[1]} players; call explain() instead"
            )
        output = self._output(target, len(inputs), values.shape[2], inputs.device)
        chosen = values[torch.arange(len(inputs), device=inputs.device), :, output][:, self.net.columns]
        if not return_convergence_delta:
            return chosen
        gain = (self.net(inputs, present) - self.net.base).gather(1, output[:, None])[:, 0]
        return chosen, chosen.sum(1) - gain

    def _output(self, target: int | list[int] | Tensor | None, n_rows: int, k: int, device: torch.device) -> Tensor:
        if target is None:
            if k > 1:
                raise ValueError(f"target must name one of {k} outputs, however: none given")
            target = 0
        chosen = torch.as_tensor(target, device=device)
        whole = not (chosen.is_floating_point() or chosen.dtype == torch.bool)
        if not whole or chosen.shape not in ((), (n_rows,)) or bool(((chosen < 0) | (chosen >= k)).any()):
            raise ValueError(f"target must be one or {n_rows} numbers from 0 to {k - 1}, however: target={target}")
        return chosen.expand(n_rows)
