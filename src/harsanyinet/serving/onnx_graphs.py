"""An ONNX file under construction: inputs, constants, operators, outputs, what it says of itself. No model.

Operators of ai.onnx and ai.onnx.ml alone, at versions that runtimes have had for years.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harsanyinet.extras import need_package

Array = NDArray[Any]
Dims = Sequence[str | int]

OPSETS = {"": 18, "ai.onnx.ml": 3}
IR_VERSION = 8
ROWS = "rows"
"""The dimension that may have any size."""
RESERVED = ("present", "probabilities", "prediction", "label", "shapley", "base_values", "raw", "interactions")
"""Names of outputs and of the input with a default, which no other input may take."""
_LARGEST = 2**31 - 2**20  # bytes: protobuf's messages end there


class Graph:
    """Collects the parts of a file; values are known by name, and no name stands for two of them."""

    def __init__(self) -> None:
        self.onnx: Any = need_package("onnx", "onnx")
        self._taken = {*RESERVED}
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, wanted: str, dtype: Any, dims: Dims) -> str:
        """A new input of text (str) or a type of numpy; returns its name, another than wanted where that is taken.

        Dimensions are sizes, or names of those that vary.
        """
        name = self._free(wanted or "column", always=False)
        self._inputs.append(self._described(name, dtype, dims))
        return name

    def present(self, n_players: int) -> str:
        """The optional input `present`, (rows, players) or (1, players) bool: everybody, if it is not given."""
        everybody = np.ones((1, n_players), dtype=bool)
        self._constants.append(self.onnx.numpy_helper.from_array(everybody, "present"))
        self._inputs.append(self._described("present", np.bool_, ["rows of present", n_players]))
        return "present"

    def node(self, operator: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """What an operator of a domain, with its attributes, makes of values by their names, or of constant arrays."""
        name, given = self._free(operator.lower()), [self._named(value) for value in inputs]
        self._nodes.append(self.onnx.helper.make_node(operator, given, [name], domain=domain, **attributes))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        """A value in another type of numpy."""
        return self.node("Cast", value, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def output(self, name: str, value: Any, dtype: Any, dims: Dims) -> None:
        """Makes a value, or a constant array, an output under a reserved name."""
        self._nodes.append(self.onnx.helper.make_node("Identity", [self._named(value)], [name]))
        self._outputs.append(self._described(name, dtype, dims))

    def to_bytes(self, about: str, metadata: Mapping[str, Any]) -> bytes:
        """The whole file, checked, with a sentence about it and what it says of itself: texts, or JSON."""
        helper = self.onnx.helper
        if sum(len(constant.raw_data) for constant in self._constants) > _LARGEST:
            raise ValueError(
                "an ONNX file must be smaller than 2 GB, however: the tables of this model are larger; fit fewer trees "
                "or classes, or export without interactions"
            )
        graph = helper.make_graph(self._nodes, "harsanyinet", self._inputs, self._outputs, self._constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="harsanyinet", doc_string=about
        )
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in metadata.items()}
        helper.set_model_props(model, texts)
        self.onnx.checker.check_model(model, full_check=True)
        data: bytes = model.SerializeToString()
        return data

    def _named(self, value: Any) -> str:
        """The name of a value; of anything else, that of a constant."""
        if isinstance(value, str):
            return value
        name = self._free("constant")
        self._constants.append(self.onnx.numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def _free(self, wanted: str, always: bool = True) -> str:
        """A name that nothing has; with a number at its end `always`, or where it must."""
        name, n = (f"{wanted}:{len(self._taken)}" if always else wanted), 0
        while name in self._taken:
            n += 1
            name = f"{wanted}_{n}"
        self._taken.add(name)
        return name

    def _described(self, name: str, dtype: Any, dims: Dims) -> Any:
        helper = self.onnx.helper
        kind = np.dtype(object) if dtype is str else np.dtype(dtype)
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), list(dims))
