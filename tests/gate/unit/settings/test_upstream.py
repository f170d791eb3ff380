"""Which addresses a follower may be given, and what each refusal says."""

import re

import pytest

from app.settings.upstream import check_upstream, unprotected, upstream_urls


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("https://klamm.internal", ("https://klamm.internal",)),
        ("http://10.0.0.1:8080/", ("http://10.0.0.1:8080",)),
        ("https://KLAMM.internal:8443", ("https://klamm.internal:8443",)),
        ("https://[2001:db8::1]:8443", ("https://[2001:db8::1]:8443",)),
        (" http://a, http://b\nhttp://c,", ("http://a", "http://b", "http://c")),
        (["http://a", "http://b"], ("http://a", "http://b")),
    ],
)
def test_addresses_are_taken_in_order_and_in_one_spelling(given: object, meant: tuple[str, ...]) -> None:
    assert upstream_urls(given) == meant


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "is empty; leave it out"),
        (" , ", "is empty; leave it out"),
        ([], "is empty; leave it out"),
        (5, "expected https://host:port, such as https://klamm.internal, or a list of them"),
        (["http://a", 5], "or a list of them"),
        ("klamm.internal", "`klamm.internal` is not an address; expected https://host:port"),
        ("klamm.internal:8080", "`klamm.internal:8080` is not an address"),
        ("ftp://klamm", "`ftp://klamm` is not an address"),
        ("http://", "`http://` is not an address"),
        ("http://klamm:0", "`http://klamm:0` is not an address"),
        ("http://klamm:65536", "`http://klamm:65536` is not an address"),
        ("http://klamm:x", "`http://klamm:x` is not an address"),
        ("http://[::1", "is not an address"),
        ("http://klamm/v1", "`http://klamm/v1` has something after the host"),
        ("http://klamm?at=1", "has something after the host"),
        ("http://klamm#a", "has something after the host"),
        ("http://a http://a/", "names an address twice"),
        (" ".join(f"http://h{number}" for number in range(17)), "holds 17 addresses, but may hold at most 16"),
    ],
)
def test_what_is_no_address_is_refused_with_the_way_out(given: object, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        upstream_urls(given)


@pytest.mark.parametrize("url", ["http://klamm:planted-8@host", "http://planted-8@host", "http://host/@planted-8"])
def test_a_password_is_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match=r"put a token into `upstream\.token\.file`") as refused:
        upstream_urls(url)
    assert "planted-8" not in str(refused.value)


def test_only_addresses_beyond_this_machine_want_tls() -> None:
    urls = ["http://127.0.0.1:1", "http://[::1]:1", "https://klamm", "http://klamm", "http://10.0.0.1"]
    assert unprotected(urls) == ["http://klamm", "http://10.0.0.1"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"upstream_token_file": "t"}, "`upstream.token.file` is for a follower; set `upstream.urls`"),
        ({"upstream_urls": ("http://a",), "data_dir": "d"}, "`upstream.urls` and `data.dir` don't go together"),
        ({"upstream_urls": ("http://a",), "cluster_id": "c"}, "`upstream.urls` and `cluster.id` don't go together"),
        ({"upstream_urls": ("http://a",), "upstream_key": "k"}, "give both or neither"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        check_upstream(given)


def test_a_follower_with_a_certificate_and_its_key_is_let_be() -> None:
    check_upstream({"upstream_urls": ("http://a",), "upstream_certificate": "c", "upstream_key": "k"})
    check_upstream({"port": 8080})
