"""Storage URLs as a person may see them: without their passwords."""

import re

_BEFORE_HOST = re.compile(r"(?<=://)([^:/?]*):(.*)@")
_IN_QUERY = re.compile(r"([?&][^=&]*pass(?:word|wd)[^=&]*=)([^&]*)", re.IGNORECASE)


def shown(url: str) -> str:
    """The URL without its password."""
    return _IN_QUERY.sub(r"\1***", _BEFORE_HOST.sub(r"\1:***@", url))


def scrubbed(text: str, url: str) -> str:
    """*text* without the password of *url*, wherever it stands in it."""
    for pattern in (_BEFORE_HOST, _IN_QUERY):
        for match in pattern.finditer(url):
            text = text.replace(match[2], "***") if match[2] else text
    return text
