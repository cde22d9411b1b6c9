"""Config folders of other packages: a system that lives elsewhere is found like our own.

A package says so by an entry point in the group `memsys.configs` whose value is the package's
name; its `configs/` folder then joins the search path behind ours, so that it can add configs
and never replace one. Nothing is imported before a config is used.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from memsys.errors import UserError

GROUP = "memsys.configs"
OURS = Path(__file__).resolve().parent.parent / "configs"


@cache
def outside_folders() -> dict[str, Path]:
    """Return the config folders that installed packages offer, by package.

    Raises `UserError` for a package that offers one and has none.
    """
    found: dict[str, Path] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, p.value)):
        spec = find_spec(point.value)
        places = [Path(p) for p in (spec.submodule_search_locations or ())] if spec else []
        folders = [place / "configs" for place in places if (place / "configs").is_dir()]
        if not folders:
            raise UserError(
                f"The package '{point.value}' says that it brings configs (entry point "
                f"'{point.name}' of {GROUP}), but has no folder 'configs': mend or uninstall it."
            )
        found[point.value] = folders[0]
    return found


def config_names(group: str) -> list[str]:
    """Return the names of all configs of a group, ours and those of other packages."""
    folders = (OURS, *outside_folders().values())
    return sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})
