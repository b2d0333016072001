"""An object in S3 that refuses a late writer, by conditional writes.

S3 has no "if the token is larger". So the writer reads the object's token and its ETag, compares
the token, and writes on the condition that the ETag is still the same. If another writer came in
between, S3 answers 412 (or 409, if both write at once). Then the token is compared again.
"""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from interlock.fencing import StaleTokenError

_AGAIN = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
_MISSING = {"404", "NoSuchKey", "NotFound"}
TRIES = 10


def write(s3: Any, bucket: str, key: str, body: bytes, token: int) -> None:
    """Put *body*, unless a newer hold has written *key*.

    Raises:
        StaleTokenError: a newer hold has written; nothing was changed.
        TimeoutError: other writers came in between ten times.
    """
    for _ in range(TRIES):
        condition = _condition(s3, bucket, key, token)
        try:
            s3.put_object(
                Bucket=bucket, Key=key, Body=body, Metadata={"token": str(token)}, **condition
            )
        except ClientError as error:
            if error.response["Error"]["Code"] not in _AGAIN:
                raise
        else:
            return
    raise TimeoutError(f"{key!r} is being written by others all the time")


def _condition(s3: Any, bucket: str, key: str, token: int) -> dict[str, str]:
    """Return the condition of a put: the object is still as it is now."""
    try:
        head = s3.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] not in _MISSING:
            raise
        return {"IfNoneMatch": "*"}
    newest = int(head["Metadata"].get("token", 0))
    if token < newest:
        raise StaleTokenError(f"token {token} is too old", token=token, newest=newest)
    return {"IfMatch": head["ETag"]}
