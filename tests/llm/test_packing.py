"""Packed weights: the same products, for one row as for many, and only where they belong."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from memsys.llm.packing import PackedLinear, pack, possible

pytestmark = pytest.mark.skipif(not possible(), reason="this torch has no oneDNN")


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(24, 40, bias=False), nn.SiLU(), nn.Linear(40, 7))
    return nn.ModuleDict({"inner": inner, "other": nn.Linear(24, 3).bfloat16()})


@pytest.mark.parametrize("rows", [(1,), (2,), (5, 16), (3, 1, 4)])
@torch.inference_mode()
def test_products_are_those_of_the_layer_whatever_the_shape(model, rows):
    given = torch.randn(*rows, 24)
    expected = model["inner"](given)
    pack(model)
    assert all(isinstance(model["inner"][i], PackedLinear) for i in (0, 2))
    assert model["inner"][2].out_features == 7
    torch.testing.assert_close(model["inner"](given), expected, rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_a_row_has_the_same_products_alone_and_in_company(model):
    pack(model)
    given = torch.randn(9, 24)
    alone = torch.cat([model["inner"](row[None]) for row in given])
    torch.testing.assert_close(model["inner"](given), alone, rtol=0, atol=1e-6)


def test_half_precision_is_left_alone(model):
    pack(model)
    assert type(model["other"]) is nn.Linear


def test_without_onednn_nothing_is_replaced(model, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    pack(model)
    assert type(model["inner"][0]) is nn.Linear
