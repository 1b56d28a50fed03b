"""The settings of `HarsanyiMLP`, checked once, and the checks that settings of any network share. No tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import index
from typing import Any, Literal, get_args, get_origin, get_type_hints

from harsanyinet.networks.gates import SoftAnd
from harsanyinet.networks.structure import Connect

Gate = Literal["activation", "presence"]
DeepWeights = Literal["xavier", "positive"]
Activation = Literal["relu", "gelu", "silu", "tanh"]
FirstChildren = int | float | None

PRESENCE_ONLY = (
    "channels, sets, dropout and learn_children=False belong to the presence gate, however: gate='activation'"
)


def one_of(allowed: Any, **options: str | None) -> None:
    """Refuses an option that is not among those of a `Literal`."""
    for name, value in options.items():
        if value not in get_args(allowed):
            names = ", ".join(map(repr, get_args(allowed)))
            raise ValueError(f"{name} must be one of {names}, however: {name}={value!r}")


def at_least_one(**counts: int | None) -> None:
    """Refuses counts below one, and lets None pass."""
    for name, count in counts.items():
        if count is not None and index(count) < 1:
            raise ValueError(f"{name} must be at least 1, however: {name}={count}")


def one_per_block(n_blocks: int, **lists: Sequence[Any]) -> None:
    """Refuses lists of another length."""
    for name, given in lists.items():
        if len(given) != n_blocks:
            raise ValueError(f"{name} must hold one number for each of the {n_blocks} blocks, however: {list(given)}")


def as_json(settings: Any) -> dict[str, Any]:
    """A frozen dataclass of settings as arguments that JSON can hold."""
    each = ((field.name, getattr(settings, field.name)) for field in fields(settings))
    return {name: list(value) if isinstance(value, tuple) else value for name, value in each}


def settle(settings: Any, **values: Any) -> None:
    """For `__post_init__` of a frozen dataclass: puts what a setting means in the place of what was given."""
    for name, value in values.items():
        object.__setattr__(settings, name, value)


def settle_fields(settings: Any) -> None:
    """Likewise, for fields of one type: whole numbers from one on, shares, positive numbers, options of a `Literal`."""
    for name, kind in get_type_hints(type(settings)).items():
        value = getattr(settings, name)
        if kind is int:
            settle(settings, **{name: index(value)})
            if name != "seed":
                at_least_one(**{name: value})
        elif kind is float:
            settle(settings, **{name: float(value)})
            share = name in ("dropout", "gate_floor")
            if not (0 <= value < 1 if share else 0 < value < math.inf):
                wanted = "lie in [0, 1)" if share else "be positive and finite"
                raise ValueError(f"{name} must {wanted}, however: {name}={float(value)}")
        elif get_origin(kind) is Literal:
            one_of(kind, **{name: value})


@dataclass(frozen=True, kw_only=True)
class MLPSettings:
    """The settings of a `HarsanyiMLP`, which says what each is for.

    What was left out is settled here: after that nothing is None but `initial_children`, whose None is a rule.
    """

    n_features: int
    n_outputs: int
    n_blocks: int = 3
    width: int = 100
    gate: Gate = "activation"
    beta: float = 10.0
    gamma: float = 100.0
    connect: Connect = "previous"
    seed: int = 0
    columns: Sequence[int] | None = None
    soft_and: SoftAnd = "geometric"
    initial_children: FirstChildren | Sequence[FirstChildren] = None
    deep_weights: DeepWeights = "xavier"
    channels: int | None = None
    set_sizes: Sequence[int] = (2, 3, 4)
    learn_children: bool | None = None
    activation: Activation = "relu"
    dropout: float = 0.0
    output_bias: bool | None = None

    def __post_init__(self) -> None:
        settle_fields(self)
        settle(self, set_sizes=tuple(map(index, self.set_sizes)))
        if any(size < 1 for size in self.set_sizes) or not self.set_sizes:
            raise ValueError(f"set_sizes must be positive sizes, however: set_sizes={self.set_sizes}")
        self._check_gate()
        settle(self, columns=_players_of_columns(self.columns, self.n_features))
        presence = self.gate == "presence"
        defaults = {"channels": 8 if presence else 1, "learn_children": not presence, "output_bias": presence}
        settle(self, **{name: value for name, value in defaults.items() if getattr(self, name) is None})
        at_least_one(channels=self.channels)

    def _check_gate(self) -> None:
        """What belongs to one gate is refused under the other."""
        if self.gate == "presence" and self.initial_children is not None:
            raise ValueError("initial_children belongs to the activation gate; pass sets or set_sizes for presence")
        if isinstance(self.initial_children, Sequence):
            settle(self, initial_children=tuple(self.initial_children))
        one_per_block(self.n_blocks, initial_children=self.children_per_block)
        if self.gate == "activation" and (
            self.channels not in (None, 1) or self.dropout or self.learn_children is False
        ):
            raise ValueError(PRESENCE_ONLY)

    @property
    def children_per_block(self) -> tuple[FirstChildren, ...]:
        """How many children the units of each block start with."""
        given = self.initial_children
        return tuple(given) if isinstance(given, Sequence) else (given,) * self.n_blocks


def _players_of_columns(columns: Iterable[int] | None, n_features: int) -> tuple[int, ...]:
    players = tuple(range(n_features)) if columns is None else tuple(int(c) for c in columns)
    if len(players) != n_features:
        raise ValueError(f"columns must name a player for each of {n_features} columns, however: {len(players)} given")
    named = set(players)
    if named != set(range(len(named))):
        raise ValueError(f"columns must name players 0 to P-1 without a gap, however: players {sorted(named)[:8]}")
    return players
