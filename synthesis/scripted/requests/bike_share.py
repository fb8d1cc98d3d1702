"""Requests at the control desk of the bike share."""

from __future__ import annotations

import re
from collections.abc import Mapping

from synthesis.scripted.programs.recipes.words import get_named_record
from synthesis.scripted.programs.solver import Steps
from synthesis.scripted.requests.request import Edges, Request, Thought

EDGES: Edges = {
    "find_riders": (("get_rider", "rider_id"), ("list_rentals", "rider_id"), ("take_payment", "rider_id")),
    "get_rider": (("take_payment", "cents"),),
    "list_rentals": (("end_rental", "rental_id"),),
    "list_stations": (("list_bikes", "station_id"), ("set_station_closed", "station_id")),
    "list_bikes": (("move_bike", "bike_id"), ("send_to_workshop", "bike_id"), ("start_rental", "bike_id")),
}
_NAME = r"(?P<name>[A-Z][a-z]+ [A-Z][a-z]+)"
_PLACE = r"(?P<place>[A-Z][a-z]+ [A-Z][a-z]+)"
_LEAST = (
    "def derive(results):\n"
    '    bikes = results["T"]["bikes"]\n'
    '    return min(bikes, key=lambda bike: bike["kilometres"])["bike_id"]\n'
)
_MOST = _LEAST.replace("min(", "max(")
_HALF = 'def derive(results):\n    return results["T"]["rider"]["owed_cents"] // 2\n'


def _pay_half(said: Mapping[str, str]) -> Steps:
    riders = yield "find_riders", {"text": said["name"]}
    rider = riders["riders"][0]["rider_id"]
    rider_details = yield "get_rider", {"rider_id": rider}
    yield "take_payment", {"rider_id": rider, "cents": rider_details["rider"]["owed_cents"] // 2}
    return "", {}


def _pay_amount(said: Mapping[str, str]) -> Steps:
    riders = yield "find_riders", {"text": said["name"]}
    yield "take_payment", {"rider_id": riders["riders"][0]["rider_id"], "cents": int(said["cents"])}
    return "", {}


def _end_ride(said: Mapping[str, str]) -> Steps:
    riders = yield "find_riders", {"text": said["name"]}
    rides = yield "list_rentals", {"rider_id": riders["riders"][0]["rider_id"]}
    ride = rides["rentals"][0]["rental_id"]
    yield "end_rental", {"rental_id": ride, "station_id": said["station"], "minutes": int(said["minutes"])}
    return "", {}


def _list_ready(said: Mapping[str, str]) -> Steps:
    listed = yield "list_stations", {}
    station = get_named_record(said["place"], listed["stations"])["station_id"]
    standing = yield "list_bikes", {"station_id": station, "condition": "ready"}
    return "", {"bikes": sorted(standing["bikes"], key=lambda bike: bike["kilometres"])}


def _move_bike(said: Mapping[str, str]) -> Steps:
    _, ready = yield from _list_ready(said)
    yield "move_bike", {"bike_id": ready["bikes"][0]["bike_id"], "station_id": said["station"]}
    return "", {}


def _retire_bike(said: Mapping[str, str]) -> Steps:
    _, ready = yield from _list_ready(said)
    yield "send_to_workshop", {"bike_id": ready["bikes"][-1]["bike_id"]}
    return "", {}


def _start_ride(said: Mapping[str, str]) -> Steps:
    _, ready = yield from _list_ready(said)
    yield "start_rental", {"rider_id": said["rider"], "bike_id": ready["bikes"][0]["bike_id"]}
    return "", {}


def _set_station_closed(said: Mapping[str, str]) -> Steps:
    listed = yield "list_stations", {}
    station = get_named_record(said["place"], listed["stations"])["station_id"]
    yield "set_station_closed", {"station_id": station, "closed": said["act"] == "shuts for today"}
    return "", {}


def _build_bike_thought(purpose: str, derivation: str) -> tuple[Thought, ...]:
    return (Thought(1, purpose, derivation, 2, "bike_id", f"It is {purpose}."),)


REQUESTS: tuple[Request, ...] = (
    Request(
        "half a debt",
        ("find_riders", "get_rider", "take_payment"),
        ("Marta Lindqvist pays half of what she owes.", "Oskar Lind pays half of what he owes."),
        re.compile(_NAME + " pays half of what s?he owes"),
        _pay_half,
        (Thought(1, "half of what the rider owes", _HALF, 2, "cents", "Half of the debt is paid."),),
    ),
    Request(
        "the least ridden bike moves",
        ("list_stations", "list_bikes", "move_bike"),
        (
            "The least ridden bike that is ready at Quay Steps is to stand at S-3.",
            "The least ridden bike that is ready at Castle Hill is to stand at S-3.",
        ),
        re.compile(rf"The least ridden bike that is ready at {_PLACE} is to stand at (?P<station>S-\d+)"),
        _move_bike,
        _build_bike_thought("the ready bike with the fewest kilometres", _LEAST),
    ),
    Request(
        "a ride is over",
        ("find_riders", "list_rentals", "end_rental"),
        (
            "Tomasz Wrona is back at S-3, after 52 minutes.",
            "Nuria Castell is back at S-1, after 40 minutes.",
        ),
        re.compile(_NAME + r" is back at (?P<station>S-\d+), after (?P<minutes>\d+) minutes"),
        _end_ride,
    ),
    Request(
        "the most ridden bike is retired",
        ("list_stations", "list_bikes", "send_to_workshop"),
        (
            "The most ridden bike that is ready at Old Mill goes to the workshop.",
            "The most ridden bike that is ready at Botanic Garden goes to the workshop.",
        ),
        re.compile(rf"The most ridden bike that is ready at {_PLACE} goes to the workshop"),
        _retire_bike,
        _build_bike_thought("the ready bike with the most kilometres", _MOST),
    ),
    Request(
        "a station opens or shuts",
        ("list_stations", "set_station_closed"),
        ("North Gate opens again.", "Botanic Garden shuts for today."),
        re.compile(_PLACE + " (?P<act>opens again|shuts for today)"),
        _set_station_closed,
    ),
    Request(
        "a ride begins",
        ("list_stations", "list_bikes", "start_rental"),
        (
            "Rider R-02 takes the least ridden bike that is ready at Market Square.",
            "Rider R-03 takes the least ridden bike that is ready at Tram Depot.",
        ),
        re.compile(rf"Rider (?P<rider>R-\d+) takes the least ridden bike that is ready at {_PLACE}"),
        _start_ride,
        _build_bike_thought("the ready bike with the fewest kilometres", _LEAST),
    ),
    Request(
        "a payment",
        ("find_riders", "take_payment"),
        ("Pavel Brandt pays 20 cents.", "Nuria Castell pays 12 cents."),
        re.compile(_NAME + r" pays (?P<cents>\d+) cents"),
        _pay_amount,
    ),
)
