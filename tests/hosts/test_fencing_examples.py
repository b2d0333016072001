"""The programs of examples/fencing, each on the resource that it is about."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.program import run

from interlock.fencing import StaleTokenError

EXAMPLES = Path(__file__).parents[2] / "examples/fencing"
REGION = "eu-west-1"

DJANGO = """
import sys
import django
from django.conf import settings
database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(DATABASES={"default": database})
django.setup()
sys.path.insert(0, sys.argv[1])
from django.db import connection
from interlock.fencing import StaleTokenError
from django_model import Report
with connection.schema_editor() as editor:
    editor.create_model(Report)
Report.objects.create(id=7, text="blank")
row = Report.objects.filter(id=7)
row.write(2, text="second")
row.write(2, text="second again")
try:
    row.write(1, text="late")
except StaleTokenError as error:
    assert error.token == 1
else:
    raise SystemExit("a late writer was let in")
assert Report.objects.get(id=7).text == "second again"
print("refused")
"""


class Resource:
    """One resource: how to write it under a token, and how to read it."""

    def __init__(self, write: Callable[[str, int], None], read: Callable[[], str]) -> None:
        self.write, self.read = write, read


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fencing_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and SQLAlchemy look names up there
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def postgres(_: Path) -> Iterator[Resource]:
    import psycopg  # here and below: all of them take long to import
    from tests.fencing.postgres import PostgresServer

    ours = example("postgres")
    with PostgresServer() as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(ours.TABLE)

        def read() -> str:
            found = connection.execute("SELECT text FROM report WHERE id = 7").fetchone()
            return "" if found is None else str(found[0])

        yield Resource(lambda text, token: ours.write(connection, 7, text, token), read)


@contextlib.contextmanager
def sqlalchemy_model(where: Path) -> Iterator[Resource]:
    """Give a row behind a SQLAlchemy model."""
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    ours = example("sqlalchemy_model")
    engine = create_engine(f"sqlite:///{where / 'reports.sqlite'}")
    ours.Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(ours.Report(id=7, text="blank", token=0))
        session.commit()

    def write(text: str, token: int) -> None:
        with Session(engine) as session, session.begin():
            ours.write(session, 7, text, token)

    def read() -> str:
        with Session(engine) as session:
            return str(session.get_one(ours.Report, 7).text)

    yield Resource(write, read)
    engine.dispose()


@contextlib.contextmanager
def s3(_: Path) -> Iterator[Resource]:
    """Give an object in moto's S3."""
    import boto3
    import moto

    ours = example("s3")
    with moto.mock_aws():
        client = boto3.client("s3", region_name=REGION)
        client.create_bucket(
            Bucket="reports", CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        yield Resource(
            lambda text, token: ours.write(client, "reports", "daily", text.encode(), token),
            lambda: client.get_object(Bucket="reports", Key="daily")["Body"].read().decode(),
        )


@contextlib.contextmanager
def dynamodb(_: Path) -> Iterator[Resource]:
    """Give an item in moto's DynamoDB."""
    import boto3
    import moto

    ours = example("dynamodb")
    with moto.mock_aws():
        table = boto3.resource("dynamodb", region_name=REGION).create_table(
            TableName="reports",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield Resource(
            lambda text, token: ours.write(table, "daily", text, token),
            lambda: str(table.get_item(Key={"id": "daily"})["Item"]["text"]),
        )


@contextlib.contextmanager
def http_service(_: Path) -> Iterator[Resource]:
    from starlette.testclient import TestClient

    with TestClient(example("http_service").app) as http:

        def write(text: str, token: int) -> None:
            answer = http.put(
                "/reports/daily", params={"text": text}, headers={"Fencing-Token": str(token)}
            )
            if answer.status_code == 409:
                raise StaleTokenError(answer.text, token=token)
            answer.raise_for_status()

        yield Resource(write, lambda: str(http.get("/reports/daily").json()))


@contextlib.contextmanager
def local_file(where: Path) -> Iterator[Resource]:
    ours = example("local_file")
    path = where / "report.txt"
    yield Resource(lambda text, token: ours.write(path, text, token), lambda: ours.read(path))


RESOURCES = [postgres, sqlalchemy_model, s3, dynamodb, http_service, local_file]


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give moto's clients what they ask for."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")


@pytest.fixture(params=RESOURCES, ids=lambda resource: resource.__name__)
def resource(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Resource]:
    with request.param(tmp_path) as given:
        yield given


def test_a_late_writer_is_refused(resource: Resource) -> None:
    """A token below the largest one changes nothing; the same token may write again."""
    resource.write("first", 1)
    resource.write("third", 3)
    resource.write("third again", 3)
    with pytest.raises(StaleTokenError):
        resource.write("late", 2)
    assert resource.read() == "third again"


def test_a_writer_between_look_and_put_is_not_overwritten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In S3, a newer write between the look and the put refuses the older one."""
    import boto3

    ours = example("s3")
    with s3(tmp_path) as resource:
        resource.write("first", 1)
        client: Any = boto3.client("s3", region_name=REGION)
        head = client.head_object

        def overtaken(**where: str) -> Any:
            found = head(**where)
            monkeypatch.setattr(client, "head_object", head)
            resource.write("third", 3)
            return found

        monkeypatch.setattr(client, "head_object", overtaken)
        with pytest.raises(StaleTokenError):
            ours.write(client, "reports", "daily", b"second", 2)
        assert resource.read() == "third"


def test_a_late_writer_of_a_django_model_is_refused() -> None:
    """A Django model writes in one UPDATE, which a late token does not match."""
    done = run(sys.executable, "-c", DJANGO, EXAMPLES)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
