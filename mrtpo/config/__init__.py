"""Settings: `params.yaml`, read strictly and validated before any work.

One frozen pydantic model per section. Sections are named as the stages that read them (`data` is
what `prepare` reads; `model`, `sampling`, `rewards`, `replay` and `verifier` are shared). An
unknown key, a wrong type or an impossible combination raises `SettingsError`, which names the
file, the key and what is accepted. The same models give the Prefect form its types. What each
setting means is written under its field in `sections.py`.
"""

from mrtpo.config.folders import (
    benchmark_folder,
    data_folder,
    databases_folder,
)
from mrtpo.config.names import (
    INSTRUCT_SOURCES,
    TOOL_SOURCES,
    AverageName,
    DistanceName,
    LossName,
    MethodName,
    NormaliseName,
    RecipeName,
    SourceName,
    TaskName,
)
from mrtpo.config.reading import (
    Settings,
    SettingsError,
    load_settings,
    override,
    settings_from,
    with_overrides,
)
from mrtpo.config.sections import (
    RECIPE_WEIGHTS,
    Data,
    Model,
    Replay,
    Rewards,
    Verifier,
)

__all__ = [
    "INSTRUCT_SOURCES",
    "RECIPE_WEIGHTS",
    "TOOL_SOURCES",
    "AverageName",
    "Data",
    "DistanceName",
    "LossName",
    "MethodName",
    "Model",
    "NormaliseName",
    "RecipeName",
    "Replay",
    "Rewards",
    "Settings",
    "SettingsError",
    "SourceName",
    "TaskName",
    "Verifier",
    "benchmark_folder",
    "data_folder",
    "databases_folder",
    "load_settings",
    "override",
    "settings_from",
    "with_overrides",
]
