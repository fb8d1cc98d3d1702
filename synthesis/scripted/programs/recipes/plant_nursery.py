"""Requests at the order desk of the plant nursery."""

from __future__ import annotations

import re

from synthesis.scripted.programs.recipes.words import find_full_names
from synthesis.scripted.programs.solver import Recipe, Steps

_LINE = re.compile(r"\b(\d+) ([A-Z][a-z]+ [A-Z][a-z]+)")


def enter_telephone_order(words: str) -> Steps | None:
    return _enter_telephone_order(words) if "orders by telephone" in words else None


def _enter_telephone_order(words: str) -> Steps:
    name = find_full_names(words)[0]
    customers = yield "find_customers", {"text": name}
    opened = yield "open_order", {"customer_id": customers["customers"][0]["customer_id"]}
    order = opened["order_id"]
    for pieces, plant in _LINE.findall(words):
        plants = yield "find_plants", {"text": plant}
        line = {"order_id": order, "plant_id": plants["plants"][0]["plant_id"], "pieces": int(pieces)}
        yield "add_line", line
    packed = yield "pack_order", {"order_id": order}
    yield "send_order", {"order_id": order}
    return f"The order is in the post; it costs {packed['total_cents']} cents.", {"costs": packed["total_cents"]}


def cancel_orders(words: str) -> Steps | None:
    return _cancel_orders(words) if "calls off every order" in words else None


def _cancel_orders(words: str) -> Steps:
    customers = yield "find_customers", {"text": find_full_names(words)[0]}
    listed = yield "list_orders", {"customer_id": customers["customers"][0]["customer_id"]}
    waiting = [record["order_id"] for record in listed["orders"] if record["status"] in ("open", "packed")]
    for order in waiting:
        yield "cancel_order", {"order_id": order}
    return f"{len(waiting)} orders were called off, and their plants are back in stock.", {"orders": len(waiting)}


RECIPES: tuple[Recipe, ...] = (enter_telephone_order, cancel_orders)
