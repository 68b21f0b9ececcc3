"""Recurrent networks: cells, and layers of them over sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.torch._apply import call
from functrace.torch._dtypes import warn
from functrace.torch._index import cat, stack
from functrace.torch._nodes import Op
from functrace.torch._shape import TRANSPOSED
from functrace.torch._tensor import wrap
from functrace.torch.nn import _cells, functional
from functrace.torch.nn._cells import MODES
from functrace.torch.nn.module import Module
from functrace.torch.nn.utils.rnn import PackedSequence
from functrace.torch.nn.weighted import draw_all, empty

F: Any = functional
_SWAPPED = Op("TransposeBackward1", TRANSPOSED.fun, TRANSPOSED.rules, view=True)  # PyTorch's `transpose_`


def _zeros(*shape: int, like: Any) -> Any:
    return wrap(np.zeros(shape, like._a.dtype))


def _check_sizes(mode: str, input_size: int, hidden_size: int, proj_size: int, num_layers: int) -> None:
    if proj_size and mode != "LSTM":
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
    for what, n in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(n, int):
            raise TypeError(f"{what} should be of type int, got: {type(n).__name__}")
        if n <= 0:
            raise ValueError(f"{what} must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")


class RNNBase(Module):
    """Layers of cells, in one or both directions."""

    mode = ""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout > 0 and num_layers == 1:
            warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater than 1, "
                f"but got dropout={dropout} and num_layers={num_layers}"
            )
        _check_sizes(self.mode, input_size, hidden_size, proj_size, num_layers)
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional, self.proj_size = batch_first, float(dropout), bidirectional, proj_size
        gates, state = MODES[self.mode][0] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: 1 + bidirectional]:
                width = input_size if layer == 0 else state * (1 + bidirectional)
                for name, shape in (
                    ("weight_ih", (gates, width)),
                    ("weight_hh", (gates, state)),
                    ("bias_ih", (gates,)),
                    ("bias_hh", (gates,)),
                    *((("weight_hr", (proj_size, hidden_size)),) if proj_size else ()),
                ):
                    if bias or name.startswith("weight"):
                        setattr(self, f"{name}_l{layer}{suffix}", empty(*shape, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        draw_all(self, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Nothing: it concerns other devices."""

    def _layer_weights(self, layer: int, reverse: int) -> list[Any]:
        """The weights of a layer and direction, None for those that it does not have."""
        suffix = f"_l{layer}{'_reverse' * reverse}"
        names = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if self.bias else ()), *(("weight_hr",) if self.proj_size else ()))
        found = {name: getattr(self, name + suffix) for name in names}
        return [found.get(name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")]

    @property
    def all_weights(self) -> list[list[Any]]:
        """The weights of each layer and direction."""
        rows = [self._layer_weights(k, r) for k in range(self.num_layers) for r in range(1 + self.bidirectional)]
        return [[w for w in row if w is not None] for row in rows]

    def forward(self, input: Any, hx: Any = None) -> Any:
        """(output, last state): the last layer's states, and all layers' last ones."""
        packed = isinstance(input, PackedSequence)
        if packed:
            given, input = input, input.data
            if given.sorted_indices is not None and hx is not None:
                hx = _taken(hx, given.sorted_indices)
        elif input._a.ndim not in (2, 3):
            what = f"{input._a.ndim}D tensor" if self.mode.startswith("RNN") else f"{input._a.ndim}D"
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {what} instead")
        alone = not packed and input._a.ndim == 2
        x = input if packed else input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
        self._check_features(x)
        sizes = given.batch_sizes._a.tolist() if packed else [x._a.shape[1]] * x._a.shape[0]
        if not sizes:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        directions, batch = 1 + self.bidirectional, sizes[0]
        several, rows = self.mode == "LSTM", self.num_layers * directions
        shapes = [(rows, batch, self.proj_size or self.hidden_size), (rows, batch, self.hidden_size)][: 1 + several]
        starts = [tuple(_zeros(*wanted[1:], like=x) for wanted in shapes)] * rows if hx is None else _starts(hx, shapes, alone)
        fused = several and not self.proj_size and x._a.dtype == np.float32 and x._a.size  # in PyTorch too, with its name
        x, finals = self._run_layers("Cat" if packed else "MkldnnRnnLayer" if fused else "Stack", x, starts, sizes)
        last = tuple(stack([h[k] for h in finals], 0) for k in range(1 + several))
        output: Any = x
        if packed:
            output = given._replace(data=x)
            if given.unsorted_indices is not None:
                last = _taken(last, given.unsorted_indices)
        elif alone:
            output = x.squeeze(1)
        elif self.batch_first:
            output = x.transpose(0, 1) if fused else call(_SWAPPED, (x,), ((1, 0, 2),))
        last = tuple(h.squeeze(1) for h in last) if alone else last
        return output, last if several else last[0]

    def _check_features(self, x: Any) -> None:
        if x._a.dtype != self.weight_ih_l0._a.dtype:
            raise ValueError(
                f"RNN input dtype ({x.dtype}) does not match weight dtype ({self.weight_ih_l0.dtype}). "
                f"Convert input: input.to({self.weight_ih_l0.dtype}), or convert model: model.to({x.dtype})"
            )
        if x._a.shape[-1] != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x._a.shape[-1]}")

    def _run_layers(self, node: str, x: Any, starts: list[Any], sizes: list[int]) -> tuple[Any, list[Any]]:
        """The states of the last layer at all times, and the last ones of each layer and direction."""
        directions = 1 + self.bidirectional
        finals: list[Any] = []
        for layer in range(self.num_layers):
            outs = []
            for reverse in range(directions):
                start = starts[layer * directions + reverse]
                out, *ends = _cells.rnn(node, self.mode, x, self._layer_weights(layer, reverse), start, sizes, bool(reverse))
                outs.append(out)
                finals.append(ends)
            x = outs[0] if directions == 1 else cat(outs, -1)
            if self.dropout and self.training and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout)
        return x, finals

    def extra_repr(self) -> str:
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False}
        more = [f"{k}={getattr(self, k)}" for k, v in usual.items() if getattr(self, k) != v]
        return ", ".join([str(self.input_size), str(self.hidden_size), *more])


