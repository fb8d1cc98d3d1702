"""Requests at the control desk of the bike share."""

from __future__ import annotations

from synthesis.scripted.programs.recipes.words import (
    find_full_names,
    get_named_record,
    get_number_before,
    get_text_after,
)
from synthesis.scripted.programs.solver import Recipe, Steps

SERVICE_KILOMETRES = 500


def end_ride(words: str) -> Steps | None:
    return _end_ride(words) if "put her bike down" in words else None


def _end_ride(words: str) -> Steps:
    name = find_full_names(words)[0]
    riders = yield "find_riders", {"text": name}
    rider = riders["riders"][0]["rider_id"]
    rides = yield "list_rentals", {"rider_id": rider}
    listed = yield "list_stations", {"open_only": True}
    station = get_named_record(words, listed["stations"])["station_id"]
    ride = rides["rentals"][0]["rental_id"]
    minutes = get_number_before(words, "minutes")
    ended_ride = yield "end_rental", {"rental_id": ride, "station_id": station, "minutes": minutes}
    owed = ended_ride["owed_cents"]
    yield "take_payment", {"rider_id": rider, "cents": owed}
    standing = yield "list_bikes", {"station_id": station, "condition": "ready"}
    for bike in standing["bikes"]:
        if bike["kilometres"] >= SERVICE_KILOMETRES:
            yield "send_to_workshop", {"bike_id": bike["bike_id"]}
    message = (
        f"{name.split()[0]} paid {owed} cents; the ride is written up, and bikes that were due are in the workshop."
    )
    return message, {"paid": owed}


def close_station(words: str) -> Steps | None:
    return _close_station(words) if "has to shut" in words else None


def _close_station(words: str) -> Steps:
    listed = yield "list_stations", {}
    source = get_named_record(words, listed["stations"])
    target = get_named_record(get_text_after(words, "over to"), listed["stations"])
    standing = yield "list_bikes", {"station_id": source["station_id"]}
    carried = 0
    for bike in standing["bikes"]:
        if carried < target["free_docks"]:
            yield "move_bike", {"bike_id": bike["bike_id"], "station_id": target["station_id"]}
            carried += 1
        else:
            yield "send_to_workshop", {"bike_id": bike["bike_id"]}
    yield "set_station_closed", {"station_id": source["station_id"], "closed": True}
    message = f"{carried} bikes were carried over to {target['name']}, and {source['name']} is shut."
    return message, {"carried": carried, "workshop": len(standing["bikes"]) - carried}


RECIPES: tuple[Recipe, ...] = (end_ride, close_station)
