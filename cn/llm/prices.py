"""What tokens cost, by model (Claude Platform documentation, page "Pricing").

Looked up on :data:`LOOKED_UP`. A model that is not here has no price: None is not 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cn.llm.request import Usage

LOOKED_UP = "2026-11-21"
_MILLION = 1_000_000


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens. ``cache_write`` is for five minutes, the lifetime that cn asks for."""

    input: float
    output: float
    cache_write: float
    cache_read: float


@dataclass(frozen=True)
class Tiers:
    """A price, and a higher one for all tokens of a request whose input is longer than ``limit``."""

    short: Price
    limit: int
    long: Price


PRICES: dict[str, Price | Tiers] = {
    "claude-fable-5-2": Price(8, 40, 10, 0.20),
    "claude-fable-5-1": Price(10, 50, 12.50, 0.25),
    "claude-fable-5": Price(10, 50, 12.50, 1),
    "claude-mythos-5-1": Price(10, 50, 12.50, 0.25),
    "claude-mythos-5": Price(10, 50, 12.50, 1),
    "claude-opus-5-5": Price(4, 20, 5, 0.20),
    "claude-opus-5": Price(5, 25, 6.25, 0.50),
    "claude-opus-4-8": Price(5, 25, 6.25, 0.50),
    "claude-opus-4-7": Price(5, 25, 6.25, 0.50),
    "claude-opus-4-6": Price(5, 25, 6.25, 0.50),
    "claude-opus-4-5": Price(5, 25, 6.25, 0.50),
    "claude-sonnet-5-5": Price(2, 10, 2.50, 0.10),
    "claude-sonnet-5": Price(2, 10, 2.50, 0.20),
    "claude-sonnet-4-6": Price(3, 15, 3.75, 0.30),
    "claude-sonnet-4-5": Price(3, 15, 3.75, 0.30),
    "claude-sonnet-4": Price(3, 15, 3.75, 0.30),
    "claude-haiku-5-5": Tiers(Price(0.10, 0.50, 0.125, 0.01), 100_000, Price(0.50, 2.50, 0.625, 0.05)),
    "claude-haiku-4-5": Price(1, 5, 1.25, 0.10),
}
_DATED = re.compile(r"(.+?)(?:-20[0-9]{6}|-latest)?")


def price_of(model: str, prompt_tokens: int = 0) -> Price | None:
    """The price of a model, by its name with or without a date, for a request of that length."""
    match = _DATED.fullmatch(model)
    found = PRICES.get(match[1]) if match else None
    if isinstance(found, Tiers):
        return found.long if prompt_tokens > found.limit else found.short
    return found


def cost(usage: Usage, model: str) -> float | None:
    """US dollars of one request; None where the price is not known."""
    price = price_of(model, usage.prompt_tokens)
    if price is None:
        return None
    total = (
        usage.input_tokens * price.input
        + usage.output_tokens * price.output
        + usage.cache_write_tokens * price.cache_write
        + usage.cache_read_tokens * price.cache_read
    )
    return round(total / _MILLION, 8)
