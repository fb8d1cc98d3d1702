"""A parcel depot: parcels lie in bays, are held for customs, damage or money, and leave on tours."""

import copy
import datetime
from typing import Any, Literal

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
PLACES = {"small": 1, "medium": 2, "large": 4}
WINDOWS = {"07:30": "morning", "13:00": "afternoon", "17:30": "evening"}
DUTY_PERCENT = {"books": 0, "clothing": 12, "electronics": 4, "other": 8}
DUTY_FREE_CENTS = 15000
CLEARANCE_CENTS = 600
EVENING_CENTS = 350
TAIL_LIFT_GRAMS = 30000
MAX_ATTEMPTS = 3
REDELIVERY_DAYS = 10
PLAN_DAYS = 7
TOURS_A_DAY = 2
EXPRESS_DEPARTURE = "07:30"
LISTED = (
    "recipient",
    "zone",
    "status",
    "bay_id",
    "tour_id",
    "service",
    "size",
    "grams",
    "hold",
    "attempts",
    "redelivery",
)

KINDS = {"date": (str, "a day as YYYY-MM-DD"), "cents": (int, "a whole number")}
CHOICES = {
    "departs": tuple(WINDOWS),
    "window": tuple(WINDOWS.values()),
    "tariff": tuple(DUTY_PERCENT),
    "extent": ("packaging", "contents"),
    "outcome": ("repack", "return"),
    "status": ("in_depot", "loaded", "returning"),
}


