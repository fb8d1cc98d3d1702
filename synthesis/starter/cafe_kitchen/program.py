"""A café with a kitchen: tables and reservations, orders and allergies, recipes, stock with dates, and suppliers."""

import copy
import datetime
from typing import Any, Dict, List, Optional, Tuple

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ALLERGENS = ("celery", "egg", "fish", "gluten", "milk", "mustard", "nuts", "sesame", "shellfish", "soy")
METHODS = ("card", "cash")
WASTE_REASONS = ("expired", "spoiled", "dropped")
OPENS, LAST_SITTING = "09:00", "20:00"
SITTING_MINUTES = 120
STEP_MINUTES = 15
EARLY_MINUTES = 30
RESERVATION_DAYS = 60
BIG_TABLE, SMALL_PARTY = 6, 3
SERVICE_PARTY, SERVICE_PERCENT = 6, 10
MOST_PORTIONS = 40
MOST_PACKS = 60

KINDS = {
    "date": (str, "a day as YYYY-MM-DD"),
    "start": (str, "a time as HH:MM"),
    "guests": (int, "a whole number"),
    "quantity": (int, "a whole number"),
    "tip_cents": (int, "a whole number"),
    "low_only": (bool, "true or false"),
    "open_only": (bool, "true or false"),
    "allergies": (list, "a list of allergens"),
    "without": (list, "a list of allergens"),
    "swaps": (list, "a list of ingredient numbers"),
    "packs": (dict, "a number of packs for each ingredient number"),
    "missing": (dict, "a number of packs for each ingredient number"),
}
FORMS = {"date": "%Y-%m-%d", "start": "%H:%M"}
MEMBERS = {list: str, dict: int}


