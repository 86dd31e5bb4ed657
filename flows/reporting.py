"""What a person sees of a stage in the Prefect UI."""

from prefect.artifacts import create_table_artifact

from gmts.stages.workspace import StageResult


def publish_result(result: StageResult) -> None:
    """Record a stage's values, seconds and memory as a table artifact."""
    rows: list[dict[str, object]] = [
        {"name": "seconds", "value": result.seconds},
        {"name": "peak memory (MiB)", "value": result.peak_memory_mib},
    ]
    rows += [{"name": name, "value": str(value)} for name, value in result.values.items()]
    create_table_artifact(key=result.stage, table=rows, description=f"Result of {result.stage}")
