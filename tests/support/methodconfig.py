"""Reads a method's config file for tests: settings in force and presets."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def method_config(name):
    text = (ROOT / f"configs/method/{name}.yaml").read_text()
    return yaml.safe_load(text.replace("${metadata}", "llm"))  # run.yaml's own default


def check_method_config(name, build, ask):
    """The file spells out every key at the schema's defaults, and its presets are valid."""
    config = method_config(name)
    assert config["build"] == build().plain()
    assert config["ask"] == ask().plain()
    for preset in config.get("presets", {}).values():
        assert preset.keys() <= {"build", "ask"}
        build.model_validate(merged(config["build"], preset.get("build", {})))
        ask.model_validate(merged(config["ask"], preset.get("ask", {})))
    return config


def merged(settings, changes):
    """Settings with changes laid over them, deeply; a preset may only change what exists."""
    assert changes.keys() <= settings.keys()
    inner = {k: merged(settings[k], v) for k, v in changes.items() if isinstance(v, dict)}
    return {**settings, **changes, **inner}
