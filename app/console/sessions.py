"""What a browser carries: a sealed cookie that holds a caller's token, or the principal that it acts as."""

import hashlib
import hmac
import time
from base64 import urlsafe_b64encode
from secrets import token_urlsafe

import msgspec
from cryptography.fernet import Fernet, InvalidToken

COOKIE = "klamm_session"
SECURE_COOKIE = f"__Host-{COOKIE}"
"""Over TLS: browsers take a cookie of that name from this host only, and send it over TLS only."""
LIFETIME_S = 8 * 3600
MAX_COOKIE_BYTES = 4_000
"""Browsers drop cookies of more than 4,096 bytes, name and attributes included."""


class Session(msgspec.Struct, frozen=True):
    id: str
    token: str | None = None
    """The caller's bearer token; None: nobody has signed in."""
    acts_as: str | None = None
    """The principal that was chosen; only where no callers are configured."""
    began_at: float = 0.0

    @staticmethod
    def new(token: str | None = None, acts_as: str | None = None) -> "Session":
        return Session(token_urlsafe(18), token, acts_as, time.time())

    @property
    def is_somebodys(self) -> bool:
        return self.token is not None or self.acts_as is not None


class Seal:
    """Seals sessions with a key that all workers of one service share, and that is gone with it.

    INVARIANT: nothing of a session is kept here. Its token is checked anew with each request, so a session ends with
    its token. What is kept is which sessions were ended by signing out (`process.ended_sessions`).
    """

    def __init__(self, key: bytes, *, is_behind_tls: bool = False) -> None:
        """`key` is 32 random bytes. `is_behind_tls`: browsers come by TLS that something in front ends."""
        self.is_behind_tls = is_behind_tls
        self._fernet = Fernet(urlsafe_b64encode(key))
        self._forms = hashlib.sha256(b"klamm console forms" + key).digest()

    def sealed(self, session: Session) -> str:
        return self._fernet.encrypt(msgspec.json.encode(session)).decode()

    def opened(self, cookie: str | None) -> Session | None:
        """None for a cookie that is missing, forged, expired, or from before a restart."""
        if not cookie:
            return None
        try:
            return msgspec.json.decode(self._fernet.decrypt(cookie.encode(), ttl=LIFETIME_S), type=Session)
        except (InvalidToken, msgspec.MsgspecError, UnicodeError):
            return None

    def form_token(self, session: Session) -> str:
        """The text that each form carries, and that no other site can know."""
        return hmac.new(self._forms, session.id.encode(), hashlib.sha256).hexdigest()

    def is_form_token(self, token: str, session: Session) -> bool:
        return hmac.compare_digest(token.encode(), self.form_token(session).encode())
