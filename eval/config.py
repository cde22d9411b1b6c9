"""From the command line to one plain configuration, with clear sentences for what is wrong.

Hydra composes `configs/`; this module translates its complaints and applies a method's preset.
The order of precedence is: the method's file, its preset, the command line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from eval.outside import config_names, outside_folders
from memsys.errors import UserError, suggest

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
ROOT = CONFIGS.parent


class OutsideConfigs(SearchPathPlugin):
    """Lets Hydra find the configs of other packages, behind ours (see `eval.outside`)."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append every such folder."""
        for package, folder in outside_folders().items():
            search_path.append(f"memsys-{package}", f"file://{folder}")


Plugins.instance().register(OutsideConfigs)


@dataclass(frozen=True)
class RunConfig:
    """A composed configuration as plain values, and which config of each group it took.

    `launcher` starts the jobs of a sweep; `basic` does so one after another in this process.
    """

    values: Mapping[str, Any]
    choices: Mapping[str, str]
    launcher: str = "basic"

    def without_paths(self) -> dict[str, Any]:
        """Return the values without this machine's folders."""
        return {key: value for key, value in self.values.items() if key != "paths"}


def names_and_settings(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part the words of a command: names of tables or the like, and `key=value` settings."""
    return [w for w in words if "=" not in w], [w for w in words if "=" in w]


def results_folder(settings: Sequence[str] = ()) -> Path:
    """Return where a command with these settings writes: `paths.results`, or `results`."""
    said = [s.partition("=")[2] for s in settings if s.startswith("paths.results=")]
    return ROOT / (said[-1] if said else "results")


def shown_path(path: Path) -> str:
    """Return a path as people read it: relative to the checkout where it lies inside."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def compose(overrides: Sequence[str] = (), name: str = "run") -> RunConfig:
    """Compose `configs/<name>.yaml` with command-line overrides.

    Raises `UserError` for an unknown key, value or config, naming the nearest right one.
    """
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            config = hydra_compose(name, list(overrides), return_hydra_config=True)
            choices = dict(config.hydra.runtime.choices)
            return from_hydra(config, choices, overrides)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_sentence(error, name, overrides)) from error


def from_hydra(
    config: DictConfig, choices: Mapping[str, str], overrides: Sequence[str]
) -> RunConfig:
    """Turn a composed Hydra config into plain values, with the preset in force applied."""
    plain = OmegaConf.masked_copy(config, [str(k) for k in config if k != "hydra"])
    OmegaConf.set_struct(plain, False)
    _apply_preset(plain, overrides)
    values = OmegaConf.to_container(plain, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    kept = {k: v for k, v in choices.items() if not k.startswith("hydra/")}
    launcher = choices.get("hydra/launcher") or "basic"
    return RunConfig({str(k): v for k, v in values.items()}, kept, launcher)


def jobs_to_check(overrides: Sequence[str], *, sweep: bool) -> list[list[str]]:
    """Return jobs in which every value of a sweep occurs, to validate it before its first run.

    The first job has each sweep's first value; each further one has one other value. Raises
    `UserError` for what cannot be read, or for several values without `-m`.
    """
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise UserError(
            f"{' '.join(str(error).splitlines()[0].split())}: settings are given as key=value; "
            "scripts/run.py --help lists them."
        ) from error
    choices = [_choices(override) for override in parsed]
    swept = next((o for o, c in zip(parsed, choices, strict=True) if len(c) > 1), None)
    if swept is not None and not sweep:
        raise UserError(f"{swept.input_line} names several values: add -m to sweep over them.")
    first = [values[0] for values in choices]
    others = [
        [*first[:i], value, *first[i + 1 :]]
        for i, values in enumerate(choices)
        for value in values[1:]
    ]
    return [first, *others]


def _choices(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [str(override.input_line)]
    key = override.get_key_element()
    return [f"{key}={value}" for value in override.sweep_string_iterator()]


def _apply_preset(config: DictConfig, overrides: Sequence[str]) -> None:
    method = config.get("method")
    if method is None:
        return
    presets = method.pop("presets", None) or {}
    name = config.get("preset") or "paper"
    if name != "paper" and name not in presets:
        known = suggest(name, ["paper", *presets])
        raise UserError(f"preset={name}: this method has no such preset.{known}")
    if name != "paper":
        config.method = OmegaConf.merge(method, presets[name])
        for line in overrides:  # what was said on the command line stands above the preset
            if line.startswith("method."):
                key, _, value = line.partition("=")
                OmegaConf.update(config, key, OmegaConf.create({"v": _yaml(value)}).v)


def _yaml(text: str) -> Any:
    return OmegaConf.create(f"v: {text}").v


_LAUNCHERS = (
    " Ours are cores, slurm, slurm_here and ray_here (docs/scale.md); the first three need "
    "pip install -e '.[launchers]'."
)


def _sentence(error: Exception, name: str, overrides: Sequence[str]) -> str:
    text = str(error)
    unknown = re.search(r"Could not override '([^']+)'", text)
    if unknown:
        key = unknown.group(1)
        return f"There is no setting '{key}'.{suggest(key, _known_keys(name, overrides))}"
    missing = re.search(r"Could not find '([^']+)'", text)
    if missing:
        group, _, option = missing.group(1).rpartition("/")
        if group == "hydra/launcher":
            return f"There is no launcher '{option}' here.{_LAUNCHERS}"
        options = config_names(group) if group else []
        place = f"group '{group}'" if group else "'configs'"
        return f"There is no config '{option}' in {place}.{suggest(option, options)}"
    mandatory = re.search(r"Missing mandatory value: (\S+)", text)
    if mandatory:
        key = mandatory.group(1)
        return f"Setting '{key}' has no value yet: give one with {key}=… on the command line."
    return " ".join(line.strip() for line in text.splitlines()[:2] if line.strip())


def _known_keys(name: str, overrides: Sequence[str]) -> list[str]:
    """Return every key of the nearest config that composes: groups chosen, values left out."""
    groups = [p.name for p in CONFIGS.iterdir() if p.is_dir()]
    chosen = [o for o in overrides if o.partition("=")[0].partition("@")[0] in groups]
    for attempt in (chosen, []):
        try:
            with initialize_config_dir(str(CONFIGS), version_base="1.3"):
                config = hydra_compose(name, attempt)
            break
        except (HydraException, OmegaConfBaseException):
            GlobalHydra.instance().clear()
    else:
        return groups
    keys: list[str] = [*groups]

    def walk(node: Any, prefix: str) -> None:
        for key in node:
            keys.append(f"{prefix}{key}")
            child = node._get_node(key)
            if isinstance(child, DictConfig) and not child._is_none():
                walk(child, f"{prefix}{key}.")

    walk(config, "")
    return keys
