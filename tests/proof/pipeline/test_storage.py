"""Small facts in a home: written, found again, and looked for once a run."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from app.pipeline.spark import storage
from app.pipeline.spark.storage import Home, listed_once, read_documents, remove, write_document


def test_documents_are_listed_once_and_known_as_they_change(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(str(tmp_path / "a home"))
    every, first = home.room("job", "n=*", "manifest"), home.room("job", "n=1", "manifest")
    looked: list[str] = []
    real = storage.existing

    def look(spark: SparkSession, path: str, kind: str = "parquet") -> DataFrame | None:
        looked.append(path)
        return real(spark, path, kind)

    monkeypatch.setattr(storage, "existing", look)

    def numbers() -> list[int]:
        return sorted(document["number"] for document in read_documents(spark, every))

    with listed_once():
        assert numbers() == []
        write_document(spark, first, {"number": 1})
        write_document(spark, home.room("other", "n=1", "manifest"), {"number": 9})
        assert (numbers(), looked) == ([1], [every])
    with listed_once():
        assert numbers() == [1]
        write_document(spark, first, {"number": 2})
        write_document(spark, home.room("job", "n=3", "manifest"), {"number": 3})
        assert numbers() == [2, 3]
        remove(spark, home.room("job", "n=3", "manifest"))
        assert (numbers(), looked) == ([2], [every] * 2)
    # Outside of a run nothing is remembered.
    assert (numbers(), numbers(), looked) == ([2], [2], [every] * 4)
