"""The twelve checker classes by their official names."""

from __future__ import annotations

import functools
from collections.abc import Callable

from mrtpo.verifiers.muldimif.json_levels import FormatJson
from mrtpo.verifiers.muldimif.keywords import content_keywords
from mrtpo.verifiers.muldimif.kinds import Checker
from mrtpo.verifiers.muldimif.language import LanguageChinese, LanguageEnglish
from mrtpo.verifiers.muldimif.length import LengthParagraphs, LengthSentences
from mrtpo.verifiers.muldimif.markdown import FormatMarkdown
from mrtpo.verifiers.muldimif.others import ContentOthers, FormatOthers
from mrtpo.verifiers.muldimif.punctuation import ContentPunctuation
from mrtpo.verifiers.muldimif.table import FormatTable
from mrtpo.verifiers.muldimif.words import length_words

CLASSES: dict[str, Callable[[str], Checker]] = {
    "Content_Keywords": content_keywords,
    "Content_Punctuation": ContentPunctuation,
    "Content_Others": ContentOthers,
    "Format_Json": FormatJson,
    "Format_Markdown": FormatMarkdown,
    "Format_Table": FormatTable,
    "Format_Others": FormatOthers,
    "Language_English": LanguageEnglish,
    "Language_Chinese": LanguageChinese,
    "Length_Words": length_words,
    "Length_Sentences": LengthSentences,
    "Length_Paragraphs": LengthParagraphs,
}


@functools.lru_cache(maxsize=8192)
def read(name: str, constraint: str) -> Checker:
    """The checker of a constraint's text; the last ones are kept."""
    return CLASSES[name](constraint)
