"""A browser without a screen: it keeps its cookies, follows redirects, and fills in the forms that it is shown."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from types import MappingProxyType

import httpx
from starlette.types import ASGIApp

KEY = bytes(range(32))


class Form:
    def __init__(self, action: str, method: str) -> None:
        self.action = action
        self.method = method
        self.fields: dict[str, str] = {}
        self.button = ""


class Seen(HTMLParser):
    """A page: its text, its elements, and its forms by the word on their button."""

    def __init__(self, reply: httpx.Response) -> None:
        super().__init__()
        self.reply = reply
        self.text = ""
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.forms: list[Form] = []
        self._open: list[str] = []
        self.feed(reply.text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.elements.append((tag, found))
        if tag == "form":
            self.forms.append(Form(found["action"], found["method"]))
            self._open.append(tag)
        elif tag in ("input", "textarea") and self._open and "name" in found:
            self.forms[-1].fields[found["name"]] = found.get("value", "")
        elif tag == "button" and self._open:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open and self._open[-1] == "button":
            self.forms[-1].button += data.strip()

    def form(self, button: str) -> Form:
        return next(each for each in self.forms if each.button == button)

    @property
    def buttons(self) -> list[str]:
        return [each.button for each in self.forms]


class Browser:
    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def go(self, path: str, status: int = 200) -> Seen:
        reply = await self.client.get(path, follow_redirects=True)
        assert reply.status_code == status, reply.text
        return Seen(reply)

    async def send(
        self, form: Form, status: int = 200, fields: Mapping[str, str] = MappingProxyType({}), **more: str
    ) -> Seen:
        data = {**form.fields, **fields, **more}
        reply = await self.client.post(form.action, data=data, follow_redirects=True)
        assert reply.status_code == status, reply.text
        return Seen(reply)


@asynccontextmanager
async def browsing(app: ASGIApp, host: str = "localhost:8080") -> AsyncIterator[Browser]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {"sec-fetch-site": "same-origin", "origin": f"http://{host}"}
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers) as client:
        yield Browser(client)
