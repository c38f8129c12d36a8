import pytest

from headtune.search.urls import scrubbed, shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:///a/b@c.db", "sqlite:///a/b@c.db"),
        ("postgresql://ann:secret@host:5432/db", "postgresql://ann:***@host:5432/db"),
        ("postgresql://ann:se@cr/et:x@host/db", "postgresql://ann:***@host/db"),
        ("postgresql://ann@host/db", "postgresql://ann@host/db"),
        ("postgresql://host/db?user=ann&password=secret&x=1", "postgresql://host/db?user=ann&password=***&x=1"),
        ("mysql+pymysql://host/db?sslPassword=secret", "mysql+pymysql://host/db?sslPassword=***"),
    ],
)
def test_a_password_is_never_shown(url: str, expected: str) -> None:
    assert shown(url) == expected
    assert "secret" not in shown(url)


def test_a_password_is_taken_out_of_any_text() -> None:
    text = "no entry for ann with secret at host"
    assert scrubbed(text, "postgresql://ann:secret@host/db") == "no entry for ann with *** at host"
    assert scrubbed(text, "postgresql://host/db?password=secret") == "no entry for ann with *** at host"
    assert scrubbed(text, "postgresql://ann:@host/db?password=") == text
