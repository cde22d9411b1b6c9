"""Typed configs: a config is validated against the signature of the class that it names.

A config with `_target_: package.module.Class` is checked key by key and value by value: an unknown
key, a missing key or a value of the wrong type is one clear sentence with the nearest right name.
"""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from memsys.errors import UserError, suggest

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Part:
    """A validated config: a class and the arguments to make it from."""

    target: type[Any]
    arguments: Mapping[str, Any]

    def make(self, **given: Any) -> Any:
        """Instantiate the class; `given` are the arguments that no config holds."""
        return self.target(**self.arguments, **given)


def resolve(config: Mapping[str, Any], where: str, given: tuple[str, ...] = ()) -> Part:
    """Validate `config` against the signature of its `_target_`.

    `where` is the config's place in the whole (`method`), for messages; `given` names the
    arguments that the program supplies. Raises `UserError`.
    """
    values = dict(config)
    name = values.pop("_target_", None)
    if not isinstance(name, str):
        raise UserError(f"Config '{where}' names no class: it needs a '_target_'.")
    target = find_class(name, where)
    if issubclass(target, BaseModel):
        settings = validated(target, values, where)
        fields = {f: getattr(settings, f) for f in target.model_fields}
        return Part(target, fields)
    model = _signature_model(target, given)
    settings = validated(model, values, where)
    return Part(target, {f: getattr(settings, f) for f in model.model_fields})


def find_class(name: str, where: str) -> type[Any]:
    """Import the class that a `_target_` names."""
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"{where}._target_={name} cannot be imported: {error}.") from error
    if not isinstance(found, type):
        raise UserError(f"{where}._target_={name} is not a class.")
    return found


def _signature_model(target: type[Any], given: tuple[str, ...]) -> type[BaseModel]:
    concrete = _type_arguments(target)
    hints = {k: concrete.get(v, v) for k, v in get_type_hints(target.__init__).items()}
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(target.__init__).parameters.values())[1:]:
        if parameter.name in given:
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, protected_namespaces=())
    return create_model(target.__name__, __config__=config, **fields)


def _type_arguments(target: type[Any]) -> dict[Any, Any]:
    """Return what a class's generic bases put for their type variables (`System[Build, Ask]`)."""
    found: dict[Any, Any] = {}
    for owner in reversed(target.__mro__):
        for base in getattr(owner, "__orig_bases__", ()):
            variables = getattr(get_origin(base), "__parameters__", ())
            found |= dict(zip(variables, get_args(base), strict=False))
    return found


def validated(model: type[M], values: Mapping[str, Any], where: str) -> M:
    """Read `values` as a settings model; raises `UserError` naming the key under `where`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UserError("\n".join(_sentence(model, e, where) for e in error.errors())) from error


def _sentence(model: type[BaseModel], error: Any, where: str) -> str:
    path = [str(step) for step in error["loc"]]
    key = ".".join([where, *path])
    owner = _model_at(model, path[:-1])
    if error["type"] == "extra_forbidden":
        return f"There is no setting '{key}'.{suggest(path[-1], _names(owner))}"
    if error["type"] == "missing":
        return f"Setting '{key}' is missing."
    if error["type"] in ("literal_error", "enum"):
        options = _options(owner, path[-1])
        return (
            f"{key}={error['input']!r} is not a known value.{suggest(str(error['input']), options)}"
        )
    message = error["msg"].removeprefix("Value error, ")
    return f"{key}={error['input']!r}: {message[0].lower()}{message[1:]}."


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _field(model: type[BaseModel], name: str) -> Any:
    for key, field in model.model_fields.items():
        if name in (key, field.alias):
            return field.annotation
    return None


def _model_at(model: type[BaseModel], path: list[str]) -> type[BaseModel]:
    for step in path:
        inner = _field(model, step)
        options = get_args(inner) if get_origin(inner) in (Union, types.UnionType) else (inner,)
        models = [o for o in options if isinstance(o, type) and issubclass(o, BaseModel)]
        if not models:
            return model
        model = models[0]
    return model


def _options(model: type[BaseModel], name: str) -> list[str]:
    found: list[str] = []
    pending = [_field(model, name)]
    while pending:
        annotation = pending.pop()
        if get_origin(annotation) is Literal:
            found += [str(value) for value in get_args(annotation)]
        else:
            pending += get_args(annotation)
    return found
