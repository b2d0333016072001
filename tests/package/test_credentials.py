"""The credentials in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock import ConfigError, FileCredentials


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("secret\n", ("", "secret", 1.0)),
        ("secret", ("", "secret", 1.0)),
        ("app\nsecret\n", ("app", "secret", 1.0)),
        ("app\r\nse cret:\r\n", ("app", "se cret:", 1.0)),
    ],
)
def test_a_file_has_a_password_and_perhaps_a_user(
    tmp_path: Path, text: str, answer: tuple[str, str, float]
) -> None:
    """One line is a password, two are a user and a password; nothing else is cut off."""
    (tmp_path / "file").write_bytes(text.encode())
    assert FileCredentials(tmp_path / "file").get_credentials() == answer


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it has 0"),
        (b"a\nb\nc\n", "it has 3"),
        (b"\nb\n", "must have one line"),
        (b"\xff", "not UTF-8"),
        (None, "No such file"),
    ],
)
def test_a_file_without_credentials_is_told(tmp_path: Path, data: bytes | None, says: str) -> None:
    """The error names the file, and says what is wrong, without anything of its content."""
    file = tmp_path / "file"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(ConfigError, match=says) as caught:
        FileCredentials(file).get_credentials()
    assert str(file) in str(caught.value)
