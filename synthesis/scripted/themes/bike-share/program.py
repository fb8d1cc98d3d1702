import copy
from typing import Any, Dict, List, Optional

FREE_MINUTES = 30
CENTS_A_MINUTE = {"day": 5, "year": 2}
RENTALS_AT_ONCE = {"day": 1, "year": 2}
DEBT_LIMIT_CENTS = 500
SERVICE_KILOMETRES = 500


class BikeShare:
    """The state of the control desk. Money is in cents."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.stations: Dict[str, Dict[str, Any]] = state.get("stations", {})
        self.bikes: Dict[str, Dict[str, Any]] = state.get("bikes", {})
        self.riders: Dict[str, Dict[str, Any]] = state.get("riders", {})
        self.rentals: Dict[str, Dict[str, Any]] = state.get("rentals", {})

    def _refuse(self, reason: str) -> Dict[str, Any]:
        return {"success": False, "error": reason}

    def _free_docks(self, station_id: str) -> int:
        standing = [bike for bike in self.bikes.values() if bike["station_id"] == station_id]
        return self.stations[station_id]["docks"] - len(standing)

    def _open_rentals(self, rider_id: str) -> List[str]:
        return [key for key, one in self.rentals.items() if one["rider_id"] == rider_id and one["open"]]

    def _no_place(self, station_id: str) -> str:
        """Why no bike can be put down at a station, or an empty text."""
        if station_id not in self.stations:
            return f"There is no station {station_id}"
        if self.stations[station_id]["closed"]:
            return f"The station {station_id} is closed"
        if self._free_docks(station_id) < 1:
            return f"The station {station_id} has no free dock"
        return ""

    def find_riders(self, text: str) -> Dict[str, Any]:
        """Find riders by a part of their name.

        Args:
            text (str): What to look for; upper and lower case count the same.
        """
        wanted = text.strip().lower()
        found = [
            {"rider_id": key, "name": rider["name"]}
            for key, rider in self.riders.items()
            if wanted in rider["name"].lower()
        ]
        return {"success": True, "riders": found}

    def get_rider(self, rider_id: str) -> Dict[str, Any]:
        """Show a rider with plan, open rentals and what is owed in cents.

        Args:
            rider_id (str): The rider's number, such as "R-01".
        """
        if rider_id not in self.riders:
            return self._refuse(f"There is no rider {rider_id}")
        rider = copy.deepcopy(self.riders[rider_id])
        return {"success": True, "rider": rider, "open_rentals": self._open_rentals(rider_id)}

    def list_stations(self, open_only: bool = False) -> Dict[str, Any]:
        """List stations with their free docks.

        Args:
            open_only (bool, optional): Leave out stations that are closed.
        """
        found = [
            {"station_id": key, **station, "free_docks": self._free_docks(key)}
            for key, station in self.stations.items()
            if not (open_only and station["closed"])
        ]
        return {"success": True, "stations": found}

    def list_bikes(self, station_id: Optional[str] = None, condition: Optional[str] = None) -> Dict[str, Any]:
        """List bikes, those with the fewest kilometres first.

        Args:
            station_id (str, optional): Only bikes that stand at this station.
            condition (str, optional): Only bikes in this condition: "ready", "rented" or "workshop".
        """
        if station_id is not None and station_id not in self.stations:
            return self._refuse(f"There is no station {station_id}")
        found = [
            {"bike_id": key, **bike}
            for key, bike in self.bikes.items()
            if station_id in (None, bike["station_id"]) and condition in (None, bike["condition"])
        ]
        found.sort(key=lambda bike: (bike["kilometres"], bike["bike_id"]))
        return {"success": True, "bikes": found}

    def list_rentals(self, rider_id: str, open_only: bool = True) -> Dict[str, Any]:
        """List a rider's rentals.

        Args:
            rider_id (str): The rider's number.
            open_only (bool, optional): Leave out rides that are over.
        """
        if rider_id not in self.riders:
            return self._refuse(f"There is no rider {rider_id}")
        found = [
            {"rental_id": key, **one}
            for key, one in self.rentals.items()
            if one["rider_id"] == rider_id and (one["open"] or not open_only)
        ]
        return {"success": True, "rentals": found}

    def start_rental(self, rider_id: str, bike_id: str) -> Dict[str, Any]:
        """Give a rider a bike that is ready.

        Args:
            rider_id (str): Who rides. A rider who is blocked or owes more than 500 cents gets no bike.
            bike_id (str): Which bike. One with 500 kilometres or more since its last service is not rented out.
        """
        if rider_id not in self.riders:
            return self._refuse(f"There is no rider {rider_id}")
        if bike_id not in self.bikes or self.bikes[bike_id]["condition"] != "ready":
            return self._refuse(f"The bike {bike_id} is not ready")
        rider, bike = self.riders[rider_id], self.bikes[bike_id]
        if rider["blocked"] or rider["owed_cents"] > DEBT_LIMIT_CENTS:
            return self._refuse(f"{rider['name']} is blocked or owes too much")
        if len(self._open_rentals(rider_id)) >= RENTALS_AT_ONCE[rider["plan"]]:
            return self._refuse(f"A rider on a {rider['plan']} plan holds no more open rentals")
        if bike["kilometres"] >= SERVICE_KILOMETRES:
            return self._refuse(f"The bike {bike_id} is due for service")
        key = f"T-{len(self.rentals) + 1}"
        self.rentals[key] = {"rider_id": rider_id, "bike_id": bike_id, "minutes": 0, "fee_cents": 0, "open": True}
        bike["condition"], bike["station_id"] = "rented", None
        return {"success": True, "rental_id": key}

    def end_rental(self, rental_id: str, station_id: str, minutes: int) -> Dict[str, Any]:
        """Take a bike back at a station and charge the ride to the rider.

        Args:
            rental_id (str): The open rental's number, such as "T-3".
            station_id (str): Where the bike now stands: a station that is open and has a free dock.
            minutes (int): How long the ride took; must be positive.
        """
        if rental_id not in self.rentals or not self.rentals[rental_id]["open"]:
            return self._refuse(f"There is no open rental {rental_id}")
        problem = self._no_place(station_id)
        if problem:
            return self._refuse(problem)
        if minutes < 1:
            return self._refuse("The minutes must be positive")
        rental = self.rentals[rental_id]
        rider, bike = self.riders[rental["rider_id"]], self.bikes[rental["bike_id"]]
        fee = max(minutes - FREE_MINUTES, 0) * CENTS_A_MINUTE[rider["plan"]]
        rental["minutes"], rental["fee_cents"], rental["open"] = minutes, fee, False
        rider["owed_cents"] += fee
        bike["station_id"], bike["condition"] = station_id, "ready"
        return {"success": True, "fee_cents": fee, "owed_cents": rider["owed_cents"]}

    def take_payment(self, rider_id: str, cents: int) -> Dict[str, Any]:
        """Take a payment from a rider.

        Args:
            rider_id (str): Who pays.
            cents (int): How much; must be positive and at most what is owed.
        """
        if rider_id not in self.riders:
            return self._refuse(f"There is no rider {rider_id}")
        owed = self.riders[rider_id]["owed_cents"]
        if not 1 <= cents <= owed:
            return self._refuse(f"A payment must be positive and at most the {owed} cents that are owed")
        self.riders[rider_id]["owed_cents"] = owed - cents
        return {"success": True, "owed_cents": owed - cents}

    def move_bike(self, bike_id: str, station_id: str) -> Dict[str, Any]:
        """Carry a bike that stands at a station to another one.

        Args:
            bike_id (str): Which bike; it must be ready.
            station_id (str): Where to: another station that is open and has a free dock.
        """
        if bike_id not in self.bikes or self.bikes[bike_id]["condition"] != "ready":
            return self._refuse(f"The bike {bike_id} is not ready")
        problem = self._no_place(station_id)
        if problem:
            return self._refuse(problem)
        if self.bikes[bike_id]["station_id"] == station_id:
            return self._refuse(f"The bike {bike_id} already stands there")
        self.bikes[bike_id]["station_id"] = station_id
        return {"success": True, "free_docks": self._free_docks(station_id)}

    def send_to_workshop(self, bike_id: str) -> Dict[str, Any]:
        """Take a bike that stands at a station out of service.

        Args:
            bike_id (str): Which bike; it must be ready.
        """
        if bike_id not in self.bikes or self.bikes[bike_id]["condition"] != "ready":
            return self._refuse(f"The bike {bike_id} is not ready")
        bike = self.bikes[bike_id]
        bike["station_id"], bike["condition"] = None, "workshop"
        return {"success": True, "bike_id": bike_id}

    def finish_service(self, bike_id: str, station_id: str) -> Dict[str, Any]:
        """Put a serviced bike back at a station; its kilometres count from zero again.

        Args:
            bike_id (str): Which bike; it must be in the workshop.
            station_id (str): Where to: a station that is open and has a free dock.
        """
        if bike_id not in self.bikes or self.bikes[bike_id]["condition"] != "workshop":
            return self._refuse(f"The bike {bike_id} is not in the workshop")
        problem = self._no_place(station_id)
        if problem:
            return self._refuse(problem)
        bike = self.bikes[bike_id]
        bike["station_id"], bike["condition"], bike["kilometres"] = station_id, "ready", 0
        return {"success": True, "bike_id": bike_id}

    def set_station_closed(self, station_id: str, closed: bool) -> Dict[str, Any]:
        """Close a station, or open it again.

        Args:
            station_id (str): Which station.
            closed (bool): Whether it is closed from now on.
        """
        if station_id not in self.stations:
            return self._refuse(f"There is no station {station_id}")
        if self.stations[station_id]["closed"] == closed:
            return self._refuse(f"The station {station_id} is so already")
        self.stations[station_id]["closed"] = closed
        return {"success": True, "closed": closed}
