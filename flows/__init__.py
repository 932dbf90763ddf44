"""Prefect flows around the stages of `dvc.yaml`: when they run, and what people see of them."""

import mrtpo  # noqa: F401 - before Prefect: it switches analytics off
