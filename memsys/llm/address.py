"""Where an endpoint is and with which key: the key is read when needed, and shown nowhere."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from memsys.errors import UserError

OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True)
class Address:
    """A base URL and the name of the variable that holds its key."""

    url: str
    key_name: str

    @classmethod
    def of(cls, base_url: str | None, key_name: str) -> Address:
        """`None` is `OPENAI_BASE_URL`, or OpenAI itself."""
        url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
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

        key = os.environ.get(self.key_name) or dotenv_values(".env").get(self.key_name)
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
