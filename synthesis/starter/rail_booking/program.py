"""The ticket office of a small railway: connections, fares, discount cards, groups, rebooking and refunds."""

import copy
import datetime
from typing import Any, Dict, List, Optional

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
CENTS_A_KM = {"express": 24, "regional": 18}
FIRST_CLASS_PERCENT = 160
SAVER_PERCENT = 60
SAVER_DAYS = 3
GROUP_SIZE = 6
GROUP_PERCENT = 70
LARGEST_GROUP = 12
CARD_PERCENT = {("card25", "flex"): 75, ("card25", "saver"): 75, ("card50", "flex"): 50, ("card50", "saver"): 75}
CARD_CENTS = {"card25": 5900, "card50": 21900}
CARD_DAYS = 365
CARD_RENEWAL_DAYS = 30
INFANT_UNDER = 6
ADULT_FROM = 15
BICYCLE_CENTS = 600
BOOKING_DAYS = 90
CHANGE_MINUTES = 8
FREE_REBOOKING_DAYS = 2
CLAIM_DAYS = 30
DELAY_PERCENT = ((120, 50), (60, 25))

KINDS = {
    "date": (str, "a day as YYYY-MM-DD"),
    "born": (str, "a day as YYYY-MM-DD"),
    "after": (str, "a time as HH:MM"),
    "places": (int, "a whole number"),
    "traveller_ids": (list, "a list of customer numbers"),
}
FORMS = {"date": "%Y-%m-%d", "born": "%Y-%m-%d", "after": "%H:%M"}