class CafeKitchen:
    """Built from an initial-state dict; every attribute is part of the state. Money is in cents."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.today: str = state.get("today", "2026-09-18")
        self.clock: str = state.get("clock", "11:00")
        self.ingredients: Dict[str, Any] = state.get("ingredients", {})
        self.lots: Dict[str, Any] = state.get("lots", {})
        self.dishes: Dict[str, Any] = state.get("dishes", {})
        self.tables: Dict[str, Any] = state.get("tables", {})
        self.reservations: Dict[str, Any] = state.get("reservations", {})
        self.orders: Dict[str, Any] = state.get("orders", {})
        self.suppliers: Dict[str, Any] = state.get("suppliers", {})
        self.purchases: Dict[str, Any] = state.get("purchases", {})
        self.till: List[Dict[str, Any]] = state.get("till", [])
        self.waste: List[Dict[str, Any]] = state.get("waste", [])
        self.next_lot: int = state.get("next_lot", 1)
        self.next_reservation: int = state.get("next_reservation", 1)
        self.next_order: int = state.get("next_order", 1)
        self.next_purchase: int = state.get("next_purchase", 1)

    # Helpers. None of them is a tool: only the tools of the manifest can be called.

    def _refuse(self, reason: str) -> Dict[str, Any]:
        return {"success": False, "error": reason}

    def _misfit(self, needed: Dict[str, Any], optional: Optional[Dict[str, Any]] = None) -> str:
        """Which argument is not of the kind its name asks for, or an empty text."""
        given = {name: value for name, value in (optional or {}).items() if value is not None}
        for name, value in {**needed, **given}.items():
            kind, words = KINDS.get(name, (str, "text"))
            if type(value) is not kind:
                return f"{name} must be {words}"
            members = list(value.values()) if kind is dict else value if kind is list else []
            if not all(type(member) is MEMBERS[kind] for member in members):
                return f"{name} must be {words}"
            if not self._well_formed(FORMS.get(name), value):
                return f"{name} must be {words}"
        return ""

    def _well_formed(self, form: Optional[str], value: Any) -> bool:
        try:
            return form is None or datetime.datetime.strptime(value, form).strftime(form) == value
        except ValueError:
            return False

    def _strange_allergen(self, names: List[str]) -> str:
        strange = [name for name in names if name not in ALLERGENS]
        return f"{', '.join(strange)}: allergens are {', '.join(ALLERGENS)}" if strange else ""

    def _date(self, text: str) -> datetime.date:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()

    def _later(self, text: str, days: int) -> str:
        return (self._date(text) + datetime.timedelta(days=days)).isoformat()

    def _minutes(self, clock: str) -> int:
        return int(clock[:2]) * 60 + int(clock[3:])

    def _good_lots(self, ingredient_id: str) -> List[str]:
        """The lots of an ingredient that may be used today, the one that ends first in front."""
        good = [
            key
            for key, lot in self.lots.items()
            if lot["ingredient_id"] == ingredient_id and lot["amount"] > 0 and lot["use_by"] >= self.today
        ]
        return sorted(good, key=lambda key: (self.lots[key]["use_by"], len(key), key))

    def _stock(self, ingredient_id: str) -> int:
        return sum(self.lots[key]["amount"] for key in self._good_lots(ingredient_id))

    def _parts(self, dish_id: str, swaps: List[str]) -> Dict[str, int]:
        """What one portion takes, with some ingredients replaced as the recipe allows."""
        dish = self.dishes[dish_id]
        parts: Dict[str, int] = {}
        for key, amount in dish["parts"].items():
            used = dish["swaps"][key] if key in swaps else key
            parts[used] = parts.get(used, 0) + amount
        return parts

    def _allergens(self, parts: Dict[str, int]) -> List[str]:
        return sorted({name for key in parts for name in self.ingredients[key]["allergens"]})

    def _portions(self, parts: Dict[str, int]) -> int:
        return min(self._stock(key) // amount for key, amount in parts.items())

    def _occupied(self, table_id: str, date: str, start: str, skip: str = "") -> str:
        """Who has the table during a sitting that starts then, or an empty text."""
        begin = self._minutes(start)
        for key, entry in self.reservations.items():
            if key == skip or entry["status"] != "booked" or (entry["table_id"], entry["date"]) != (table_id, date):
                continue
            if abs(self._minutes(entry["start"]) - begin) < SITTING_MINUTES:
                return f"reservation {key} at {entry['start']}"
        for key, order in self.orders.items():
            if order["status"] != "open" or order["table_id"] != table_id or date != self.today:
                continue
            if begin < self._minutes(order["opened"]) + SITTING_MINUTES:
                return f"order {key} since {order['opened']}"
        return ""

    def _unfit_table(self, table_id: str, guests: int) -> str:
        """Why a party does not fit a table, or an empty text."""
        if table_id not in self.tables:
            return f"No table {table_id}"
        seats = self.tables[table_id]["seats"]
        if not 1 <= guests <= seats:
            return f"Table {table_id} takes 1 to {seats} guests"
        if seats >= BIG_TABLE and guests < SMALL_PARTY:
            return f"A table with {BIG_TABLE} seats or more is not given to fewer than {SMALL_PARTY} guests"
        return ""

    def _unfit_time(self, date: str, start: str) -> str:
        """Why no reservation can be made for that time, or an empty text."""
        if not self.today <= date <= self._later(self.today, RESERVATION_DAYS):
            return f"Reservations are made from {self.today} to {RESERVATION_DAYS} days ahead"
        if self._minutes(start) % STEP_MINUTES or not OPENS <= start <= LAST_SITTING:
            return f"A sitting starts on a quarter of an hour from {OPENS} to {LAST_SITTING}"
        if (date, start) <= (self.today, self.clock):
            return f"It is {self.clock} on {self.today}: that time is over"
        return ""

    def _bill(self, order: Dict[str, Any]) -> Tuple[int, int]:
        """What the dishes cost, and the service charge on top."""
        dishes = sum(self.dishes[line["dish_id"]]["price_cents"] * line["quantity"] for line in order["lines"])
        service = dishes * SERVICE_PERCENT // 100 if order["guests"] >= SERVICE_PARTY else 0
        return dishes, service

    def _take(self, parts: Dict[str, int], quantity: int) -> List[Dict[str, Any]]:
        """Take the parts of some portions from the lots that end first; there must be enough."""
        taken = []
        for ingredient_id, amount in parts.items():
            missing = amount * quantity
            for key in self._good_lots(ingredient_id):
                used = min(missing, self.lots[key]["amount"])
                if used:
                    self.lots[key]["amount"] -= used
                    taken.append({"lot_id": key, "amount": used})
                    missing -= used
        return taken

    def _give_back(self, line: Dict[str, Any], quantity: int) -> None:
        """Put the parts of some portions of a line back into the lots they came from, the last one first."""
        thrown_away = {entry["lot_id"] for entry in self.waste}
        for ingredient_id, amount in self._parts(line["dish_id"], line["swapped"]).items():
            left = amount * quantity
            for entry in reversed(line["taken"]):
                lot = self.lots[entry["lot_id"]]
                if lot["ingredient_id"] != ingredient_id:
                    continue
                back = min(left, entry["amount"])
                entry["amount"] -= back
                if entry["lot_id"] not in thrown_away:
                    lot["amount"] += back
                left -= back
        line["taken"] = [entry for entry in line["taken"] if entry["amount"]]

    def _next_delivery(self, supplier_id: str) -> str:
        supplier = self.suppliers[supplier_id]
        day = self._later(self.today, supplier["lead_days"])
        while WEEKDAYS[self._date(day).weekday()] not in supplier["days"]:
            day = self._later(day, 1)
        return day

    def _open_order(self, order_id: str) -> str:
        """Why an order is not open, or an empty text."""
        if order_id not in self.orders:
            return f"No order {order_id}"
        if self.orders[order_id]["status"] != "open":
            return f"Order {order_id} is {self.orders[order_id]['status']}"
        return ""

    def _booked(self, reservation_id: str) -> str:
        """Why a reservation does not stand any more, or an empty text."""
        if reservation_id not in self.reservations:
            return f"No reservation {reservation_id}"
        if self.reservations[reservation_id]["status"] != "booked":
            return f"Reservation {reservation_id} is {self.reservations[reservation_id]['status']}"
        return ""

    # Tools that look.

    def list_menu(self, text: str = "", without: Optional[List[str]] = None) -> Dict[str, Any]:
        """List dishes with price, recipe, allergens, the swaps a recipe allows and how many portions can be made.

        Args:
            text (str, optional): Only dishes whose name or course contains this text.
            without (list of str, optional): Leave out dishes that contain one of these allergens as they are; dishes
                that can be had without them by a swap stay.
        """
        problem = self._misfit({"text": text}, {"without": without}) or self._strange_allergen(without or [])
        if problem:
            return self._refuse(problem)
        listed = []
        for key, dish in self.dishes.items():
            if text.strip().lower() not in f"{dish['name']} {dish['course']}".lower():
                continue
            swappable = [part for part in dish["swaps"] if set(self.ingredients[part]["allergens"]) & set(without or [])]
            if set(self._allergens(self._parts(key, swappable))) & set(without or []):
                continue
            parts = self._parts(key, [])
            listed.append(
                {
                    "dish_id": key,
                    **{name: dish[name] for name in ("name", "course", "price_cents")},
                    "parts": [
                        {"ingredient_id": part, "name": self.ingredients[part]["name"], "amount": amount}
                        for part, amount in parts.items()
                    ],
                    "allergens": self._allergens(parts),
                    "swaps": [
                        {"ingredient_id": part, "becomes": other, "name": self.ingredients[other]["name"]}
                        for part, other in dish["swaps"].items()
                    ],
                    "portions": self._portions(parts),
                }
            )
        return {"success": True, "dishes": listed}

    def list_stock(self, text: str = "", low_only: bool = False) -> Dict[str, Any]:
        """List ingredients with what can be used today, their lots, allergens and the mark below which they are low.

        Args:
            text (str, optional): Only ingredients whose name contains this text.
            low_only (bool, optional): Only what is below its mark.
        """
        problem = self._misfit({"text": text, "low_only": low_only})
        if problem:
            return self._refuse(problem)
        listed = []
        for key, ingredient in self.ingredients.items():
            amount = self._stock(key)
            if text.strip().lower() not in ingredient["name"].lower() or (low_only and amount >= ingredient["mark"]):
                continue
            lots = [
                {"lot_id": lot_id, "amount": lot["amount"], "use_by": lot["use_by"]}
                for lot_id, lot in self.lots.items()
                if lot["ingredient_id"] == key and lot["amount"] > 0
            ]
            lots.sort(key=lambda lot: (lot["use_by"], lot["lot_id"]))
            listed.append({"ingredient_id": key, **copy.deepcopy(ingredient), "usable_today": amount, "lots": lots})
        return {"success": True, "ingredients": listed}

    def list_suppliers(self, ingredient_id: Optional[str] = None) -> Dict[str, Any]:
        """List suppliers with packs, prices, least order, and the day a purchase made today would arrive.

        Args:
            ingredient_id (str, optional): Only those who sell this ingredient.
        """
        problem = self._misfit({}, {"ingredient_id": ingredient_id})
        if problem:
            return self._refuse(problem)
        if ingredient_id is not None and ingredient_id not in self.ingredients:
            return self._refuse(f"No ingredient {ingredient_id}")
        listed = []
        for key, supplier in self.suppliers.items():
            if ingredient_id is not None and ingredient_id not in supplier["goods"]:
                continue
            goods = [
                {"ingredient_id": part, "name": self.ingredients[part]["name"], **terms}
                for part, terms in supplier["goods"].items()
            ]
            shown = {name: supplier[name] for name in ("name", "minimum_cents")}
            listed.append({"supplier_id": key, **shown, "arrives": self._next_delivery(key), "goods": goods})
        return {"success": True, "suppliers": listed}

    def list_purchases(self, open_only: bool = True) -> Dict[str, Any]:
        """List purchases from suppliers by the day they are due.

        Args:
            open_only (bool, optional): Only what has not arrived yet.
        """
        problem = self._misfit({"open_only": open_only})
        if problem:
            return self._refuse(problem)
        listed = [
            {"purchase_id": key, **copy.deepcopy(entry)}
            for key, entry in self.purchases.items()
            if entry["status"] == "sent" or not open_only
        ]
        listed.sort(key=lambda entry: (entry["due"], entry["purchase_id"]))
        return {"success": True, "purchases": listed}

    def list_tables(self, date: str, start: str, guests: int) -> Dict[str, Any]:
        """List the tables that are free for a sitting of two hours and fit a party, the smallest first.

        Args:
            date (str): The day as YYYY-MM-DD.
            start (str): The time as HH:MM.
            guests (int): How many people.
        """
        problem = self._misfit({"date": date, "start": start, "guests": guests})
        if problem:
            return self._refuse(problem)
        listed = [
            {"table_id": key, **copy.deepcopy(table)}
            for key, table in self.tables.items()
            if not self._unfit_table(key, guests) and not self._occupied(key, date, start)
        ]
        listed.sort(key=lambda table: (table["seats"], len(table["table_id"]), table["table_id"]))
        return {"success": True, "tables": listed}

    def list_reservations(self, date: Optional[str] = None, text: str = "") -> Dict[str, Any]:
        """List reservations that stand, by day and time.

        Args:
            date (str, optional): Only this day's, YYYY-MM-DD.
            text (str, optional): Only those whose name contains this text.
        """
        problem = self._misfit({"text": text}, {"date": date})
        if problem:
            return self._refuse(problem)
        wanted = text.strip().lower()
        listed = [
            {"reservation_id": key, **copy.deepcopy(entry), "place": self.tables[entry["table_id"]]["place"]}
            for key, entry in self.reservations.items()
            if entry["status"] == "booked" and date in (None, entry["date"]) and wanted in entry["name"].lower()
        ]
        listed.sort(key=lambda entry: (entry["date"], entry["start"], entry["reservation_id"]))
        return {"success": True, "reservations": listed}

    def list_orders(self, table_id: Optional[str] = None, open_only: bool = True) -> Dict[str, Any]:
        """List orders with their dishes and the bill so far, service charge included.

        Args:
            table_id (str, optional): Only those of this table.
            open_only (bool, optional): Leave out what is paid.
        """
        problem = self._misfit({"open_only": open_only}, {"table_id": table_id})
        if problem:
            return self._refuse(problem)
        listed = []
        for key, order in self.orders.items():
            if table_id not in (None, order["table_id"]) or (open_only and order["status"] != "open"):
                continue
            lines = [
                {
                    "dish_id": line["dish_id"],
                    "name": self.dishes[line["dish_id"]]["name"],
                    "quantity": line["quantity"],
                    "swapped": [self.ingredients[part]["name"] for part in line["swapped"]],
                    "served": line["served"],
                }
                for line in order["lines"]
            ]
            dishes, service = self._bill(order)
            shown = {name: order[name] for name in ("table_id", "guests", "status", "opened")}
            bill = {"dishes_cents": dishes, "service_cents": service, "bill_cents": dishes + service}
            listed.append({"order_id": key, **shown, "allergies": list(order["allergies"]), "lines": lines, **bill})
        return {"success": True, "orders": listed}

    # Tools that change.

    def reserve_table(
        self,
        name: str,
        guests: int,
        date: str,
        start: str,
        table_id: str,
        allergies: Optional[List[str]] = None,
    ) -> Dict[str, Any]:
        """Reserve a table for a sitting of two hours.

        Args:
            name (str): The name the table is kept under.
            guests (int): How many people.
            date (str): The day as YYYY-MM-DD.
            start (str): The time as HH:MM, on a quarter of an hour.
            table_id (str): The table's number, such as "T-4".
            allergies (list of str, optional): What somebody at the table must not have, such as "milk" or "nuts".
        """
        given = {"name": name, "guests": guests, "date": date, "start": start, "table_id": table_id}
        problem = self._misfit(given, {"allergies": allergies}) or self._strange_allergen(allergies or [])
        if problem:
            return self._refuse(problem)
        if not name.strip() or len(name) > 80:
            return self._refuse("Give a name of at most 80 characters")
        problem = self._unfit_time(date, start) or self._unfit_table(table_id, guests)
        if problem:
            return self._refuse(problem)
        taken = self._occupied(table_id, date, start)
        if taken:
            return self._refuse(f"Table {table_id} is taken by {taken}")
        key = f"R-{self.next_reservation}"
        self.next_reservation += 1
        self.reservations[key] = {
            **given,
            "name": " ".join(name.split()),
            "allergies": sorted(set(allergies or [])),
            "status": "booked",
        }
        return {"success": True, "reservation_id": key}

    def move_reservation(
        self,
        reservation_id: str,
        table_id: Optional[str] = None,
        date: Optional[str] = None,
        start: Optional[str] = None,
        guests: Optional[int] = None,
    ) -> Dict[str, Any]:
        """Move a reservation to another table or time, or change the number of guests; what is left out stays.

        Args:
            reservation_id (str): The reservation's number, such as "R-12".
            table_id (str, optional): Another table.
            date (str, optional): Another day as YYYY-MM-DD.
            start (str, optional): Another time as HH:MM.
            guests (int, optional): How many people come.
        """
        changed = {"table_id": table_id, "date": date, "start": start, "guests": guests}
        problem = self._misfit({"reservation_id": reservation_id}, changed) or self._booked(reservation_id)
        if problem:
            return self._refuse(problem)
        entry = self.reservations[reservation_id]
        seen = {**entry, **{name: value for name, value in changed.items() if value is not None}}
        problem = self._unfit_time(seen["date"], seen["start"]) or self._unfit_table(seen["table_id"], seen["guests"])
        if problem:
            return self._refuse(problem)
        taken = self._occupied(seen["table_id"], seen["date"], seen["start"], skip=reservation_id)
        if taken:
            return self._refuse(f"Table {seen['table_id']} is taken by {taken}")
        self.reservations[reservation_id] = seen
        return {"success": True, "reservation": copy.deepcopy(seen)}

    def cancel_reservation(self, reservation_id: str) -> Dict[str, Any]:
        """Cancel a reservation that stands.

        Args:
            reservation_id (str): The reservation's number.
        """
        problem = self._misfit({"reservation_id": reservation_id}) or self._booked(reservation_id)
        if problem:
            return self._refuse(problem)
        self.reservations[reservation_id]["status"] = "cancelled"
        return {"success": True, "reservation_id": reservation_id}

    def open_order(
        self,
        table_id: str,
        guests: int,
        allergies: Optional[List[str]] = None,
        reservation_id: Optional[str] = None,
    ) -> Dict[str, Any]:
        """Seat a party that is here now and open its order; a reservation's allergies are taken over.

        Args:
            table_id (str): Where they sit; with a reservation, the table that was reserved.
            guests (int): How many people.
            allergies (list of str, optional): What somebody at the table must not have, such as "milk" or "nuts".
            reservation_id (str, optional): The reservation they have; without it they walked in.
        """
        optional = {"allergies": allergies, "reservation_id": reservation_id}
        problem = self._misfit({"table_id": table_id, "guests": guests}, optional)
        problem = problem or self._strange_allergen(allergies or []) or self._unfit_table(table_id, guests)
        if problem:
            return self._refuse(problem)
        named = set(allergies or [])
        if reservation_id is not None:
            problem = self._booked(reservation_id)
            if problem:
                return self._refuse(problem)
            entry = self.reservations[reservation_id]
            early = self._minutes(entry["start"]) - self._minutes(self.clock)
            if entry["date"] != self.today or early > EARLY_MINUTES:
                return self._refuse(f"Reservation {reservation_id} is for {entry['start']} on {entry['date']}")
            if entry["table_id"] != table_id:
                return self._refuse(f"Reservation {reservation_id} is for table {entry['table_id']}")
            named |= set(entry["allergies"])
        if any(order["status"] == "open" and order["table_id"] == table_id for order in self.orders.values()):
            return self._refuse(f"Table {table_id} has an open order")
        taken = self._occupied(table_id, self.today, self.clock, skip=reservation_id or "")
        if taken:
            return self._refuse(f"Table {table_id} is taken within two hours by {taken}")
        if reservation_id is not None:
            self.reservations[reservation_id]["status"] = "seated"
        key = f"O-{self.next_order}"
        self.next_order += 1
        self.orders[key] = {
            "table_id": table_id,
            "guests": guests,
            "allergies": sorted(named),
            "opened": self.clock,
            "status": "open",
            "lines": [],
        }
        return {"success": True, "order_id": key, "allergies": sorted(named)}

    def add_dish(
        self, order_id: str, dish_id: str, quantity: int, swaps: Optional[List[str]] = None
    ) -> Dict[str, Any]:
        """Add portions of a dish to an order and take what they need from the stock, first what ends first.

        Args:
            order_id (str): The order's number, such as "O-21".
            dish_id (str): The dish's number, such as "D-03".
            quantity (int): How many portions.
            swaps (list of str, optional): The numbers of ingredients to replace by what the recipe allows instead.
        """
        given = {"order_id": order_id, "dish_id": dish_id, "quantity": quantity}
        problem = self._misfit(given, {"swaps": swaps}) or self._open_order(order_id)
        if problem:
            return self._refuse(problem)
        if dish_id not in self.dishes:
            return self._refuse(f"No dish {dish_id}")
        if not 1 <= quantity <= MOST_PORTIONS:
            return self._refuse(f"Order 1 to {MOST_PORTIONS} portions at a time")
        dish, wanted = self.dishes[dish_id], sorted(set(swaps or []))
        for part in wanted:
            if part not in dish["swaps"]:
                return self._refuse(f"The recipe of {dish['name']} allows no swap for {part}")
        parts = self._parts(dish_id, wanted)
        harmful = [name for name in self._allergens(parts) if name in self.orders[order_id]["allergies"]]
        if harmful:
            return self._refuse(f"{dish['name']} contains {', '.join(harmful)}, which this table must not have")
        short = [self.ingredients[part]["name"] for part in parts if self._stock(part) < parts[part] * quantity]
        if short:
            return self._refuse(f"There is not enough {', '.join(short)} for {quantity} x {dish['name']}")
        line = {"dish_id": dish_id, "quantity": quantity, "swapped": wanted, "served": False}
        self.orders[order_id]["lines"].append({**line, "taken": self._take(parts, quantity)})
        return {"success": True, "order_id": order_id, "bill_cents": sum(self._bill(self.orders[order_id]))}

    def take_off_dish(self, order_id: str, dish_id: str, quantity: int) -> Dict[str, Any]:
        """Take portions of a dish that was not served yet off an order; what they needed goes back into stock.

        Args:
            order_id (str): The order's number.
            dish_id (str): The dish's number.
            quantity (int): How many portions.
        """
        given = {"order_id": order_id, "dish_id": dish_id, "quantity": quantity}
        problem = self._misfit(given) or self._open_order(order_id)
        if problem:
            return self._refuse(problem)
        order = self.orders[order_id]
        waiting = [line for line in order["lines"] if line["dish_id"] == dish_id and not line["served"]]
        most = sum(line["quantity"] for line in waiting)
        if not 1 <= quantity <= most:
            return self._refuse(f"{most} portions of {dish_id} on order {order_id} are not served yet")
        for line in reversed(waiting):
            count = min(quantity, line["quantity"])
            self._give_back(line, count)
            line["quantity"] -= count
            quantity -= count
        order["lines"] = [line for line in order["lines"] if line["quantity"]]
        return {"success": True, "order_id": order_id, "bill_cents": sum(self._bill(order))}

    def serve_order(self, order_id: str) -> Dict[str, Any]:
        """Mark everything on an order as served.

        Args:
            order_id (str): The order's number.
        """
        problem = self._misfit({"order_id": order_id}) or self._open_order(order_id)
        if problem:
            return self._refuse(problem)
        waiting = [line for line in self.orders[order_id]["lines"] if not line["served"]]
        if not waiting:
            return self._refuse(f"Nothing on order {order_id} waits to be served")
        for line in waiting:
            line["served"] = True
        return {"success": True, "order_id": order_id, "served_lines": len(waiting)}

    def settle_order(self, order_id: str, method: str, tip_cents: int = 0) -> Dict[str, Any]:
        """Take the money for an order on which everything is served, and close it.

        Parties of six or more pay 10 percent for service on top.

        Args:
            order_id (str): The order's number.
            method (str): "card" or "cash".
            tip_cents (int, optional): What the guests add of their own.
        """
        given = {"order_id": order_id, "method": method, "tip_cents": tip_cents}
        problem = self._misfit(given) or self._open_order(order_id)
        if problem:
            return self._refuse(problem)
        if method not in METHODS:
            return self._refuse(f"They pay by {' or '.join(METHODS)}")
        order = self.orders[order_id]
        if not order["lines"] or not all(line["served"] for line in order["lines"]):
            return self._refuse(f"Not everything on order {order_id} is served")
        if not 0 <= tip_cents <= 20_000:
            return self._refuse("A tip is from 0 to 20000 cents")
        dishes, service = self._bill(order)
        order["status"] = "paid"
        entry = {"order_id": order_id, "bill_cents": dishes + service, "tip_cents": tip_cents, "method": method}
        self.till.append({**entry, "date": self.today})
        return {"success": True, **entry, "total_cents": dishes + service + tip_cents}

    def place_purchase(self, supplier_id: str, packs: Dict[str, int]) -> Dict[str, Any]:
        """Buy whole packs from a supplier, for the next day on which they can deliver.

        Args:
            supplier_id (str): The supplier's number, such as "S-2".
            packs (dict): How many packs of each ingredient, such as {"I-03": 4}.
        """
        problem = self._misfit({"supplier_id": supplier_id, "packs": packs})
        if problem:
            return self._refuse(problem)
        if supplier_id not in self.suppliers:
            return self._refuse(f"No supplier {supplier_id}")
        supplier = self.suppliers[supplier_id]
        for key, count in packs.items():
            if key not in supplier["goods"]:
                return self._refuse(f"{supplier['name']} does not sell {key}")
            if not 1 <= count <= MOST_PACKS:
                return self._refuse(f"Buy 1 to {MOST_PACKS} packs of an ingredient")
        cents = sum(supplier["goods"][key]["cents"] * count for key, count in packs.items())
        if cents < supplier["minimum_cents"]:
            return self._refuse(f"{supplier['name']} delivers from {supplier['minimum_cents']} cents on, this is {cents}")
        key = f"P-{self.next_purchase}"
        self.next_purchase += 1
        due = self._next_delivery(supplier_id)
        self.purchases[key] = {
            "supplier_id": supplier_id,
            "packs": dict(packs),
            "cents": cents,
            "due": due,
            "status": "sent",
        }
        return {"success": True, "purchase_id": key, "cents": cents, "due": due}

    def receive_delivery(self, purchase_id: str, missing: Optional[Dict[str, int]] = None) -> Dict[str, Any]:
        """Take a delivery in: a lot for each ingredient that came; missing packs are taken off the price.

        Args:
            purchase_id (str): The purchase's number, such as "P-40".
            missing (dict, optional): How many packs of an ingredient did not come, such as {"I-03": 1}.
        """
        problem = self._misfit({"purchase_id": purchase_id}, {"missing": missing})
        if problem:
            return self._refuse(problem)
        if purchase_id not in self.purchases or self.purchases[purchase_id]["status"] != "sent":
            return self._refuse(f"No purchase {purchase_id} is on its way")
        entry = self.purchases[purchase_id]
        if entry["due"] > self.today:
            return self._refuse(f"Purchase {purchase_id} is due on {entry['due']}")
        for key, count in (missing or {}).items():
            if not 1 <= count <= entry["packs"].get(key, 0):
                return self._refuse(f"{entry['packs'].get(key, 0)} packs of {key} are on purchase {purchase_id}")
        goods = self.suppliers[entry["supplier_id"]]["goods"]
        lots = []
        for key, count in entry["packs"].items():
            came = count - (missing or {}).get(key, 0)
            entry["packs"][key] = came
            if came:
                lot_id = f"L-{self.next_lot}"
                self.next_lot += 1
                use_by = self._later(self.today, goods[key]["shelf_days"])
                self.lots[lot_id] = {"ingredient_id": key, "amount": came * goods[key]["pack"], "use_by": use_by}
                lots.append(lot_id)
        entry["cents"] = sum(goods[key]["cents"] * count for key, count in entry["packs"].items())
        entry["status"] = "received"
        return {"success": True, "purchase_id": purchase_id, "lot_ids": lots, "cents": entry["cents"]}

    def discard_lot(self, lot_id: str, reason: str) -> Dict[str, Any]:
        """Throw a whole lot away.

        Args:
            lot_id (str): The lot's number, such as "L-7".
            reason (str): "expired" for what is past its date, otherwise "spoiled" or "dropped".
        """
        problem = self._misfit({"lot_id": lot_id, "reason": reason})
        if problem:
            return self._refuse(problem)
        if lot_id not in self.lots or not self.lots[lot_id]["amount"]:
            return self._refuse(f"Nothing is left of lot {lot_id}")
        if reason not in WASTE_REASONS:
            return self._refuse(f"Reasons are {', '.join(WASTE_REASONS)}")
        lot = self.lots[lot_id]
        if (reason == "expired") != (lot["use_by"] < self.today):
            return self._refuse(f"Lot {lot_id} is good until {lot['use_by']}: that reason does not fit")
        self.waste.append(
            {"lot_id": lot_id, "ingredient_id": lot["ingredient_id"], "amount": lot["amount"], "reason": reason}
        )
        lot["amount"] = 0
        return {"success": True, "lot_id": lot_id, "thrown_away": self.waste[-1]["amount"]}
