"""Where an endpoint is and with which key: the key is read when needed, and shown nowhere."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from memsys.errors import UserError

OPENAI = "https://api.openai.com/v1"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True)
class Address:
    """A base URL and the name of the variable that holds its key."""

    url: str
    key_name: str

    @classmethod
    def of(cls, base_url: str | None, key_name: str) -> Address:
        """`None` is `OPENAI_BASE_URL`, or OpenAI itself.

        Raises `UserError` for what would put a key into configurations and manifests.
        """
        url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError("base_url must be an address such as http://localhost:8000/v1.")
        if parts.username or parts.password or parts.query:
            raise UserError(
                f"base_url of the chat model at {parts.hostname} holds a user name, a password or "
                "a query. Configurations are written into results: put the key into a variable, "
                "and name that in api_key_env."
            )
        if not _VARIABLE.fullmatch(key_name) or _looks_like_a_key(key_name):
            raise UserError(
                f"api_key_env of the chat model at {parts.hostname} is no name of a variable: put "
                "the key itself into an environment variable or a file .env, and name that here."
            )
        return cls(url.rstrip("/"), key_name)

    @property
    def loopback(self) -> bool:
        """Whether the server runs on this machine."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")

    @property
    def server(self) -> str:
        """The host, as identities name it.

        All loopback addresses are one server: a port says nothing about what is served there.
        """
        return "loopback" if self.loopback else urlsplit(self.url).hostname or ""

    @property
    def shown(self) -> str:
        """The URL without a user name, password or query."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"

    def key(self) -> str:
        """Return the key, from the environment or a file `.env`; raises `UserError` without one."""
        from dotenv import dotenv_values

        key = os.environ.get(self.key_name) or dotenv_values(".env").get(self.key_name) or ""
        key = key.strip()
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise UserError(f"The key in {self.key_name} holds characters that no key has.")
        if key:
            return key
        if self.loopback:
            return "none"
        raise UserError(
            f"The chat model at {self.shown} needs a key: set the environment variable "
            f"{self.key_name}, or write it into a file .env."
        )

    def clean(self, text: str) -> str:
        """Cut a server's words to one line, without any key that they may repeat."""
        try:
            key = self.key()
        except UserError:
            key = ""
        if len(key) >= 8:
            text = text.replace(key, "[key]")
        text = re.sub(r"\b(?:sk|pk|key|org|proj)-[\w*.-]+", "[key]", text)
        return " ".join(text.split())[:300].rstrip(".")


def _looks_like_a_key(name: str) -> bool:
    return len(name) >= 20 and name != name.upper() and sum(c.isdigit() for c in name) >= 3
