"""Lists of resources for `effective`: names are kept to the character, and what is wrong is named."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.pipeline.access.resources import read_resources
from app.pipeline.spark.errors import PipelineError

HEADER = "resource_type,resource_name\n"
JSON = '{"resource_type": "TOPIC", "resource_name": "a"}'


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet"])
def test_names_of_resources_are_kept_to_the_character(spark: SparkSession, tmp_path: Path, extension: str) -> None:
    names = [" a ", "a,b", 'q"uo"te', "two\nlines", "back\\slash\\", "😀é", "#x", "a"]
    path = tmp_path / f"list.{extension}"
    rows = [("TOPIC", name) for name in (*names, "a")]
    if extension == "csv":
        quoted = ['TOPIC,"' + name.replace('"', '""') + '"' for _, name in rows]
        path.write_text(HEADER + "\r\n".join(quoted) + "\r\nGROUP,unquoted\r\n", newline="")
    elif extension == "jsonl":
        path.write_text("".join(json.dumps({"resource_name": n, "resource_type": t}) + "\n" for t, n in rows))
    else:
        spark.createDataFrame(rows, "resource_type string, resource_name string").write.parquet(str(path))
    found = {tuple(row) for row in read_resources(spark, str(path)).collect()}
    assert found - {("GROUP", "unquoted")} == {("TOPIC", name) for name in names}


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("list.xml", "", "unknown format of a resource list; known are .csv"),
        ("list.csv", "type,resource_name\nTOPIC,a\n", "no column `resource_type`; its columns are type, resource_name"),
        ("list.csv", HEADER + "TOPIC,a\nTOPICS,b\n", "unknown resource type in `TOPICS,b`, known are TOPIC, GROUP"),
        ("list.csv", HEADER + "TOPIC,a,b\n", "the row does not match the columns: `TOPIC,a,b`"),
        ("list.csv", HEADER + "TOPIC,\n", "no `resource_name` in `TOPIC"),
        (
            "list.jsonl",
            '{"resource_type": "TOPIC", "resource_name": "a"}\n{"resource',
            'does not match .*: `{"resource`',
        ),
        ("list.jsonl", '{"resource_type": "TOPIC", "resource_name": 5}\n', "does not match .*: 5}`"),
        ("list.jsonl", '{"resource_type": "TOPIC", "resource_name": "\\ud800"}\n', "does not match .*ud800"),
        ("list.jsonl", JSON + " " + JSON, "does not match the columns"),
        ("list.jsonl", JSON[:-1] + ', "resource_name": "b"}', "does not match the columns"),
        ("list.csv", HEADER + 'TOPIC,"a\nTOPIC,b\n', "unclosed quote"),
        ("list.csv", HEADER + "TOPIC,a\nTOPIC,b\udcff\n", "not UTF-8: `TOPIC,b\ufffd`"),
        ("list.txt", "a\nb\udcff\n", "not UTF-8: `b\ufffd`"),
        ("_list.txt", "a\n", "Spark ignores files whose names begin with `_`"),
        (".list.jsonl.gz", "", "Spark ignores"),
        ("list.jsonl", '{"resource_type": "TOPIC"}\n', "no `resource_name` in `TOPIC`"),
        ("list.jsonl", '{"resource_type": "ANY", "resource_name": "a"}\n', "unknown resource type in `ANY,a`"),
        ("list.parquet", "no parquet", "can't be read as parquet"),
        ("missing.csv", None, "there is no such file or folder"),
    ],
)
def test_a_bad_list_of_resources_names_the_row_or_column(
    spark: SparkSession, tmp_path: Path, file: str, content: str | None, text: str
) -> None:
    path = tmp_path / file
    if content is not None:
        path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(PipelineError, match=text):
        read_resources(spark, str(path))