def _starts(hx: Any, shapes: list[Any], alone: bool) -> list[tuple[Any, ...]]:
    """The first states of each layer and direction, checked."""
    several, n = len(shapes) > 1, 2 if alone else 3
    states = [hx[0], hx[1]] if several else [hx]
    if any(h._a.ndim != n for h in states):
        found = "({}-D, {}-D) tensors" if several else "{}-D tensor"
        raise RuntimeError(
            f"For {'unbatched' if alone else 'batched'} {n}-D input, hx {'and cx ' * several}should also be {n}-D but got "
            + found.format(*(h._a.ndim for h in states))
        )
    states = [h.unsqueeze(1) if alone else h for h in states]
    for k, (h, wanted) in enumerate(zip(states, shapes)):
        if h._a.shape != wanted:
            what = f"hidden[{k}]" if several else "hidden"
            raise RuntimeError(f"Expected {what} size {wanted}, got {list(h.shape)}")
    return [tuple(s[k] for s in states) for k in range(shapes[0][0])]


def _taken(states: Any, order: Any) -> Any:
    return tuple(h.index_select(1, order) for h in states) if isinstance(states, tuple) else states.index_select(1, order)


class RNN(RNNBase):
    """Layers with h' = tanh(W x + U h), or relu."""

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.__dict__.update(nonlinearity=nonlinearity, mode=f"RNN_{nonlinearity.upper()}")
        super().__init__(*args, **kwargs)


class LSTM(RNNBase):
    """Layers of long short-term memory (Hochreiter and Schmidhuber 1997)."""

    mode = "LSTM"


class GRU(RNNBase):
    """Layers of gated recurrent units (Cho et al. 2014)."""

    mode = "GRU"


class RNNCellBase(Module):
    """One step of a recurrent network."""

    mode = ""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        gates = MODES[self.mode][0] * hidden_size
        self.weight_ih = empty(gates, input_size, dtype=dtype, device=device)
        self.weight_hh = empty(gates, hidden_size, dtype=dtype, device=device)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, empty(gates, dtype=dtype, device=device) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        draw_all(self, self.hidden_size)

    def forward(self, input: Any, hx: Any = None) -> Any:
        if input._a.ndim not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected input to be 1D or 2D, got {input._a.ndim}D instead")
        alone = input._a.ndim == 1
        x = input.unsqueeze(0) if alone else input
        if x._a.shape[1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {x._a.shape[1]} expected {self.input_size}")
        several = self.mode == "LSTM"
        if hx is None:
            h: tuple[Any, ...] = (_zeros(x._a.shape[0], self.hidden_size, like=x),) * (1 + several)
        else:
            h = tuple(s.unsqueeze(0) if alone else s for s in (hx if several else (hx,)))
            for k, s in enumerate(h):
                if s._a.shape[0] != x._a.shape[0]:
                    raise RuntimeError(f"Input batch size {x._a.shape[0]} doesn't match hidden{k} batch size {s._a.shape[0]}")
                if s._a.shape[1] != self.hidden_size:
                    raise RuntimeError(f"hidden{k} has inconsistent hidden_size: got {s._a.shape[1]}, expected {self.hidden_size}")
        new = _cells.rnn_cell(self.mode, x, (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh), h)
        new = tuple(s.squeeze(0) for s in new) if alone else new
        return new if several else new[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")
        return text + (f", nonlinearity={self.nonlinearity}" if getattr(self, "nonlinearity", "tanh") != "tanh" else "")


class RNNCell(RNNCellBase):
    """One step of `RNN`."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", **options: Any) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {nonlinearity}")
        self.__dict__.update(nonlinearity=nonlinearity, mode=f"RNN_{nonlinearity.upper()}")
        super().__init__(input_size, hidden_size, bias, **options)


class LSTMCell(RNNCellBase):
    """One step of `LSTM`."""

    mode = "LSTM"


class GRUCell(RNNCellBase):
    """One step of `GRU`."""

    mode = "GRU"
