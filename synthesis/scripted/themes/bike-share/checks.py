"""One class a task, one function a check in the order of the checklist; the docstring is the item."""


class Scenario0Task0:
    def ride_is_over(initial_state, final_state, answer):
        """Marta's ride is over after 47 minutes and her bike stands at Old Mill."""
        ride, bike = final_state["rentals"]["T-2"], final_state["bikes"]["B-14"]
        return not ride["open"] and ride["minutes"] == 47 and bike["station_id"] == "S-1"

    def marta_owes_nothing(initial_state, final_state, answer):
        """Marta owes nothing any more."""
        return final_state["riders"]["R-01"]["owed_cents"] == 0

    def due_bikes_in_workshop(initial_state, final_state, answer):
        """The two bikes at Old Mill with 500 kilometres or more are in the workshop."""
        return all(final_state["bikes"][key]["condition"] == "workshop" for key in ("B-11", "B-13"))

    def others_as_before(initial_state, final_state, answer):
        """Other riders and all other bikes are as before."""
        mine = {"R-01", "B-11", "B-13", "B-14"}
        return all(
            final_state[kind][key] == value
            for kind in ("riders", "bikes", "stations")
            for key, value in initial_state[kind].items()
            if key not in mine
        )


class Scenario0Task1:
    def three_carried(initial_state, final_state, answer):
        """The three bikes of Quay Steps stand at Market Square."""
        return all(final_state["bikes"][key]["station_id"] == "S-3" for key in ("B-15", "B-16", "B-17"))

    def quay_steps_shut(initial_state, final_state, answer):
        """Quay Steps is closed."""
        return final_state["stations"]["S-2"]["closed"] is True

    def rest_as_before(initial_state, final_state, answer):
        """Other stations, other bikes and all rides are as before."""
        moved = ("B-15", "B-16", "B-17")
        bikes = all(final_state["bikes"][k] == b for k, b in initial_state["bikes"].items() if k not in moved)
        stations = all(final_state["stations"][k] == s for k, s in initial_state["stations"].items() if k != "S-2")
        return bikes and stations and final_state["rentals"] == initial_state["rentals"]


class Scenario1Task0:
    def ride_is_over(initial_state, final_state, answer):
        """Nuria's ride is over after 95 minutes and her bike stands at Botanic Garden."""
        ride, bike = final_state["rentals"]["T-1"], final_state["bikes"]["B-38"]
        return not ride["open"] and ride["minutes"] == 95 and bike["station_id"] == "S-2"

    def nuria_owes_nothing(initial_state, final_state, answer):
        """Nuria owes nothing any more."""
        return final_state["riders"]["R-01"]["owed_cents"] == 0

    def due_bike_in_workshop(initial_state, final_state, answer):
        """The bike at Botanic Garden with 500 kilometres is in the workshop."""
        return final_state["bikes"]["B-34"]["condition"] == "workshop"

    def others_as_before(initial_state, final_state, answer):
        """Other riders and all other bikes are as before."""
        mine = {"R-01", "B-34", "B-38"}
        return all(
            final_state[kind][key] == value
            for kind in ("riders", "bikes", "stations")
            for key, value in initial_state[kind].items()
            if key not in mine
        )


class Scenario1Task1:
    def least_ridden_carried(initial_state, final_state, answer):
        """The two least ridden bikes of Castle Hill stand at Tram Depot."""
        return all(final_state["bikes"][key]["station_id"] == "S-3" for key in ("B-31", "B-33"))

    def rest_in_workshop(initial_state, final_state, answer):
        """The bike that found no room is in the workshop."""
        return final_state["bikes"]["B-32"]["condition"] == "workshop"

    def castle_hill_shut(initial_state, final_state, answer):
        """Castle Hill is closed."""
        return final_state["stations"]["S-1"]["closed"] is True

    def rest_as_before(initial_state, final_state, answer):
        """Other stations, other bikes and all rides are as before."""
        moved = ("B-31", "B-32", "B-33")
        bikes = all(final_state["bikes"][k] == b for k, b in initial_state["bikes"].items() if k not in moved)
        stations = all(final_state["stations"][k] == s for k, s in initial_state["stations"].items() if k != "S-1")
        return bikes and stations and final_state["rentals"] == initial_state["rentals"]
