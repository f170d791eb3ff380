"""What of a published set of keys is good for checking signatures."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import RSAAlgorithm

from app.rest.callers.signing_keys import ALGORITHMS, KeySetError, SigningKeys, read_key_set
from tests.issuers import Json, Key, key_set

EC = Key("ec", "ES256")
OTHER_EC = Key("other", "ES256")
RSA = Key("rsa", "RS256")
ED = Key("ed", "EdDSA")


def read(*keys: Key | Json) -> SigningKeys:
    return read_key_set(key_set(*keys))


def test_an_rsa_key_fits_all_rsa_algorithms_and_no_other(subtests: pytest.Subtests) -> None:
    for algorithm in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]:
        with subtests.test(algorithm=algorithm):
            keys = read(RSA)
            assert keys.find("rsa", algorithm) == RSA.private.public_key()
            assert [each for each in ALGORITHMS if keys.find("rsa", each) is not None] == [
                *("RS256", "RS384", "RS512"),
                *("PS256", "PS384", "PS512"),
            ]


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES512", "EdDSA"])
def test_a_key_on_a_curve_fits_its_own_algorithm_only(algorithm: str) -> None:
    keys = read(Key("k", algorithm))
    assert [each for each in ALGORITHMS if keys.find("k", each) is not None] == [algorithm]


def test_no_key_fits_what_is_no_asymmetric_algorithm(subtests: pytest.Subtests) -> None:
    for algorithm in ["HS256", "HS384", "HS512", "none", "", "RSA", "rs256"]:
        with subtests.test(algorithm=algorithm):
            assert read(RSA, EC).find("rsa", algorithm) is None


def test_a_name_must_be_exact() -> None:
    assert [read(EC).find(kid, "ES256") for kid in ("EC", "ec ", "", "e", "ecx")] == [None] * 5


def test_without_a_name_the_only_key_that_fits_is_taken() -> None:
    assert read(EC, RSA).find(None, "ES256") == EC.private.public_key()


def test_without_a_name_two_keys_that_fit_are_none() -> None:
    assert read(EC, OTHER_EC).find(None, "ES256") is None


def test_two_different_keys_of_one_name_are_none_unless_only_one_fits() -> None:
    keys = read(EC, {**OTHER_EC.jwk(), "kid": "ec"}, {**RSA.jwk(), "kid": "ec"})
    assert keys.find("ec", "ES256") is None
    assert keys.find("ec", "RS256") == RSA.private.public_key()


def test_the_same_key_twice_is_one() -> None:
    assert read(EC, EC, EC.jwk(alg="ES256")).find("ec", "ES256") == EC.private.public_key()


def test_a_key_that_names_its_algorithm_is_for_no_other() -> None:
    keys = read(RSA.jwk(alg="RS512"))
    assert keys.find("rsa", "RS256") is None
    assert keys.find("rsa", "RS512") is not None


PRIVATE_RSA = RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, 2048), as_dict=True)
SMALL_RSA = RSAAlgorithm.to_jwk(
    rsa.generate_private_key(65537, 1024).public_key(),  # noqa: S505 - what must be refused
    as_dict=True,
)


def test_what_is_no_public_signing_key_is_ignored_and_its_neighbours_are_not(subtests: pytest.Subtests) -> None:
    cases: Iterable[tuple[Any, str]] = [
        ({"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0", "kid": "x"}, "symmetric"),
        ({"kty": "oct", "k": "c2VjcmV0", "kid": "x", "alg": "HS256"}, "symmetric"),
        ({**PRIVATE_RSA, "kid": "x", "key_ops": ["verify"]}, "private"),
        (EC.jwk(d="AAAA"), "private"),
        (EC.jwk(use="enc"), "not_for_signatures"),
        (EC.jwk(use=7), "not_for_signatures"),
        (EC.jwk(key_ops=["sign"]), "not_for_signatures"),
        (EC.jwk(key_ops="verify"), "not_for_signatures"),
        (EC.jwk(alg="HS256"), "unsupported"),
        (EC.jwk(alg="none"), "unsupported"),
        (EC.jwk(alg="ES384"), "unsupported"),
        (EC.jwk(alg="RS256"), "unsupported"),
        (EC.jwk(crv="secp256k1"), "unsupported"),
        (EC.jwk(crv=["P-256"]), "unsupported"),
        ({"kty": "XYZ", "kid": "x"}, "unsupported"),
        ({"kid": "x"}, "unsupported"),
        (EC.jwk(kid=7), "malformed"),
        (EC.jwk(alg=["ES256"]), "malformed"),
        (EC.jwk(x="!!"), "malformed"),
        (EC.jwk(x="AAAA"), "malformed"),
        (EC.jwk(kty="OKP"), "malformed"),
        (RSA.jwk(n=7), "malformed"),
        (RSA.jwk(e="AQ"), "malformed"),
        (RSA.jwk(n=None), "malformed"),
        ({**SMALL_RSA, "kid": "x", "key_ops": ["verify"]}, "rsa_size"),
        ([], "malformed"),
        ("key", "malformed"),
    ]
    for entry, why in cases:
        with subtests.test(entry=entry, why=why):
            keys = read(entry, ED)
            assert [key.kid for key in keys.keys] == ["ed"]
            assert keys.ignored == {why: 1}


def test_what_is_no_set_of_keys_is_refused(subtests: pytest.Subtests) -> None:
    for document, why in [
        (b"", "not JSON"),
        (b"<html>", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b"[]", "the list `keys` is missing"),
        (b"{}", "the list `keys` is missing"),
        (b"null", "the list `keys` is missing"),
        (b'{"keys": {}}', "the list `keys` is missing"),
        (b'{"keys": null}', "the list `keys` is missing"),
        (json.dumps({"keys": [EC.jwk(kid=str(n)) for n in range(65)]}).encode(), "65 keys; at most 64"),
    ]:
        with subtests.test(document=document, why=why), pytest.raises(KeySetError, match=why):
            read_key_set(document)


def test_sixty_four_keys_are_read_and_an_empty_set_is_a_set() -> None:
    assert len(read(*(EC.jwk(kid=str(n)) for n in range(64))).keys) == 64
    assert read().keys == frozenset()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_MEMBERS = st.sampled_from(["kty", "crv", "x", "y", "n", "e", "kid", "alg", "use", "key_ops"])


@given(st.sampled_from([EC, RSA, ED]), st.dictionaries(_MEMBERS, _JSON, max_size=4))
def test_whatever_a_key_says_it_is_read_or_ignored(key: Key, members: Json) -> None:
    keys = read_key_set(json.dumps({"keys": [{**key.jwk(), **members}]}).encode())
    assert len(keys.keys) + sum(keys.ignored.values()) == 1
