"""Check that a reason given to ``cn out`` says something.

Thirty-seven items were once "processed" by empty acknowledgements in eight seconds. A
reason of nothing but filler is refused, whatever its order, case and punctuation.
"""

from __future__ import annotations

import re
import unicodedata

from cn.values.text import one_line

SHORTEST = 10
"""Characters a reason has at least."""
_LEAST = 4
"""Letters that must be left without the filler, and different letters in the whole."""
_WORD = re.compile(r"[^\W_]+")
_HAN = re.compile(r"([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")
_IGNORED = re.compile(r"[\ufe00-\ufe0f\u034f\u115f\u1160\u3164]")

_SAYING_NOTHING = {
    "what was done with the item": """
        ack acked acking acks acknowledge acknowledged acknowledgement acknowledges acknowledging
        acknowledgment accept accepted addressed check checked clear cleared close closed closing
        complete completed completes completing completion confirm confirmed confirming confirmation
        copied copy deal dealt dismissed do does doing done end ended finalised finalized finish
        finished fulfilled get got gotten handle handled handles handling ignore ignored ignoring log
        logged looked looks mark marked nop noop note noted notes noting op ops pass passed proceed
        process processed processes processing read reading receipt receive received receives receiving
        recorded registered resolve resolved review reviewed reviewing roger saw see seen skip skipped
        skipping success successful successfully take taken took treated understand understood update
        updated viewed wilco
    """,
    "the item, and what it asks for": """
        action actionable actions activity agent answer anything attention comment comments content data
        email entry everybody everyone everything follow followup fyi info information informational
        input item items mail matter message messages msg msgs need needed needing needs necessary none
        nothing notice notification operation output queue reason reply request requested require
        required requirement requires respond response something status step steps stuff system task
        tasks thing things thread threads work works
    """,
    "courtesy, agreement": """
        affirmative agree agreed alright awesome cheers cool excellent fine good great hello hi kindly k
        lgtm nice ok okay okey okeydokey perfect please right sure thank thanks thankyou thx ty welcome
        yeah yep yes yup
    """,
    "the words between": """
        a about accordingly across additional after again all already also am an and any applicable are
        as at automatic automatically be been being but by can correctly could currently did didn doesn
        don duly else expected far for from fully further had has have having here hereby i if in is isn
        it its just later left ll me more moment much my na nil no noone not now null of off on one only
        or our ours over part point presently properly re remaining remains s same should side so t that
        the their them then there these they this those time to too up us ve very was wasn we well were
        what which will with without won would you your
    """,
    "the same in German, French and Spanish": """
        alles bearbeitet bestätigt danke das die der den eine einen erhalten erledigt ist keine kein
        kenntnis aktion erforderlich gelesen genommen habe in nachricht nichts notwendig nötig ok tun
        und verarbeitet verstanden wurde zu zum zur aucune bien compris compte demande d est et fait il
        la le lu merci n ne noté pas pris prise rien reçu reçue requise traité traitée un une vu à été
        action faire en de acción confirmado el entendido es gracias ha hecho leído listo mensaje nada
        ninguna procesado que recibido requiere sido sin se
    """,
}
_FILLER = frozenset(word for words in _SAYING_NOTHING.values() for word in words.split())
"""Words that say no more than that the item was there."""
_FILLER_HAN = frozenset(
    "已收到处處理完毕畢成确確认認消讯訊信息了的谢謝好阅閱读讀知悉无無没沒需要须須操作任何事情件此该該是这這"
)


def check_reason(reason: str) -> str:
    """Empty when the reason says something, else one sentence why not and what to write."""
    text = " ".join(unicodedata.normalize("NFKC", reason).split())
    text = "".join(c for c in text if unicodedata.category(c) != "Cf" and not _IGNORED.match(c))
    text = " ".join(text.split())
    if len(text) < SHORTEST:
        return (
            f"the reason has {len(text)} characters, at least {SHORTEST} are needed: "
            "write why, such as 'duplicate of pi/proposal'"
        )
    text = unicodedata.normalize("NFC", text.casefold())
    text = "".join(c for c in text if not unicodedata.category(c).startswith("M"))  # else they part words
    words = _WORD.findall(_HAN.sub(r" \1 ", text))
    letters = "".join(words)
    telling = {word for word in words if not _is_filler(word)}
    if (
        sum(2 if _HAN.match(word) else len(word) for word in telling) < _LEAST
        or len(set(letters)) < _LEAST
        or _is_repeated(letters)
    ):
        return (
            f"the reason {one_line(reason, 60)!r} says nothing about why: "
            "write what you found, such as 'duplicate of pi/proposal'"
        )
    return ""


def _is_filler(word: str) -> bool:
    """Nothing to go by: filler, a number or an id, a lone letter, one letter repeated."""
    if _HAN.match(word):
        return word in _FILLER_HAN
    return word in _FILLER or len(set(word)) < 2 or any(char.isdigit() for char in word)


def _is_repeated(letters: str) -> bool:
    """Is it one piece written twice or more, as "hm hm hm"?"""
    return letters in (letters + letters)[1:-1]