class RailBooking:
    """Built from an initial-state dict; every attribute is part of the state. Money is in cents."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.today: str = state.get("today", "2026-05-06")
        self.clock: str = state.get("clock", "09:00")
        self.stations: Dict[str, str] = state.get("stations", {})
        self.trains: Dict[str, Any] = state.get("trains", {})
        self.disruptions: List[Dict[str, Any]] = state.get("disruptions", [])
        self.sold_elsewhere: List[Dict[str, Any]] = state.get("sold_elsewhere", [])
        self.customers: Dict[str, Any] = state.get("customers", {})
        self.bookings: Dict[str, Any] = state.get("bookings", {})
        self.payments: List[Dict[str, Any]] = state.get("payments", [])
        self.next_booking: int = state.get("next_booking", 1)
        self.next_customer: int = state.get("next_customer", 1)

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
            if kind is list and not all(type(item) is str for item in value):
                return f"{name} must be {words}"
            form = FORMS.get(name)
            if form:
                try:
                    if datetime.datetime.strptime(value, form).strftime(form) != value:
                        return f"{name} must be {words}"
                except ValueError:
                    return f"{name} must be {words}"
        return ""

    def _date(self, text: str) -> datetime.date:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()

    def _later(self, text: str, days: int) -> str:
        return (self._date(text) + datetime.timedelta(days=days)).isoformat()

    def _days_until(self, date: str) -> int:
        return (self._date(date) - self._date(self.today)).days

    def _minutes(self, clock: str) -> int:
        return int(clock[:2]) * 60 + int(clock[3:])

    def _shifted(self, clock: str, minutes: int) -> str:
        moment = self._minutes(clock) + minutes
        return f"{moment // 60 % 24:02d}:{moment % 60:02d}"

    def _age(self, customer_id: str, date: str) -> int:
        born, day = self._date(self.customers[customer_id]["born"]), self._date(date)
        return day.year - born.year - ((day.month, day.day) < (born.month, born.day))

    def _runs(self, train: str, date: str) -> bool:
        return WEEKDAYS[self._date(date).weekday()] in self.trains[train]["days"]

    def _disruption(self, train: str, date: str) -> Dict[str, Any]:
        for entry in self.disruptions:
            if (entry["train"], entry["date"]) == (train, date):
                return entry
        return {"train": train, "date": date, "kind": "none", "minutes": 0}

    def _cancelled(self, train: str, date: str) -> bool:
        return bool(self._disruption(train, date)["kind"] == "cancelled")

    def _index(self, train: str, station: str) -> int:
        for place, stop in enumerate(self.trains[train]["stops"]):
            if stop["station"] == station:
                return place
        return -1

    def _way(self, train: str, origin: str, destination: str) -> str:
        """Why the train does not go that way, or an empty text."""
        for station in (origin, destination):
            if station not in self.stations:
                return f"No station {station}"
            if self._index(train, station) < 0:
                return f"{train} does not stop at {self.stations[station]}"
        if self._index(train, origin) >= self._index(train, destination):
            return f"{train} does not go from {self.stations[origin]} to {self.stations[destination]}"
        return ""

    def _departs(self, train: str, date: str, station: str) -> str:
        """The expected departure, delay included."""
        stop = self.trains[train]["stops"][self._index(train, station)]
        return self._shifted(stop["departs"], self._disruption(train, date)["minutes"])

    def _arrives(self, train: str, date: str, station: str) -> str:
        stop = self.trains[train]["stops"][self._index(train, station)]
        return self._shifted(stop["arrives"], self._disruption(train, date)["minutes"])

    def _gone(self, train: str, date: str, origin: str) -> bool:
        return (date, self._departs(train, date, origin)) <= (self.today, self.clock)

    def _overlapping(self, train: str, date: str, origin: str, destination: str, skip: str) -> List[Dict[str, Any]]:
        """The valid bookings that share a part of the way."""
        first, last = self._index(train, origin), self._index(train, destination)
        found = []
        for key, entry in self.bookings.items():
            if key == skip or entry["status"] != "valid" or (entry["train"], entry["date"]) != (train, date):
                continue
            if self._index(train, entry["origin"]) < last and first < self._index(train, entry["destination"]):
                found.append(entry)
        return found

    def _free(self, train: str, date: str, origin: str, destination: str, skip: str = "") -> Dict[str, int]:
        """What is free on every part of the way: seats in each class and bicycle places."""
        stops = [stop["station"] for stop in self.trains[train]["stops"]]
        way = stops[self._index(train, origin) : self._index(train, destination) + 1]
        free = dict(self.trains[train]["seats"], bicycles=self.trains[train]["bicycles"])
        for entry in self.sold_elsewhere:
            if (entry["train"], entry["date"]) == (train, date):
                for name in ("first", "second", "bicycles"):
                    free[name] -= entry.get(name, 0)
        taken = {"first": 0, "second": 0, "bicycles": 0}
        for start, end in zip(way, way[1:]):
            here = {"first": 0, "second": 0, "bicycles": 0}
            for entry in self._overlapping(train, date, start, end, skip):
                here[entry["travel_class"]] += len(entry["traveller_ids"])
                here["bicycles"] += entry["bicycles"]
            taken = {name: max(taken[name], here[name]) for name in taken}
        return {name: max(free[name] - taken[name], 0) for name in free}

    def _unfit_train(self, train: str, date: str, origin: str, destination: str) -> str:
        """Why nothing can be sold for that train, day and way, or an empty text."""
        if train not in self.trains:
            return f"No train {train}"
        problem = self._way(train, origin, destination)
        if problem:
            return problem
        if not 0 <= self._days_until(date) <= BOOKING_DAYS:
            return f"Tickets are sold from {self.today} to {BOOKING_DAYS} days ahead"
        if not self._runs(train, date):
            return f"{train} does not run on {date}"
        if self._cancelled(train, date):
            return f"{train} is cancelled on {date}"
        if self._gone(train, date, origin):
            return f"{train} has left {self.stations[origin]}"
        return ""

    def _unfit_party(self, traveller_ids: List[str], date: str) -> str:
        """Why these people cannot travel on one booking, or an empty text."""
        if not traveller_ids or len(traveller_ids) > LARGEST_GROUP:
            return f"A booking has 1 to {LARGEST_GROUP} travellers"
        for key in traveller_ids:
            if key not in self.customers:
                return f"No customer {key}"
        if len(set(traveller_ids)) < len(traveller_ids):
            return "A traveller is named twice"
        if all(self._age(key, date) < ADULT_FROM for key in traveller_ids):
            return f"Children under {ADULT_FROM} travel with somebody who is {ADULT_FROM} or older"
        return ""

    def _card(self, customer_id: str, date: str) -> str:
        """The kind of the card that the customer holds on a day, or an empty text."""
        card = self.customers[customer_id]["card"]
        return card["kind"] if card and card["valid_until"] >= date else ""

    def _price_lines(
        self, train: str, date: str, origin: str, destination: str, travel_class: str, fare: str, people: List[str]
    ) -> List[Dict[str, Any]]:
        """What each traveller pays and which reduction counted."""
        stops = self.trains[train]["stops"]
        km = stops[self._index(train, destination)]["km"] - stops[self._index(train, origin)]["km"]
        base = km * CENTS_A_KM[self.trains[train]["kind"]]
        base = base * FIRST_CLASS_PERCENT // 100 if travel_class == "first" else base
        base = base * SAVER_PERCENT // 100 if fare == "saver" else base
        group = fare == "flex" and len(people) >= GROUP_SIZE
        lines = []
        for key in people:
            cents, why, age = base, [], self._age(key, date)
            if age < ADULT_FROM:
                cents = 0 if age < INFANT_UNDER else cents // 2
                why.append("infant" if age < INFANT_UNDER else "child")
            card = self._card(key, date)
            if group:
                cents = cents * GROUP_PERCENT // 100
                why.append("group")
            elif card:
                cents = cents * CARD_PERCENT[(card, fare)] // 100
                why.append(card)
            lines.append({"customer_id": key, "cents": cents // 10 * 10, "reductions": why})
        return lines

    def _price(self, entry: Dict[str, Any], **changed: Any) -> int:
        """What the seats of a booking cost, with some of its fields changed."""
        seen = {**entry, **changed}
        lines = self._price_lines(
            seen["train"],
            seen["date"],
            seen["origin"],
            seen["destination"],
            seen["travel_class"],
            seen["fare"],
            seen["traveller_ids"],
        )
        return sum(line["cents"] for line in lines)

    def _pay(self, customer_id: str, booking_id: str, cents: int, what: str) -> None:
        if cents:
            line = {"customer_id": customer_id, "booking_id": booking_id, "cents": cents, "what": what}
            self.payments.append({**line, "date": self.today})

    def _unfit_sale(
        self, train: str, date: str, origin: str, destination: str, travel_class: str, fare: str, people: List[str]
    ) -> str:
        """Why the party cannot be sold these tickets, or an empty text."""
        if travel_class not in ("first", "second"):
            return "The class must be first or second"
        if fare not in ("flex", "saver"):
            return "The fare must be flex or saver"
        problem = self._unfit_train(train, date, origin, destination) or self._unfit_party(people, date)
        if problem:
            return problem
        if fare == "saver" and self._days_until(date) < SAVER_DAYS:
            return f"Saver tickets are sold until {SAVER_DAYS} days before the journey"
        return ""

    def _closed(self, booking_id: str) -> str:
        """Why nothing can be done with a booking any more, or an empty text."""
        if booking_id not in self.bookings:
            return f"No booking {booking_id}"
        entry = self.bookings[booking_id]
        if entry["status"] != "valid":
            return f"Booking {booking_id} is {entry['status']}"
        stranded = self._cancelled(entry["train"], entry["date"]) and entry["date"] >= self.today
        if not stranded and self._gone(entry["train"], entry["date"], entry["origin"]):
            return f"The train of booking {booking_id} has left"
        return ""

    def _twice(self, people: List[str], train: str, date: str, skip: str = "") -> str:
        """Who already has a ticket for that train and day, or an empty text."""
        for key, entry in self.bookings.items():
            if key == skip or entry["status"] != "valid" or (entry["train"], entry["date"]) != (train, date):
                continue
            for person in people:
                if person in entry["traveller_ids"]:
                    return f"{self.customers[person]['name']} already travels on {train} that day, booking {key}"
        return ""

    def _listed(self, booking_id: str) -> Dict[str, Any]:
        entry = copy.deepcopy(self.bookings[booking_id])
        departs = self._departs(entry["train"], entry["date"], entry["origin"])
        return {"booking_id": booking_id, **entry, "departs": departs}

    # Tools that look.

    def find_customers(self, text: str) -> Dict[str, Any]:
        """Find customers whose name, town or organisation contains a text.

        Args:
            text (str): What to look for; upper and lower case count the same.
        """
        problem = self._misfit({"text": text})
        if problem:
            return self._refuse(problem)
        wanted = text.strip().lower()
        found = []
        for key, customer in self.customers.items():
            if any(wanted in customer[field].lower() for field in ("name", "town", "organisation")):
                shown = {field: customer[field] for field in ("name", "born", "town", "organisation")}
                found.append({"customer_id": key, **shown})
        return {"success": True, "customers": found}

    def get_customer(self, customer_id: str) -> Dict[str, Any]:
        """Show a customer with the discount card and the valid bookings the customer pays for or travels on.

        Args:
            customer_id (str): The customer's number, such as "C-07".
        """
        problem = self._misfit({"customer_id": customer_id})
        if problem:
            return self._refuse(problem)
        if customer_id not in self.customers:
            return self._refuse(f"No customer {customer_id}")
        held = [
            key
            for key, entry in self.bookings.items()
            if entry["status"] == "valid" and customer_id in [entry["payer_id"], *entry["traveller_ids"]]
        ]
        return {"success": True, "customer": copy.deepcopy(self.customers[customer_id]), "booking_ids": held}

    def find_stations(self, text: str = "") -> Dict[str, Any]:
        """List stations whose name contains a text, with the code that other tools ask for.

        Args:
            text (str, optional): What to look for; without it all stations are listed.
        """
        problem = self._misfit({"text": text})
        if problem:
            return self._refuse(problem)
        wanted = text.strip().lower()
        found = [{"code": key, "name": name} for key, name in self.stations.items() if wanted in name.lower()]
        return {"success": True, "stations": found}

    def find_connections(self, origin: str, destination: str, date: str, after: str = "00:00") -> Dict[str, Any]:
        """List connections of a day, direct or with one change, by departure; delays are counted in.

        Cancelled trains are left out; each leg says how many seats are still free. A change needs 8 minutes.

        Args:
            origin (str): The code of the station where the journey starts, such as "PAM".
            destination (str): The code of the station where it ends.
            date (str): The day as YYYY-MM-DD.
            after (str, optional): The earliest departure as HH:MM.
        """
        problem = self._misfit({"origin": origin, "destination": destination, "date": date, "after": after})
        if problem:
            return self._refuse(problem)
        for station in (origin, destination):
            if station not in self.stations:
                return self._refuse(f"No station {station}")
        running = [key for key in self.trains if self._runs(key, date) and not self._cancelled(key, date)]
        found = []
        for key in running:
            if self._index(key, origin) < 0 or self._departs(key, date, origin) < after:
                continue
            if not self._way(key, origin, destination):
                found.append([self._leg(key, date, origin, destination)])
                continue
            found.extend(self._changes(key, date, origin, destination, running))
        found.sort(key=lambda legs: (legs[0]["departs"], legs[-1]["arrives"], len(legs)))
        shown = [
            {"departs": legs[0]["departs"], "arrives": legs[-1]["arrives"], "changes": len(legs) - 1, "legs": legs}
            for legs in found
        ]
        return {"success": True, "connections": shown}

    def _leg(self, train: str, date: str, origin: str, destination: str) -> Dict[str, Any]:
        free = self._free(train, date, origin, destination)
        return {
            "train": train,
            "origin": origin,
            "destination": destination,
            "departs": self._departs(train, date, origin),
            "arrives": self._arrives(train, date, destination),
            "free_first": free["first"],
            "free_second": free["second"],
        }

    def _changes(
        self, train: str, date: str, origin: str, destination: str, running: List[str]
    ) -> List[List[Dict[str, Any]]]:
        """The journeys that start on a train and go on with the first other one from a later stop."""
        best: Dict[str, List[Dict[str, Any]]] = {}
        for stop in self.trains[train]["stops"][self._index(train, origin) + 1 :]:
            here = stop["station"]
            ready = self._minutes(self._arrives(train, date, here)) + CHANGE_MINUTES
            onward = [
                other
                for other in running
                if other != train
                and not self._way(other, here, destination)
                and self._minutes(self._departs(other, date, here)) >= ready
            ]
            if onward:
                other = min(onward, key=lambda key: (self._arrives(key, date, destination), key))
                legs = [self._leg(train, date, origin, here), self._leg(other, date, here, destination)]
                best.setdefault(other, legs)
        return list(best.values())

    def show_train(self, train: str, date: str) -> Dict[str, Any]:
        """Show a train on a day: its stops, whether it is cancelled or late, and free seats and bicycle places.

        Args:
            train (str): The train's number, such as "EX 13".
            date (str): The day as YYYY-MM-DD.
        """
        problem = self._misfit({"train": train, "date": date})
        if problem:
            return self._refuse(problem)
        if train not in self.trains:
            return self._refuse(f"No train {train}")
        entry, trouble = self.trains[train], self._disruption(train, date)
        stops = copy.deepcopy(entry["stops"])
        return {
            "success": True,
            "train": train,
            "kind": entry["kind"],
            "runs": self._runs(train, date),
            "disruption": {"kind": trouble["kind"], "minutes": trouble["minutes"]},
            "stops": stops,
            "free": self._free(train, date, stops[0]["station"], stops[-1]["station"]),
        }

    def quote_fare(
        self,
        train: str,
        date: str,
        origin: str,
        destination: str,
        travel_class: str,
        fare: str,
        traveller_ids: List[str],
    ) -> Dict[str, Any]:
        """Say what a party would pay for a train, traveller by traveller, and how many seats are free.

        Args:
            train (str): The train's number.
            date (str): The day as YYYY-MM-DD.
            origin (str): The code of the station where they get on.
            destination (str): The code of the station where they get off.
            travel_class (str): "first" or "second".
            fare (str): "flex" or "saver".
            traveller_ids (list of str): The numbers of everybody who travels.
        """
        place = {"train": train, "date": date, "origin": origin, "destination": destination}
        terms = {"travel_class": travel_class, "fare": fare, "traveller_ids": traveller_ids}
        problem = self._misfit({**place, **terms}) or self._unfit_sale(
            train, date, origin, destination, travel_class, fare, traveller_ids
        )
        if problem:
            return self._refuse(problem)
        lines = self._price_lines(train, date, origin, destination, travel_class, fare, traveller_ids)
        free = self._free(train, date, origin, destination)[travel_class]
        return {
            "success": True,
            "total_cents": sum(line["cents"] for line in lines),
            "travellers": lines,
            "free_seats": free,
        }

    def list_bookings(
        self,
        customer_id: Optional[str] = None,
        train: Optional[str] = None,
        date: Optional[str] = None,
        valid_only: bool = True,
    ) -> Dict[str, Any]:
        """List bookings by day and departure, narrowed by any of the arguments.

        Args:
            customer_id (str, optional): Only those this customer pays for or travels on.
            train (str, optional): Only those for this train.
            date (str, optional): Only those of this day, YYYY-MM-DD.
            valid_only (bool, optional): Leave out what was refunded.
        """
        if type(valid_only) is not bool:
            return self._refuse("valid_only must be true or false")
        problem = self._misfit({}, {"customer_id": customer_id, "train": train, "date": date})
        if problem:
            return self._refuse(problem)
        found = []
        for key, entry in self.bookings.items():
            people = [entry["payer_id"], *entry["traveller_ids"]]
            if customer_id is not None and customer_id not in people:
                continue
            if train not in (None, entry["train"]) or date not in (None, entry["date"]):
                continue
            if entry["status"] == "valid" or not valid_only:
                found.append(self._listed(key))
        found.sort(key=lambda entry: (entry["date"], entry["departs"], entry["booking_id"]))
        return {"success": True, "bookings": found}

    def list_disruptions(self, date: Optional[str] = None) -> Dict[str, Any]:
        """List trains that are cancelled or late, by day.

        Args:
            date (str, optional): Only this day's, YYYY-MM-DD.
        """
        problem = self._misfit({}, {"date": date})
        if problem:
            return self._refuse(problem)
        found = [copy.deepcopy(entry) for entry in self.disruptions if date in (None, entry["date"])]
        found.sort(key=lambda entry: (entry["date"], entry["train"]))
        return {"success": True, "disruptions": found}

    # Tools that change.

    def register_customer(self, name: str, born: str) -> Dict[str, Any]:
        """Register somebody who is not a customer yet.

        Args:
            name (str): First and last name.
            born (str): The date of birth as YYYY-MM-DD.
        """
        problem = self._misfit({"name": name, "born": born})
        if problem:
            return self._refuse(problem)
        name = " ".join(name.split())
        if len(name.split()) < 2 or len(name) > 80:
            return self._refuse("Give a first and a last name, at most 80 characters")
        if not "1900-01-01" <= born <= self.today:
            return self._refuse("The date of birth must lie between 1900 and today")
        for key, customer in self.customers.items():
            if (customer["name"].lower(), customer["born"]) == (name.lower(), born):
                return self._refuse(f"{name} is already customer {key}")
        key = f"C-{self.next_customer:02d}"
        self.next_customer += 1
        self.customers[key] = {"name": name, "born": born, "town": "", "organisation": "", "card": None}
        return {"success": True, "customer_id": key}

    def sell_card(self, customer_id: str, kind: str) -> Dict[str, Any]:
        """Sell a discount card for a year; a card of the same kind that ends soon is extended from its last day.

        Args:
            customer_id (str): Who gets and pays the card.
            kind (str): "card25" (59.00) or "card50" (219.00).
        """
        problem = self._misfit({"customer_id": customer_id, "kind": kind})
        if problem:
            return self._refuse(problem)
        if customer_id not in self.customers:
            return self._refuse(f"No customer {customer_id}")
        if kind not in CARD_CENTS:
            return self._refuse(f"Cards are {', '.join(CARD_CENTS)}")
        if self._age(customer_id, self.today) < ADULT_FROM:
            return self._refuse(f"Cards are sold to people who are {ADULT_FROM} or older")
        start, held = self.today, self._card(customer_id, self.today)
        if held == kind:
            start = self.customers[customer_id]["card"]["valid_until"]
            if self._days_until(start) > CARD_RENEWAL_DAYS:
                return self._refuse(f"The {kind} is valid until {start}; it is extended in its last 30 days")
        elif held == "card50":
            return self._refuse("A card50 that is still valid is not replaced by a lesser card")
        until = self._later(start, CARD_DAYS)
        self.customers[customer_id]["card"] = {"kind": kind, "valid_until": until}
        self._pay(customer_id, "", CARD_CENTS[kind], "card")
        return {"success": True, "valid_until": until, "paid_cents": CARD_CENTS[kind]}

    def book_tickets(
        self,
        payer_id: str,
        traveller_ids: List[str],
        train: str,
        date: str,
        origin: str,
        destination: str,
        travel_class: str,
        fare: str,
    ) -> Dict[str, Any]:
        """Sell tickets for one train to a party; a journey with a change takes one booking for each train.

        Args:
            payer_id (str): Who pays, whether travelling or not.
            traveller_ids (list of str): The numbers of everybody who travels.
            train (str): The train's number.
            date (str): The day as YYYY-MM-DD.
            origin (str): The code of the station where they get on.
            destination (str): The code of the station where they get off.
            travel_class (str): "first" or "second".
            fare (str): "flex", or "saver" until three days before the journey.
        """
        place = {"train": train, "date": date, "origin": origin, "destination": destination}
        terms = {"travel_class": travel_class, "fare": fare, "traveller_ids": traveller_ids}
        problem = self._misfit({"payer_id": payer_id, **place, **terms})
        if problem:
            return self._refuse(problem)
        if payer_id not in self.customers:
            return self._refuse(f"No customer {payer_id}")
        problem = self._unfit_sale(train, date, origin, destination, travel_class, fare, traveller_ids)
        problem = problem or self._twice(traveller_ids, train, date)
        if problem:
            return self._refuse(problem)
        free = self._free(train, date, origin, destination)[travel_class]
        if free < len(traveller_ids):
            return self._refuse(f"{train} has {free} {travel_class} class seats left on that way")
        key = f"B-{self.next_booking}"
        self.next_booking += 1
        entry = {"payer_id": payer_id, **place, **terms, "traveller_ids": list(traveller_ids)}
        cents = self._price(entry)
        self.bookings[key] = {
            **entry,
            "price_cents": cents,
            "bicycles": 0,
            "status": "valid",
            "compensated": False,
        }
        self._pay(payer_id, key, cents, "tickets")
        return {"success": True, "booking_id": key, "paid_cents": cents}

    def rebook(self, booking_id: str, train: str, date: str) -> Dict[str, Any]:
        """Move a booking to another train or day on the same way; the payer pays or gets back the difference.

        A flex booking can always be moved before departure. If its train is cancelled, a booking of either fare
        moves without charge to any train of that day or the two days after it.

        Args:
            booking_id (str): The booking's number, such as "B-104".
            train (str): The new train's number.
            date (str): The new day as YYYY-MM-DD.
        """
        problem = self._misfit({"booking_id": booking_id, "train": train, "date": date}) or self._closed(booking_id)
        if problem:
            return self._refuse(problem)
        entry = self.bookings[booking_id]
        late = (self._date(date) - self._date(entry["date"])).days
        free_of_charge = self._cancelled(entry["train"], entry["date"]) and 0 <= late <= FREE_REBOOKING_DAYS
        if entry["fare"] == "saver" and not free_of_charge:
            return self._refuse("Saver tickets are bound to their train")
        if (train, date) == (entry["train"], entry["date"]):
            return self._refuse("That is the train the booking is for")
        people = entry["traveller_ids"]
        problem = self._unfit_train(train, date, entry["origin"], entry["destination"])
        problem = problem or self._unfit_party(people, date) or self._twice(people, train, date, skip=booking_id)
        if problem:
            return self._refuse(problem)
        free = self._free(train, date, entry["origin"], entry["destination"], skip=booking_id)
        if free[entry["travel_class"]] < len(people):
            left = free[entry["travel_class"]]
            return self._refuse(f"{train} has {left} {entry['travel_class']} class seats left on that way")
        if free["bicycles"] < entry["bicycles"]:
            return self._refuse(f"{train} has {free['bicycles']} bicycle places left on that way")
        price = entry["price_cents"] if free_of_charge else self._price(entry, train=train, date=date)
        difference = price - entry["price_cents"]
        entry.update(train=train, date=date, price_cents=price)
        self._pay(entry["payer_id"], booking_id, difference, "rebooking")
        return {"success": True, "booking_id": booking_id, "difference_cents": difference}

    def refund_booking(self, booking_id: str) -> Dict[str, Any]:
        """Give a whole booking back before departure; bicycle places are always paid back.

        Flex tickets are paid back in full, saver tickets by half and only until the day before the journey. If
        the train is cancelled, everything is paid back.

        Args:
            booking_id (str): The booking's number.
        """
        problem = self._misfit({"booking_id": booking_id}) or self._closed(booking_id)
        if problem:
            return self._refuse(problem)
        entry = self.bookings[booking_id]
        cents = entry["price_cents"]
        if entry["fare"] == "saver" and not self._cancelled(entry["train"], entry["date"]):
            if self._days_until(entry["date"]) < 1:
                return self._refuse("Saver tickets are not taken back on the day of the journey")
            cents = cents // 20 * 10
        cents += entry["bicycles"] * BICYCLE_CENTS
        entry["status"] = "refunded"
        self._pay(entry["payer_id"], booking_id, -cents, "refund")
        return {"success": True, "booking_id": booking_id, "refunded_cents": cents}

    def remove_travellers(self, booking_id: str, traveller_ids: List[str]) -> Dict[str, Any]:
        """Take some travellers off a flex booking; the others are priced anew, the payer pays or gets the difference.

        The group reduction is lost when fewer than six stay.

        Args:
            booking_id (str): The booking's number.
            traveller_ids (list of str): Who does not travel.
        """
        given = {"booking_id": booking_id, "traveller_ids": traveller_ids}
        problem = self._misfit(given) or self._closed(booking_id)
        if problem:
            return self._refuse(problem)
        entry = self.bookings[booking_id]
        if entry["fare"] != "flex":
            return self._refuse("Nobody is taken off a saver booking")
        for key in traveller_ids:
            if key not in entry["traveller_ids"]:
                return self._refuse(f"{key} is not on booking {booking_id}")
        left = [key for key in entry["traveller_ids"] if key not in traveller_ids]
        if not traveller_ids or not left:
            return self._refuse("Name some of the travellers, not all; a whole booking is refunded")
        problem = self._unfit_party(left, entry["date"])
        if problem:
            return self._refuse(problem)
        if entry["bicycles"] > len(left):
            return self._refuse(f"The booking has {entry['bicycles']} bicycle places: one for each traveller at most")
        price = self._price(entry, traveller_ids=left)
        difference = price - entry["price_cents"]
        entry.update(traveller_ids=left, price_cents=price)
        self._pay(entry["payer_id"], booking_id, difference, "fewer travellers")
        return {"success": True, "booking_id": booking_id, "difference_cents": difference}

    def reserve_bicycles(self, booking_id: str, places: int) -> Dict[str, Any]:
        """Add bicycle places to a booking for 6.00 each, at most one for each traveller.

        Args:
            booking_id (str): The booking's number.
            places (int): How many places to add.
        """
        problem = self._misfit({"booking_id": booking_id, "places": places}) or self._closed(booking_id)
        if problem:
            return self._refuse(problem)
        entry = self.bookings[booking_id]
        if places < 1 or entry["bicycles"] + places > len(entry["traveller_ids"]):
            return self._refuse("There is one bicycle place for each traveller at most")
        if self._cancelled(entry["train"], entry["date"]):
            return self._refuse(f"{entry['train']} is cancelled on {entry['date']}")
        free = self._free(entry["train"], entry["date"], entry["origin"], entry["destination"])["bicycles"]
        if free < places:
            return self._refuse(f"{entry['train']} has {free} bicycle places left on that way")
        entry["bicycles"] += places
        self._pay(entry["payer_id"], booking_id, places * BICYCLE_CENTS, "bicycles")
        return {"success": True, "booking_id": booking_id, "paid_cents": places * BICYCLE_CENTS}

    def upgrade_to_first(self, booking_id: str) -> Dict[str, Any]:
        """Move a second class booking to first class on the same train; it is priced anew, the payer pays the difference.

        Args:
            booking_id (str): The booking's number.
        """
        problem = self._misfit({"booking_id": booking_id}) or self._closed(booking_id)
        if problem:
            return self._refuse(problem)
        entry = self.bookings[booking_id]
        if entry["travel_class"] == "first":
            return self._refuse("The booking is for first class already")
        if self._cancelled(entry["train"], entry["date"]):
            return self._refuse(f"{entry['train']} is cancelled on {entry['date']}")
        free = self._free(entry["train"], entry["date"], entry["origin"], entry["destination"])["first"]
        if free < len(entry["traveller_ids"]):
            return self._refuse(f"{entry['train']} has {free} first class seats left on that way")
        price = self._price(entry, travel_class="first")
        difference = price - entry["price_cents"]
        entry.update(travel_class="first", price_cents=price)
        self._pay(entry["payer_id"], booking_id, difference, "upgrade")
        return {"success": True, "booking_id": booking_id, "difference_cents": difference}

    def compensate_delay(self, booking_id: str) -> Dict[str, Any]:
        """Pay for lateness, once a booking: a quarter of the ticket price from 60 minutes on, half from 120.

        Args:
            booking_id (str): The number of a booking whose train has run in the last 30 days.
        """
        problem = self._misfit({"booking_id": booking_id})
        if problem:
            return self._refuse(problem)
        if booking_id not in self.bookings or self.bookings[booking_id]["status"] != "valid":
            return self._refuse(f"No valid booking {booking_id}")
        entry = self.bookings[booking_id]
        trouble = self._disruption(entry["train"], entry["date"])
        share = next((percent for least, percent in DELAY_PERCENT if trouble["minutes"] >= least), 0)
        if trouble["kind"] != "delayed" or not share:
            return self._refuse(f"{entry['train']} was not 60 minutes late on {entry['date']}")
        arrival = self._arrives(entry["train"], entry["date"], entry["destination"])
        if (entry["date"], arrival) > (self.today, self.clock):
            return self._refuse("The train has not arrived yet")
        if -self._days_until(entry["date"]) > CLAIM_DAYS:
            return self._refuse(f"Lateness is paid for within {CLAIM_DAYS} days")
        if entry["compensated"]:
            return self._refuse(f"Booking {booking_id} was compensated before")
        cents = entry["price_cents"] * share // 1000 * 10
        entry["compensated"] = True
        self._pay(entry["payer_id"], booking_id, -cents, "compensation")
        return {"success": True, "booking_id": booking_id, "compensation_cents": cents}