class ParcelDepot:
    """Built from an initial-state dict; every attribute is part of the state. Money is in cents, weight in grams."""

    def __init__(self, initial_state: dict[str, Any] | None = None) -> None:
        state = initial_state or {}
        self.today: str = state.get("today", "2026-05-12")
        self.time: str = state.get("time", "06:00")
        self.senders: dict[str, Any] = state.get("senders", {})
        self.bays: dict[str, Any] = state.get("bays", {})
        self.vans: dict[str, Any] = state.get("vans", {})
        self.drivers: dict[str, Any] = state.get("drivers", {})
        self.tours: dict[str, Any] = state.get("tours", {})
        self.parcels: dict[str, Any] = state.get("parcels", {})
        self.charges: list[dict[str, Any]] = state.get("charges", [])
        self.next_tour: int = state.get("next_tour", 1)

    # Helpers. None of them is a tool: only the tools of the manifest can be called.

    def _date(self, text: str) -> datetime.date:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()

    def _refuse(self, reason: str) -> dict[str, Any]:
        return {"success": False, "error": reason}

    def _misfit(self, needed: dict[str, Any], optional: dict[str, Any] | None = None) -> str:
        """Which argument is not of the kind its name asks for, or an empty text."""
        given = {name: value for name, value in (optional or {}).items() if value is not None}
        for name, value in {**needed, **given}.items():
            kind, words = KINDS.get(name, (str, "text"))
            if type(value) is not kind:
                return f"{name} must be {words}"
            if name in CHOICES and value not in CHOICES[name]:
                return f"{name} must be one of {', '.join(CHOICES[name])}"
            if name == "date":
                try:
                    plain = self._date(value).isoformat() == value
                except ValueError:
                    plain = False
                if not plain:
                    return f"{name} must be {words}"
        return ""

    def _unknown(self, **given: str) -> str:
        """Which number names nothing that the depot knows, or an empty text."""
        for name, key in given.items():
            if key not in getattr(self, f"{name}s"):
                return f"No {name} {key}"
        return ""

    def _owed(self, parcel_id: str) -> int:
        return sum(line["cents"] for line in self.charges if line["parcel_id"] == parcel_id)

    def _charge(self, parcel_id: str, cents: int, what: str) -> None:
        self.charges.append({"parcel_id": parcel_id, "cents": cents, "what": what, "date": self.today})

    def _places(self, parcel_id: str) -> int:
        return PLACES[self.parcels[parcel_id]["size"]]

    def _bay_free(self, bay_id: str) -> int:
        taken = sum(self._places(key) for key, parcel in self.parcels.items() if parcel["bay_id"] == bay_id)
        return self.bays[bay_id]["places"] - taken

    def _on_tour(self, tour_id: str) -> list[str]:
        return [key for key, parcel in self.parcels.items() if parcel["tour_id"] == tour_id]

    def _load(self, tour_id: str) -> dict[str, int]:
        van = self.vans[self.tours[tour_id]["van_id"]]
        on_board = self._on_tour(tour_id)
        grams = sum(self.parcels[key]["grams"] for key in on_board)
        places = sum(self._places(key) for key in on_board)
        return {
            "loaded_grams": grams,
            "free_grams": van["payload_grams"] - grams,
            "loaded_places": places,
            "free_places": van["places"] - places,
        }

    def _departures(self, date: str, field: str, key: str) -> list[str]:
        return sorted(tour["departs"] for tour in self.tours.values() if tour["date"] == date and tour[field] == key)

    def _bay_obstacle(self, parcel_id: str, bay_id: str) -> str:
        """Why the parcel cannot lie in the bay, or an empty text."""
        parcel, bay = self.parcels[parcel_id], self.bays[bay_id]
        if bay["kind"] != "zone":
            return f"Bay {bay_id} is the {bay['kind']} bay; parcels come there only by a hold"
        if bay["zone"] != parcel["zone"]:
            return f"Bay {bay_id} is for {bay['zone']}, parcel {parcel_id} goes to {parcel['zone']}"
        if self._bay_free(bay_id) < self._places(parcel_id):
            return f"Bay {bay_id} has {self._bay_free(bay_id)} places free, the parcel needs {self._places(parcel_id)}"
        return ""

    def _stay(self, parcel_id: str) -> str:
        """Why the parcel cannot leave its bay, or an empty text."""
        parcel = self.parcels[parcel_id]
        if parcel["status"] != "in_depot":
            return f"Parcel {parcel_id} is {parcel['status']}"
        if parcel["hold"]:
            return f"Parcel {parcel_id} is held for {parcel['hold']}"
        return ""

    def _tour_obstacle(self, parcel_id: str, tour_id: str) -> str:
        """Why the parcel cannot go on the tour, or an empty text."""
        parcel, tour = self.parcels[parcel_id], self.tours[tour_id]
        van = self.vans[tour["van_id"]]
        window = WINDOWS[tour["departs"]]
        if parcel["zone"] != tour["zone"]:
            return f"Tour {tour_id} goes to {tour['zone']}, parcel {parcel_id} to {parcel['zone']}"
        if self._owed(parcel_id) > 0:
            return f"{self._owed(parcel_id)} cents are still open on parcel {parcel_id}"
        if parcel["service"] == "express" and tour["departs"] != EXPRESS_DEPARTURE:
            return f"An express parcel leaves only at {EXPRESS_DEPARTURE}"
        agreed = parcel["redelivery"]
        if parcel["attempts"] and not agreed:
            return f"Parcel {parcel_id} could not be delivered before; it waits for a new date"
        if agreed and (agreed["date"], agreed["window"]) != (tour["date"], window):
            return f"Parcel {parcel_id} is promised for {agreed['date']} in the {agreed['window']}"
        load = self._load(tour_id)
        if parcel["grams"] > TAIL_LIFT_GRAMS and not van["tail_lift"]:
            return f"{van['name']} has no tail lift for a parcel of {parcel['grams']} grams"
        if load["free_grams"] < parcel["grams"]:
            return f"{van['name']} can take {load['free_grams']} grams more, the parcel weighs {parcel['grams']}"
        if load["free_places"] < self._places(parcel_id):
            return f"{van['name']} has {load['free_places']} places free, the parcel needs {self._places(parcel_id)}"
        return ""

    def _crew_obstacle(self, date: str, zone: str, van_id: str, driver_id: str, departs: str) -> str:
        """Why the van and the driver cannot do the tour, or an empty text."""
        van, driver = self.vans[van_id], self.drivers[driver_id]
        if van["status"] != "ready":
            return f"{van['name']} is in the {van['status']}"
        if departs in self._departures(date, "van_id", van_id):
            return f"{van['name']} is already out on {date} at {departs}"
        if DAYS[self._date(date).weekday()] not in driver["days"]:
            return f"{driver['name']} does not work on {date}"
        if zone not in driver["zones"]:
            return f"{driver['name']} does not drive to {zone}"
        if van["licence"] not in driver["licences"]:
            return f"{van['name']} needs a licence {van['licence']}, which {driver['name']} does not have"
        taken = self._departures(date, "driver_id", driver_id)
        if departs in taken:
            return f"{driver['name']} is already out on {date} at {departs}"
        if len(taken) >= TOURS_A_DAY:
            return f"{driver['name']} already has {len(taken)} tours on {date}"
        return ""

    # Tools that look.

    def find_parcels(
        self,
        text: str = "",
        zone: str | None = None,
        status: Literal["in_depot", "loaded", "returning"] | None = None,
        bay_id: str | None = None,
        tour_id: str | None = None,
    ) -> dict[str, Any]:
        """Find parcels by recipient, street or number, by zone, by status or by where they are.

        Args:
            text (str, optional): What the recipient's name, the street or the number contains.
            zone (str, optional): Only parcels to this zone, such as "Harbour".
            status (str, optional): "in_depot", "loaded" or "returning".
            bay_id (str, optional): Only what lies in this bay.
            tour_id (str, optional): Only what is loaded on this tour.
        """
        problem = self._misfit({}, {"text": text, "zone": zone, "status": status, "bay_id": bay_id, "tour_id": tour_id})
        if problem:
            return self._refuse(problem)
        wanted = (text or "").strip().lower()
        found = []
        for key, parcel in self.parcels.items():
            spoken = f"{key} {parcel['recipient']} {parcel['street']}".lower()
            asked = {"zone": zone, "status": status, "bay_id": bay_id, "tour_id": tour_id}
            if wanted in spoken and all(value in (None, parcel[name]) for name, value in asked.items()):
                row = {name: copy.deepcopy(parcel[name]) for name in LISTED}
                found.append({"parcel_id": key, **row, "owed_cents": self._owed(key)})
        return {"success": True, "parcels": found}

    def get_parcel(self, parcel_id: str) -> dict[str, Any]:
        """Show all that is known of a parcel, with its sender and its charges.

        Args:
            parcel_id (str): The parcel's number, such as "P-1041".
        """
        problem = self._misfit({"parcel_id": parcel_id}) or self._unknown(parcel=parcel_id)
        if problem:
            return self._refuse(problem)
        parcel = copy.deepcopy(self.parcels[parcel_id])
        return {
            "success": True,
            "parcel": {"parcel_id": parcel_id, **parcel},
            "sender": copy.deepcopy(self.senders.get(parcel["sender_id"])),
            "charges": [copy.deepcopy(line) for line in self.charges if line["parcel_id"] == parcel_id],
            "owed_cents": self._owed(parcel_id),
        }

    def list_bays(self, zone: str | None = None) -> dict[str, Any]:
        """List the bays with what they are for and how many places are free: small 1, medium 2, large 4.

        Args:
            zone (str, optional): Only bays for this zone; without it also the customs and the quarantine bay.
        """
        problem = self._misfit({}, {"zone": zone})
        if problem:
            return self._refuse(problem)
        listed = [
            {"bay_id": key, **copy.deepcopy(bay), "free_places": self._bay_free(key)}
            for key, bay in self.bays.items()
            if zone in (None, bay["zone"])
        ]
        return {"success": True, "bays": listed}

    def list_tours(self, date: str | None = None, zone: str | None = None) -> dict[str, Any]:
        """List tours by day and departure, with what is loaded and what still fits.

        Args:
            date (str, optional): Only tours on this day, as YYYY-MM-DD.
            zone (str, optional): Only tours to this zone.
        """
        problem = self._misfit({}, {"date": date, "zone": zone})
        if problem:
            return self._refuse(problem)
        listed = [
            {"tour_id": key, **copy.deepcopy(tour), "parcel_ids": self._on_tour(key), **self._load(key)}
            for key, tour in self.tours.items()
            if date in (None, tour["date"]) and zone in (None, tour["zone"])
        ]
        listed.sort(key=lambda tour: (tour["date"], tour["departs"], tour["tour_id"]))
        return {"success": True, "tours": listed}

    def list_fleet(self, date: str) -> dict[str, Any]:
        """List vans and drivers with the departures for which each is already taken on a day.

        Args:
            date (str): The day as YYYY-MM-DD.
        """
        problem = self._misfit({"date": date})
        if problem:
            return self._refuse(problem)
        weekday = DAYS[self._date(date).weekday()]
        vans = [
            {"van_id": key, **copy.deepcopy(van), "taken": self._departures(date, "van_id", key)}
            for key, van in self.vans.items()
        ]
        drivers = [
            {
                "driver_id": key,
                **copy.deepcopy(driver),
                "works": weekday in driver["days"],
                "taken": self._departures(date, "driver_id", key),
            }
            for key, driver in self.drivers.items()
        ]
        return {"success": True, "vans": vans, "drivers": drivers}

    # Tools that change.

    def move_parcel(self, parcel_id: str, bay_id: str) -> dict[str, Any]:
        """Move a parcel that is not held to a bay of its own zone.

        Args:
            parcel_id (str): The parcel's number.
            bay_id (str): Where it shall lie.
        """
        problem = self._misfit({"parcel_id": parcel_id, "bay_id": bay_id})
        problem = problem or self._unknown(parcel=parcel_id, bay=bay_id) or self._stay(parcel_id)
        if problem:
            return self._refuse(problem)
        if self.parcels[parcel_id]["bay_id"] == bay_id:
            return self._refuse(f"Parcel {parcel_id} already lies in bay {bay_id}")
        obstacle = self._bay_obstacle(parcel_id, bay_id)
        if obstacle:
            return self._refuse(obstacle)
        self.parcels[parcel_id]["bay_id"] = bay_id
        return {"success": True, "parcel_id": parcel_id, "bay_id": bay_id, "free_places": self._bay_free(bay_id)}

    def plan_tour(
        self, date: str, zone: str, van_id: str, driver_id: str, departs: Literal["07:30", "13:00", "17:30"]
    ) -> dict[str, Any]:
        """Plan a tour to one zone with a van and a driver.

        Args:
            date (str): The day as YYYY-MM-DD, from today to 7 days ahead and not a Sunday.
            zone (str): Where it goes.
            van_id (str): The van, such as "V-2".
            driver_id (str): Who drives, such as "D-3".
            departs (str): "07:30", "13:00" or "17:30".
        """
        given = {"date": date, "zone": zone, "van_id": van_id, "driver_id": driver_id, "departs": departs}
        problem = self._misfit(given) or self._unknown(van=van_id, driver=driver_id)
        if problem:
            return self._refuse(problem)
        zones = sorted({bay["zone"] for bay in self.bays.values() if bay["zone"]})
        if zone not in zones:
            return self._refuse(f"Zones are {', '.join(zones)}")
        ahead = (self._date(date) - self._date(self.today)).days
        if not 0 <= ahead <= PLAN_DAYS or DAYS[self._date(date).weekday()] == "sun":
            return self._refuse(f"Tours are planned from today to {PLAN_DAYS} days ahead and not for a Sunday")
        if ahead == 0 and departs <= self.time:
            return self._refuse(f"It is {self.time}: the departure at {departs} is over")
        obstacle = self._crew_obstacle(date, zone, van_id, driver_id, departs)
        if obstacle:
            return self._refuse(obstacle)
        key = f"T-{self.next_tour}"
        self.next_tour += 1
        self.tours[key] = {**given, "status": "planned"}
        return {"success": True, "tour_id": key}

    def load_parcel(self, parcel_id: str, tour_id: str) -> dict[str, Any]:
        """Load a parcel that is not held onto a planned tour to its zone.

        Args:
            parcel_id (str): The parcel's number.
            tour_id (str): The tour's number, such as "T-205".
        """
        problem = self._misfit({"parcel_id": parcel_id, "tour_id": tour_id})
        problem = problem or self._unknown(parcel=parcel_id, tour=tour_id) or self._stay(parcel_id)
        if problem:
            return self._refuse(problem)
        if self.tours[tour_id]["status"] != "planned":
            return self._refuse(f"Tour {tour_id} is {self.tours[tour_id]['status']}; its load stands")
        obstacle = self._tour_obstacle(parcel_id, tour_id)
        if obstacle:
            return self._refuse(obstacle)
        self.parcels[parcel_id].update({"status": "loaded", "bay_id": None, "tour_id": tour_id})
        return {"success": True, "tour_id": tour_id, **self._load(tour_id)}

    def unload_parcel(self, parcel_id: str, bay_id: str) -> dict[str, Any]:
        """Take a parcel off a planned tour and put it into a bay of its zone.

        Args:
            parcel_id (str): The parcel's number.
            bay_id (str): Where it shall lie.
        """
        problem = self._misfit({"parcel_id": parcel_id, "bay_id": bay_id})
        problem = problem or self._unknown(parcel=parcel_id, bay=bay_id)
        if problem:
            return self._refuse(problem)
        parcel = self.parcels[parcel_id]
        if parcel["status"] != "loaded":
            return self._refuse(f"Parcel {parcel_id} is not loaded")
        tour = self.tours[parcel["tour_id"]]
        if tour["status"] != "planned":
            return self._refuse(f"Tour {parcel['tour_id']} is {tour['status']}; its load stands")
        obstacle = self._bay_obstacle(parcel_id, bay_id)
        if obstacle:
            return self._refuse(obstacle)
        parcel.update({"status": "in_depot", "bay_id": bay_id, "tour_id": None})
        return {"success": True, "parcel_id": parcel_id, "bay_id": bay_id}

    def release_tour(self, tour_id: str) -> dict[str, Any]:
        """Release a planned tour to its driver; from then on its load stands.

        Args:
            tour_id (str): The tour's number.
        """
        problem = self._misfit({"tour_id": tour_id}) or self._unknown(tour=tour_id)
        if problem:
            return self._refuse(problem)
        if self.tours[tour_id]["status"] != "planned":
            return self._refuse(f"Tour {tour_id} is {self.tours[tour_id]['status']}")
        if not self._on_tour(tour_id):
            return self._refuse(f"Nothing is loaded on tour {tour_id}")
        self.tours[tour_id]["status"] = "released"
        return {"success": True, "tour_id": tour_id, **self._load(tour_id)}

    def clear_customs(
        self, parcel_id: str, tariff: Literal["books", "clothing", "electronics", "other"]
    ) -> dict[str, Any]:
        """Clear a parcel whose invoice is there; duty and 600 cents for the clearance are charged to it.

        Duty is a share of the value: books 0, clothing 12, electronics 4, other 8 percent. Up to a value of 15000
        cents, and where the duty is 0, nothing at all is charged.

        Args:
            parcel_id (str): The parcel's number.
            tariff (str): "books" for anything printed, "clothing" for garments, cloth and shoes, "electronics" for
                what has a plug or a battery, "other" for the rest.
        """
        problem = self._misfit({"parcel_id": parcel_id, "tariff": tariff}) or self._unknown(parcel=parcel_id)
        if problem:
            return self._refuse(problem)
        parcel = self.parcels[parcel_id]
        if parcel["hold"] != "customs":
            return self._refuse(f"Parcel {parcel_id} is not held for customs")
        if not parcel["invoice"]:
            return self._refuse(f"The invoice for parcel {parcel_id} has not come yet")
        duty = 0
        if parcel["value_cents"] > DUTY_FREE_CENTS:
            duty = (parcel["value_cents"] * DUTY_PERCENT[tariff] + 50) // 100
        parcel.update({"hold": None, "tariff": tariff})
        if duty:
            self._charge(parcel_id, duty, "duty")
            self._charge(parcel_id, CLEARANCE_CENTS, "customs clearance")
        return {"success": True, "parcel_id": parcel_id, "duty_cents": duty, "owed_cents": self._owed(parcel_id)}

    def report_damage(self, parcel_id: str, extent: Literal["packaging", "contents"]) -> dict[str, Any]:
        """Write down damage to a parcel in the depot; it is held and goes to the quarantine bay.

        Args:
            parcel_id (str): The parcel's number.
            extent (str): "packaging" where only the wrapping suffered, "contents" where the goods did.
        """
        problem = self._misfit({"parcel_id": parcel_id, "extent": extent})
        problem = problem or self._unknown(parcel=parcel_id) or self._stay(parcel_id)
        if problem:
            return self._refuse(problem)
        for key, bay in self.bays.items():
            if bay["kind"] == "quarantine" and self._bay_free(key) >= self._places(parcel_id):
                self.parcels[parcel_id].update({"hold": "damage", "damage": extent, "bay_id": key})
                return {"success": True, "parcel_id": parcel_id, "bay_id": key}
        return self._refuse("No quarantine bay has room for the parcel")

    def settle_damage(self, parcel_id: str, outcome: Literal["repack", "return"]) -> dict[str, Any]:
        """End a damage hold: repack the parcel, or send it back to its sender.

        Args:
            parcel_id (str): The parcel's number.
            outcome (str): "repack" or "return"; broken contents always go back, else the sender's wish counts.
        """
        problem = self._misfit({"parcel_id": parcel_id, "outcome": outcome}) or self._unknown(parcel=parcel_id)
        if problem:
            return self._refuse(problem)
        parcel = self.parcels[parcel_id]
        if parcel["hold"] != "damage":
            return self._refuse(f"Parcel {parcel_id} is not held for damage")
        wish = "return" if parcel["damage"] == "contents" else self.senders[parcel["sender_id"]]["damaged_packaging"]
        if outcome != wish:
            reason = "its contents are broken" if parcel["damage"] == "contents" else "its sender wants it so"
            return self._refuse(f"The outcome for parcel {parcel_id} is {wish}: {reason}")
        parcel["hold"] = None
        if outcome == "repack":
            parcel["damage"] = "repacked"
        else:
            parcel.update({"status": "returning", "redelivery": None})
        return {"success": True, "parcel_id": parcel_id, "status": parcel["status"], "bay_id": parcel["bay_id"]}

    def book_redelivery(
        self, parcel_id: str, date: str, window: Literal["morning", "afternoon", "evening"]
    ) -> dict[str, Any]:
        """Promise a new day for a parcel whose delivery failed; the evening is charged with 350 cents.

        Args:
            parcel_id (str): The parcel's number.
            date (str): The day as YYYY-MM-DD, from tomorrow to 10 days ahead and not a Sunday.
            window (str): "morning", "afternoon" or "evening".
        """
        problem = self._misfit({"parcel_id": parcel_id, "date": date, "window": window})
        problem = problem or self._unknown(parcel=parcel_id) or self._stay(parcel_id)
        if problem:
            return self._refuse(problem)
        parcel = self.parcels[parcel_id]
        if not parcel["attempts"]:
            return self._refuse(f"No delivery of parcel {parcel_id} has failed")
        if parcel["attempts"] >= MAX_ATTEMPTS:
            return self._refuse(f"Parcel {parcel_id} was tried {parcel['attempts']} times; it is kept for collection")
        ahead = (self._date(date) - self._date(self.today)).days
        if not 1 <= ahead <= REDELIVERY_DAYS or DAYS[self._date(date).weekday()] == "sun":
            return self._refuse(f"A new day is from tomorrow to {REDELIVERY_DAYS} days ahead and not a Sunday")
        if parcel["service"] == "express" and window != WINDOWS[EXPRESS_DEPARTURE]:
            return self._refuse("An express parcel is delivered only in the morning")
        promised = parcel["redelivery"] or {}
        if window == "evening" and promised.get("window") != "evening":
            self._charge(parcel_id, EVENING_CENTS, "evening delivery")
        parcel["redelivery"] = {"date": date, "window": window}
        return {"success": True, "parcel_id": parcel_id, "owed_cents": self._owed(parcel_id)}

    def collect_charge(self, parcel_id: str, cents: int) -> dict[str, Any]:
        """Take money for a parcel, at most what is open on it.

        Args:
            parcel_id (str): The parcel's number.
            cents (int): How much, in cents.
        """
        problem = self._misfit({"parcel_id": parcel_id, "cents": cents}) or self._unknown(parcel=parcel_id)
        if problem:
            return self._refuse(problem)
        owed = self._owed(parcel_id)
        if not 1 <= cents <= owed:
            return self._refuse(f"{owed} cents are open on parcel {parcel_id}; a payment is from 1 to that")
        self._charge(parcel_id, -cents, "payment")
        return {"success": True, "parcel_id": parcel_id, "owed_cents": owed - cents}
