"""The user's face of Mesh; the algebra itself is tested in src/shoal/layout/mesh_test.cc."""

from __future__ import annotations

import copy
import os
import pickle
from typing import Any

import pytest

from shoal import _core
from shoal.mesh import Mesh


def test_slices_along_each_axis() -> None:
    mesh = Mesh(dp=2, tp=2)
    assert mesh["dp"] == ((0, 2), (1, 3))
    assert mesh["tp"] == ((0, 1), (2, 3))
    assert mesh["pp"] == ((0,), (1,), (2,), (3,))
    assert mesh.group_of("dp", rank=3) == (1, 3)
    assert mesh.axes == {"pp": 1, "dp": 2, "sp": 1, "tp": 2}
    assert mesh.coordinates_of(2) == {"pp": 0, "dp": 1, "sp": 0, "tp": 0}


def test_two_level_dp_shards_inside_and_replicates_across() -> None:
    mesh = Mesh(dp=(2, 3))
    assert mesh["dp_shard"] == ((0, 1, 2), (3, 4, 5))
    assert mesh["dp_replicate"] == ((0, 3), (1, 4), (2, 5))
    assert mesh["dp"] == ((0, 1, 2, 3, 4, 5),)
    assert mesh.axis_size("dp") == 6
    assert mesh.native.is_hybrid


def test_dp_left_out_is_filled_in_by_resolve() -> None:
    mesh = Mesh(tp=2)
    assert not mesh.is_resolved
    assert str(mesh) == "dp=?,tp=2"
    resolved = mesh.resolve(6)
    assert resolved.is_resolved
    assert resolved == Mesh(dp=3, tp=2)
    assert not mesh.is_resolved  # the original is a value and stays


def test_resolve_of_a_resolved_mesh_checks_the_world_size() -> None:
    mesh = Mesh(dp=4)
    assert mesh.resolve(4) == mesh
    with pytest.raises(_core.InvalidArgumentError, match="multiply to 4, not to the world size 6"):
        mesh.resolve(6)
    part = Mesh(ranks=[2, 3])
    assert part.resolve(8) == part
    with pytest.raises(_core.InvalidArgumentError, match=r"ranks has 3, must be in 0\.\.2"):
        part.resolve(3)


def test_ranks_resolve_dp() -> None:
    mesh = Mesh(ranks=[4, 5, 6, 7], tp=2)
    assert mesh.is_resolved
    assert mesh.ranks == (4, 5, 6, 7)
    assert mesh.size == 4
    assert mesh["dp"] == ((4, 6), (5, 7))
    assert 4 in mesh
    assert 0 not in mesh


@pytest.mark.parametrize("access", ["size", "ranks", "axes", "native"])
def test_what_is_not_known_yet_says_how_to_know_it(access: str) -> None:
    with pytest.raises(_core.InvalidArgumentError, match=r"call resolve\(world_size\) first"):
        getattr(Mesh(), access)
    with pytest.raises(_core.InvalidArgumentError, match=r"call resolve\(world_size\) first"):
        Mesh()["dp"]


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        ({"dp": 4, "tp": 2}, "dp=4,tp=2", "Mesh(dp=4, tp=2)"),
        ({"dp": (2, 4)}, "dp=(2,4)", "Mesh(dp=(2, 4))"),
        ({"dp": 1}, "dp=1", "Mesh(dp=1)"),
        ({"dp": 2, "ranks": [4, 6]}, "dp=2@[4,6]", "Mesh(dp=2, ranks=(4, 6))"),
        ({"ranks": [0, 1]}, "dp=2", "Mesh(dp=2)"),
        ({}, "dp=?", "Mesh(dp=None)"),
        ({"tp": 2}, "dp=?,tp=2", "Mesh(dp=None, tp=2)"),
    ],
)
def test_prints_and_evaluates_back(arguments: dict[str, Any], text: str, code: str) -> None:
    mesh = Mesh(**arguments)
    assert str(mesh) == text
    assert repr(mesh) == code
    assert eval(code, {"Mesh": Mesh}) == mesh
    assert pickle.loads(pickle.dumps(mesh)) == mesh
    assert copy.deepcopy(mesh) == mesh


def test_equality_and_hash_look_at_axes_and_ranks() -> None:
    assert Mesh(dp=2) == Mesh(ranks=[0, 1])
    assert hash(Mesh(dp=2)) == hash(Mesh(ranks=[0, 1]))
    different = [Mesh(), Mesh(tp=2), Mesh(dp=4), Mesh(dp=2, tp=2), Mesh(dp=(1, 4))]
    different += [Mesh(dp=4, ranks=[3, 2, 1, 0])]
    assert len(set(different)) == len(different)
    assert Mesh(dp=2) != "dp=2"


@pytest.mark.parametrize("axis", ["pp", "ep", "sp"])
def test_axes_that_are_not_implemented_are_named(axis: str) -> None:
    for sizes in ({axis: 2}, {axis: 2, "dp": 2}):
        with pytest.raises(_core.UnsupportedError, match=f'axis "{axis}" has size 2'):
            Mesh(**sizes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dp": 0}, 'axis "dp" has size 0, must be >= 1'),
        ({"tp": -1}, 'axis "tp" has size -1, must be >= 1'),
        ({"dp": (2, 0)}, 'axis "dp" has size 0, must be >= 1'),
        ({"dp": 3, "ranks": [0, 1]}, "multiply to 3, not to the number of ranks given, 2"),
        ({"ranks": [1, 1]}, "ranks has 1 twice"),
        ({"ranks": [-1]}, "ranks has -1"),
        ({"ranks": []}, "ranks is empty"),
        ({"dp": 3, "ep": 2}, "does not divide dp, which has size 3"),
        ({"dp": 1 << 40}, "not to the world size 1048576"),
    ],
)
def test_contradictions_are_value_errors_at_construction(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(_core.InvalidArgumentError) as caught:
        Mesh(**arguments)
    assert message in str(caught.value)
    assert str(caught.value).startswith("[mesh] ")
    assert isinstance(caught.value, ValueError)


def test_unknown_axes_are_refused_with_the_known_ones() -> None:
    with pytest.raises(
        _core.InvalidArgumentError, match='unknown axis "fsdp", must be one of pp, dp'
    ):
        Mesh(dp=2)["fsdp"]


@pytest.mark.parametrize("dp", [2.0, "2", (), (2,), (1, 2, 3)])
def test_dp_of_another_form_is_a_type_error(dp: object) -> None:
    with pytest.raises(TypeError, match=r"must be a size, \(replicate, shard\) or None"):
        Mesh(dp=dp)  # type: ignore[arg-type]


def test_arguments_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        Mesh(2)  # type: ignore[misc]


def test_a_forked_child_uses_an_inherited_mesh() -> None:
    mesh = Mesh(dp=2, tp=2)
    child = os.fork()
    if child == 0:
        os._exit(0 if mesh["tp"] == ((0, 1), (2, 3)) and mesh == Mesh(dp=2, tp=2) else 1)
    assert os.waitpid(child, 0)[1] == 0
