r"""One spelling for what LaTeX can write in many ways. Nothing here changes a value.

Texts keep their words: a wrapper such as \text{...} stays until it is known what it wraps.
"""

import re

MAX_ANSWER_CHARS = 2000
"""Longer answers are refused before they are read."""

_UNICODE = {
    "−": "-", "–": "-", "—": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∗": "*",
    "÷": "/", "±": r"\pm ", "∓": r"\mp ", "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ",
    "≠": r"\ne ", "≈": r"\approx ", "∞": r"\infty ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ",
    "°": r"^\circ ", "º": r"^\circ ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}", "√": r"\sqrt ",
    "²": "^2", "³": "^3", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}",
    "π": r"\pi ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "λ": r"\lambda ",
    "ω": r"\omega ", "φ": r"\phi ", "μ": r"\mu ", "σ": r"\sigma ", "τ": r"\tau ", "ρ": r"\rho ",
    "γ": r"\gamma ", "δ": r"\delta ", "ε": r"\epsilon ", "∖": r"\setminus ", "′": "'", "’": "'",
    "\u00a0": " ", "\u2009": " ", "，": ",", "（": "(", "）": ")", "：": ":", "%": r"\%",
    "$": r"\$", "€": r"\text{euro}", "£": r"\text{pound}",
}  # fmt: skip

_RENAMED = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom", "tbinom": "binom",
    "leq": "le", "leqslant": "le", "geq": "ge", "geqslant": "ge", "neq": "ne", "lt": "<",
    "gt": ">", "ast": "*", "div": "/", "colon": ":", "mid": "|", "vert": "|", "lvert": "|",
    "rvert": "|", "lbrace": r"\{", "rbrace": r"\}", "lbrack": "[", "rbrack": "]",
    "varnothing": "emptyset", "backslash": "setminus", "smallsetminus": "setminus",
    "mbox": "text", "textrm": "text", "textbf": "text", "textit": "text", "textsf": "text",
    "textnormal": "text", "hbox": "text", "operatorname": "mathrm", "mathbf": "mathrm",
    "mathit": "mathrm", "mathsf": "mathrm", "boldsymbol": "mathrm", "bm": "mathrm",
    "mathop": "mathrm", "degree": r"^\circ", "ldots": "dots", "cdots": "dots", "to": "rightarrow",
    "longrightarrow": "rightarrow", "varphi": "phi", "varepsilon": "epsilon", "vartheta": "theta",
    "arctg": "arctan", "tg": "tan", "ctg": "cot", "overrightarrow": "vec", "sim": "approx",
    "simeq": "approx", "thickapprox": "approx", "bar": "overline", "tbar": "overline",
}  # fmt: skip

_SIZES = re.compile(
    r"\\(?:left|right|[bB]igg?[lrm]?|middle|displaystyle|textstyle|limits|nolimits)(?![A-Za-z])\.?"
)
_SPACES = re.compile(r"\\(?:quad|qquad|hspace\*?\{[^{}]*\}|hfill|enspace|thinspace)(?![A-Za-z])|~")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_GROUPED_COMMA = re.compile(r"(?<=\d)(?:\{,\}|,\\!|\\,|\\;|\\ )\s*(?=\d{3}(?!\d))")
_TINY_SPACE = re.compile(r"\\[,;:!> ]")
_OUTER_PERIOD = re.compile(r"(?<!\.)\.\s*$")
_BETWEEN_FORMULAS = re.compile(r"(?<!\\)\$\s*,\s*(?:(?<!\\)\$)?")


def normalise(text: str) -> str:
    r"""Return an answer in one spelling: no $ around formulas, no sizes, one name per command."""
    text = text.strip()
    # "$69$,$84$" are two numbers, not 69,84; a $ without a backslash is a formula's border.
    text = _BETWEEN_FORMULAS.sub(", ", text)
    text = _currency(text)
    for before, after in _UNICODE.items():
        if before in text and before not in "$%":
            text = text.replace(before, after)
    text = re.sub(r"(?<!\\)%", r"\\%", text)
    text = _SIZES.sub("", text)
    text = _SPACES.sub(" ", text)
    text = _COMMAND.sub(_rename, text)
    text = _GROUPED_COMMA.sub("", text)
    text = re.sub(r"\\begin\{array\}\{[^{}]*\}", r"\\begin{array}", text)
    text = _TINY_SPACE.sub(" ", text.replace(r"\\", "\x00")).replace("\x00", r"\\")
    text = re.sub(r"\s+", " ", text).strip()
    text = _OUTER_PERIOD.sub("", text).strip()
    return _unwrap(text)


def _currency(text: str) -> str:
    r"""Drop formula borders. A lone $ before a number is currency, as \$ is."""
    text = re.sub(r"(?<!\\)\\[()\[\]]", " ", text)
    if re.fullmatch(r"-?\$\s?-?\d[\d,. ]*[^$]*", text):
        return text.replace("$", r"\$")
    return re.sub(r"(?<!\\)\$", " ", text)


def _rename(match: re.Match[str]) -> str:
    name = _RENAMED.get(match.group(1), match.group(1))
    if not name.isalpha():
        return f"{name} " if name[0] == "\\" and name[-1].isalpha() else name
    return f"\\{name}"


def _unwrap(text: str) -> str:
    """Drop a pair of braces or a box around the whole."""
    while True:
        inner = re.fullmatch(r"\\(?:boxed|fbox)\s*\{(.*)\}|\{(.*)\}", text)
        content = next((part for part in inner.groups() if part is not None), "") if inner else ""
        if inner is None or not balanced(content):
            return text
        text = content.strip()


def balanced(text: str) -> bool:
    """Whether braces that are not escaped pair up, none closing before it opened."""
    depth = 0
    for brace in re.findall(r"\\.|[{}]", text):
        depth += {"{": 1, "}": -1}.get(brace, 0)
        if depth < 0:
            return False
    return depth == 0


_WORDS = re.compile(r"\\(?:text|mathrm)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")


def plain_words(text: str) -> str:
    """Return a text without wrappers, marks and case, every space one."""
    while (unwrapped := _WORDS.sub(r" \1 ", text)) != text:
        text = unwrapped
    text = re.sub(r"\\[,;:! ]|[*_`\"]", " ", text)
    text = re.sub(r"\s*([()\[\].,:;])\s*", r"\1", re.sub(r"\s+", " ", text))
    return text.strip(" .,:;").casefold()
