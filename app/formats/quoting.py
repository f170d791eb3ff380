"""Texts in double quotes, as JSON, YAML and HCL have them: on one line, and doing nothing to a terminal."""

import json

_BMP = 0xFFFF


def json_quoted(text: str) -> str:
    """The text as a JSON string; astral characters that no screen shows come as a pair of surrogates."""
    return _quoted(text, pairs=True)


def wide_quoted(text: str) -> str:
    r"""The text as a YAML or HCL string without templates; astral characters may come as `\UXXXXXXXX`."""
    return _quoted(text, pairs=False)


def _quoted(text: str, *, pairs: bool) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join([_character(each, pairs=pairs) for each in text])}"'


def _character(each: str, *, pairs: bool) -> str:
    if each in '"\\':
        return f"\\{each}"
    if each.isprintable():
        return each
    code = ord(each)
    if code <= _BMP:
        return f"\\u{code:04x}"
    return json.dumps(each)[1:-1] if pairs else f"\\U{code:08x}"
