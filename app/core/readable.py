"""How people read names: principals, hosts, names of resources, owners, groups, actors, properties.

Whatever a person reads names them by this module: pages, commands, reports, errors. Formats that are read back, and
what programs get, keep the exact texts.
"""

import json
import re
import unicodedata
from functools import lru_cache
from itertools import groupby

from app.core.kafka.bindings import AclBinding

_PLAIN = re.compile(r"[!#$%&*+\-./:;<=>?@\[\\\]^_{|}~0-9A-Za-z]+")
"""Nothing in it could be mistaken for a part of the sentence around it."""
_ENDS_OF_NAMES = frozenset(" ,'\"`()")
_BLANKS = re.compile(" {2,}")

_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)
"""Characters that count as printable, but leave no mark: fillers, joiners, variation selectors, blanks of Braille."""

_EAST_ASIAN = "EAST ASIAN"
_SCRIPTS = {
    **dict.fromkeys(
        ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "IDEOGRAPHIC", "HANGUL", "BOPOMOFO"), _EAST_ASIAN
    ),
    **{each: each for each in ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN", "ETHIOPIC", "HEBREW", "ARABIC")},
    **{each: each for each in ("THAANA", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU")},
    **{each: each for each in ("KANNADA", "MALAYALAM", "SINHALA", "THAI", "LAO", "TIBETAN", "MYANMAR", "KHMER")},
}
"""The scripts in common use (UAX 31, table 5), by how Unicode's names of their letters begin."""
_TOGETHER = {"LATIN", _EAST_ASIAN}
_LATIN = frozenset("ßẞæÆœŒøØðþÞđĐħĦıłŁŋŊŧŦ")
"""Letters in common use that are not an ASCII letter with marks. Others (phonetic, archaic) look like one."""
_SPACING = frozenset("\u0e33\u0eb3")
"""Vowels of Thai and Lao. All other compatibility characters (full width, ligatures, bold) are look-alikes."""
_LOOK_ALIKES = frozenset(
    "аеорсухѕіјһԁԛԝѵьгзбАВЕЗКМНОРСТУХЅІЈЬҮҺԌԚԜӀӏГПФф"  # Cyrillic
    "αγινορσυκχΑΒΕΖΗΙΚΜΝΟΡΤΥΧΓΠΦφ"  # Greek
    "օսհցզոքյձՍՕԼՏՈՀ"  # Armenian
    "סוןטاهەہሀዐဝഠଠ一丨工卜丶ノー"
)
"""Letters that look like those of another script; a word of them alone looks like one in that script."""
_PALOCHKA = frozenset("\u04c0\u04cf")
"""A Cyrillic letter that looks like another Cyrillic one."""
_MOST_MARKS = 4
_MOST = 200


def readable(name: str, most: int | None = None) -> str:
    r"""The name as it is, or in quotes and with escapes where it could be taken for another name or for other text.

    `"User:shop "`, `"a\x20\x20b"`, `"User:\u0430lice"`: quotes show where it begins and ends. Escapes stand for
    consecutive blanks, for characters that can't be seen, and for letters that look like others. A name with more than
    `most` characters is cut there.
    """
    if most is not None and len(name) > most:
        return f"{readable(name[:most])}..."
    if _PLAIN.fullmatch(name):
        return name
    if name.isascii() or _ENDS_OF_NAMES.intersection(name):
        return quoted_name(name)
    return name if _seen(name) == name else quoted_name(name)


def backticked(name: str, most: int | None = None) -> str:
    r"""The name in backticks, for a sentence: `a, b`, but `"a "` and `"a\x20\x20b"` in quotes."""
    cut = name if most is None else name[:most]
    # INVARIANT: only in quotes are there escapes, as `readable` has it. Without them `\n` is the name's own text.
    is_clear = cut == cut.strip(" ") != "" and "`" not in cut and _seen(cut) == cut
    return f"`{cut if is_clear else quoted_name(cut)}{'...' if cut != name else ''}`"


def readable_acl(binding: AclBinding) -> str:
    """`ALLOW User:bob from * READ on TOPIC LITERAL orders`: the ACL on one line, for errors and warnings."""
    principal, host, name = (readable(each, _MOST) for each in (binding.principal, binding.host, binding.resource_name))
    resource = f"{binding.resource_type.name} {binding.pattern_type.name} {name}"
    return f"{binding.permission_type.name} {principal} from {host} {binding.operation.name} on {resource}"


def quoted_name(name: str) -> str:
    """The same, always in quotes."""
    return f'"{_seen(_within_quotes(name))}"'


def quoted_text(text: str) -> str:
    """A comment or other prose in quotes, on one line; only what can't be seen is escaped."""
    return f'"{visible(_within_quotes(text))}"'


def visible(text: str) -> str:
    r"""The text with escapes for what can't be seen, and for what moves a terminal's cursor: `\n`, `\x1b`, `\u200b`."""
    if text.isprintable() and (text.isascii() or _UNSEEN.search(text) is None):
        return text
    return "".join([_escaped(each) if _is_unseen(each) else each for each in text])


def _within_quotes(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _seen(name: str) -> str:
    shown = _BLANKS.sub(lambda found: r"\x20" * len(found[0]), name)
    if shown.isascii():
        return visible(shown)
    words = [(is_word, "".join(letters)) for is_word, letters in groupby(shown, _is_letter)]
    reorders = _reorders(shown)
    return "".join([_word(text, reorders=reorders) if is_word else _between(text) for is_word, text in words])


def _word(word: str, *, reorders: bool) -> str:
    if word.isascii() or not (reorders or _is_ambiguous(word)):
        return word
    return _between(word)


def _between(text: str) -> str:
    return "".join([each if _is_clear(each) else _escaped(each) for each in text])


def _escaped(character: str) -> str:
    return ascii(character)[1:-1]


def _is_unseen(character: str) -> bool:
    return not character.isprintable() or _UNSEEN.match(character) is not None


@lru_cache(maxsize=4_096)
def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LM"


def _is_clear(character: str) -> bool:
    """Whether it is ASCII, or a pictograph. All others that are no letters have look-alikes: dashes, quotes, digits."""
    return " " <= character <= "~" or (character >= "\U0001f300" and unicodedata.category(character) == "So")


def _is_ambiguous(word: str) -> bool:
    """Whether a word of letters and marks, not all ASCII, may look like another one."""
    if not unicodedata.is_normalized("NFC", word) or _has_odd_marks(word):
        return True
    scripts = {_script(each) for each in word}
    if None in scripts or (len(scripts) > 1 and not scripts <= _TOGETHER):
        return True
    return _LOOK_ALIKES.issuperset(word)


@lru_cache(maxsize=4_096)
def _script(character: str) -> str | None:
    """The script of a letter or a mark; None if it is in no common use, or looks like another of its script."""
    if character.isascii():
        return "LATIN"
    is_compatible = unicodedata.decomposition(character).startswith("<") and character not in _SPACING
    if is_compatible or _is_unseen(character) or character in _PALOCHKA:
        return None
    # A mark that forms no letter with the one before it is called COMBINING: over an `i`, a dot can't be seen.
    script = _SCRIPTS.get(unicodedata.name(character, "").partition(" ")[0])
    if script == "LATIN" and character not in _LATIN and not unicodedata.normalize("NFD", character)[0].isascii():
        return None
    return script


def _has_odd_marks(word: str) -> bool:
    """Whether marks have no letter, hide one another, or are stacked over the lines around them."""
    runs = [(is_mark, list(some)) for is_mark, some in groupby(word, _is_mark)]
    marks = [some for is_mark, some in runs if is_mark]
    return runs[0][0] or any(len(some) > _MOST_MARKS or len(set(some)) < len(some) for some in marks)


@lru_cache(maxsize=4_096)
def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"


def _reorders(name: str) -> bool:
    """Whether letters written from right to left may be shown in another order than the name has."""
    directions = [unicodedata.bidirectional(each) for each in name]
    first = next((at for at, each in enumerate(directions) if each in ("R", "AL")), None)
    return first is not None and any(each not in ("R", "AL", "NSM") for each in directions[first:])
