"""An item in DynamoDB that refuses a late writer."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from interlock.fencing import StaleTokenError


def write(table: Any, key: str, text: str, token: int) -> None:
    """Put *text* into the item *key*, unless a newer hold has written there.

    Args:
        table: of ``boto3.resource("dynamodb")``, whose partition key is called ``id``.
        key: the item.
        text: its new text.
        token: of the hold.

    Raises:
        StaleTokenError: a newer hold has written; nothing was changed.
    """
    try:
        table.put_item(
            Item={"id": key, "text": text, "token": token},
            ConditionExpression="attribute_not_exists(id) OR #token <= :token",
            ExpressionAttributeNames={"#token": "token"},
            ExpressionAttributeValues={":token": token},
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
        raise StaleTokenError(f"token {token} is too old for {key!r}", token=token) from error
