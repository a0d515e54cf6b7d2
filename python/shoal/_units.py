"""Chooses units: which parameters are gathered together, and which modules enter them.

A unit is usually one transformer block. The rule, in this order:

1. `units=`: module classes, class names or module names given by the caller;
2. the model's `_no_split_modules` (transformers: class names of blocks);
3. the children of every `torch.nn.ModuleList` that has at least two children with parameters.

Outermost wins. Every other module that owns parameters directly is a unit of its own, entered by
that module. A parameter reachable from several units (tied) forms a unit of its own that each of
its owners enters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass(slots=True, kw_only=True)
class NamedParam:
    """A parameter with its first name in the model and its other (tied) names."""

    name: str
    aliases: list[str]
    tensor: nn.Parameter


@dataclass(slots=True, kw_only=True)
class UnitPlan:
    """Parameters gathered together, and the modules whose forward enters them."""

    name: str
    params: list[NamedParam] = field(default_factory=list)
    entries: list[nn.Module] = field(default_factory=list)


def plan_units(
    model: nn.Module, units: Sequence[type[nn.Module] | str] | None = None
) -> list[UnitPlan]:
    """Return the units of `model` in the order of its modules.

    Raises ValueError when `units` names something that the model does not have.
    """
    blocks = _find_blocks(model, units)
    unit_of_name = _assign_modules(model, blocks)
    owners: dict[nn.Parameter, list[str]] = {}
    names: dict[nn.Parameter, list[str]] = {}
    modules: dict[nn.Parameter, list[nn.Module]] = {}
    for module_name, module in model.named_modules(remove_duplicate=False):
        unit = unit_of_name[module_name]
        for local, param in module.named_parameters(recurse=False, remove_duplicate=False):
            full = f"{module_name}.{local}" if module_name else local
            if full in names.setdefault(param, []):
                continue
            names[param].append(full)
            if unit not in owners.setdefault(param, []):
                owners[param].append(unit)
                modules.setdefault(param, []).append(blocks.get(unit, module))
    return _collect(owners, names, modules)


def _collect(
    owners: dict[nn.Parameter, list[str]],
    names: dict[nn.Parameter, list[str]],
    modules: dict[nn.Parameter, list[nn.Module]],
) -> list[UnitPlan]:
    plans: dict[str, UnitPlan] = {}
    for param, units in owners.items():
        name = units[0] if len(units) == 1 else f"tied({names[param][0]})"
        plan = plans.setdefault(name, UnitPlan(name=name))
        plan.params.append(NamedParam(name=names[param][0], aliases=names[param][1:], tensor=param))
        plan.entries += [module for module in modules[param] if module not in plan.entries]
    return list(plans.values())


def _find_blocks(
    model: nn.Module, units: Sequence[type[nn.Module] | str] | None
) -> dict[str, nn.Module]:
    """Map the name of each block's root module to the module; outermost only."""
    if units is not None:
        found = _match(model, units)
    else:
        no_split = getattr(model, "_no_split_modules", None)
        found = _match(model, list(no_split), strict=False) if no_split else {}
        found = found or dict(_list_children(model))
    outermost: dict[str, nn.Module] = {}
    for name, module in found.items():
        if not any(name == other or name.startswith(f"{other}.") for other in outermost):
            outermost[name] = module
    return outermost


def _match(
    model: nn.Module, wanted: Sequence[type[nn.Module] | str], *, strict: bool = True
) -> dict[str, nn.Module]:
    found: dict[str, nn.Module] = {}
    matched: set[type[nn.Module] | str] = set()
    for name, module in model.named_modules():
        for item in wanted:
            if isinstance(item, str):
                hit = item in (name, type(module).__name__)
            else:
                hit = isinstance(module, item)
            if hit and any(True for _ in module.parameters()):
                found[name] = module
                matched.add(item)
    missing = [item for item in wanted if item not in matched]
    if strict and missing:
        msg = f"[engine] units={missing!r}: the model has no such module with parameters"
        raise ValueError(msg)
    return found


def _list_children(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, module in model.named_modules():
        if not isinstance(module, nn.ModuleList):
            continue
        children = [
            (child_name, child)
            for child_name, child in module.named_children()
            if any(True for _ in child.parameters())
        ]
        if len(children) < 2:
            continue
        for child_name, child in children:
            yield (f"{name}.{child_name}" if name else child_name), child


def _assign_modules(model: nn.Module, blocks: dict[str, nn.Module]) -> dict[str, str]:
    """Map every module's name (also those of shared modules) to its unit: its block's, or its own.

    A module that two blocks share has a name in each, so its parameters become tied units.
    """
    first_name: dict[nn.Module, str] = {}
    result: dict[str, str] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        first = first_name.setdefault(module, name)
        block = next((root for root in blocks if name == root or name.startswith(f"{root}.")), None)
        result[name] = block if block is not None else (first or "(model)")
    return result


def all_buffers(model: nn.Module) -> list[torch.Tensor]:
    """All buffers of the model, each once."""
    seen: dict[int, torch.Tensor] = {}
    for buffer in model.buffers():
        seen.setdefault(id(buffer), buffer)
    return list(seen.values())
