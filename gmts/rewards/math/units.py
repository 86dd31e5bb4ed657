r"""Units, currencies, percent and degrees around a number."""

import re

DEGREE, PERCENT = "degree", "percent"

_NAMES = {
    "centimeter": "cm", "centimetre": "cm", "millimeter": "mm", "millimetre": "mm", "meter": "m",
    "metre": "m", "kilometer": "km", "kilometre": "km", "inch": "in", "inche": "in",
    "foot": "ft", "feet": "ft", "mile": "mi", "yard": "yd", "gram": "g", "kilogram": "kg",
    "hour": "h", "hr": "h", "minute": "min", "second": "s", "sec": "s", "liter": "l", "litre": "l",
    "dollar": "dollar", "usd": "dollar", "cent": "cent", "euro": "euro", "pound": "pound",
    "degree": DEGREE, "deg": DEGREE, "percent": PERCENT, "percentage": PERCENT, "radian": "",
    "rad": "", "kph": "km/h", "kmh": "km/h", "mph": "mi/h", "unit": "unit", "day": "day",
    "year": "year", "week": "week", "month": "month", "time": "time", "people": "people",
    "cm": "cm", "mm": "mm", "km": "km", "ft": "ft", "kg": "kg", "mg": "mg", "yd": "yd",
    "min": "min", "ml": "ml", "point": "point", "student": "student",
}  # fmt: skip
"""Singular, lower case -> our name; other words name themselves."""

_WRAPPED = r"\\(?:text|mathrm)\s*\{\s*(?:[^{}\d=()]*)\}"
_POWER = r"(?:\s*\^\s*(?:\{\s*-?\d\s*\}|\d))?"
_PER = r"(?:\s*(?:/|\\cdot|\\times)?\s*)"
_TAIL = re.compile(rf"^(?P<number>.*?)(?P<unit>(?:{_PER}{_WRAPPED}{_POWER})+)$", re.DOTALL)
_BARE = re.compile(
    rf"^(?P<number>.*[\d}})!])\s*(?P<unit>(?:(?:{'|'.join(sorted(_NAMES, key=len, reverse=True))})"
    rf"(?:e?s)?(?![A-Za-z]){_POWER}(?:\s*/\s*(?=[A-Za-z]))?(?:\s*per\s+)?[a-z]*)+)$",
    re.IGNORECASE,
)
_MARK = re.compile(
    r"^(?P<number>.*\S)\s*(?P<mark>\\%|\^\s*\{?\s*\\circ\s*\}?)\s*"
    r"(?P<scale>(?:\\(?:text|mathrm)\s*\{\s*[CFK]\s*\}|[CFK])?)$",
    re.DOTALL,
)
_CURRENCY = re.compile(
    r"^(?P<sign>-?)\s*\\\$\s*(?P<number>.+)$|^(?P<before>.+?)\s*\\\$$", re.DOTALL
)
_CONSTANT = re.compile(r"\\mathrm\s*\{\s*(?:e|i|d)\s*\}$")


def take_unit(text: str) -> tuple[str, str]:
    """Return the text without its unit, and the unit, empty if there is none."""
    if match := _CURRENCY.match(text):
        number = match.group("before") or match.group("sign") + match.group("number")
        rest, unit = take_unit(number)
        return rest, "dollar" if unit in ("", "dollar") else f"dollar {unit}"
    if match := _MARK.match(text):
        scale = re.sub(r"\\(?:text|mathrm)|[{}\s]", "", match.group("scale")).lower()
        unit = PERCENT if match.group("mark") == r"\%" else f"{DEGREE}{scale}"
        return match.group("number"), unit
    match = _TAIL.match(text) or _BARE.match(text)
    if match is None or not match.group("number").strip() or _CONSTANT.search(text):
        return text, ""
    if match.group("number").rstrip()[-1] in "_^\\+-*/=([{":
        return text, ""
    return match.group("number").strip(), _name(match.group("unit"))


def _name(text: str) -> str:
    """Return one name per unit: 15 square inches and 15 inches^2 have the same."""
    text = re.sub(r"\\(?:text|mathrm)|[{}]|\\cdot|\\times", " ", text)
    text = re.sub(r"\bper\b", "/", text, flags=re.IGNORECASE)
    words, exponent, name = re.findall(r"[^\W\d_]+|/|\^\s*-?\d", text), "", ""
    for word in words:
        lower = word.lower()
        if lower in ("square", "sq", "cubic", "cu"):
            exponent = "^2" if lower.startswith("s") else "^3"
            continue
        if word[0] in "/^":
            name += word.replace(" ", "")
            continue
        singular = lower[:-1] if lower.endswith("s") and len(lower) > 2 else lower
        known = _NAMES.get(lower, _NAMES.get(singular, singular))
        separator = " " if name and name[-1] != "/" else ""
        name, exponent = name + separator + known + exponent, ""
    return name.strip()
