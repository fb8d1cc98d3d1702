"""The device fleet and the school: each rule is enforced by the tools, and a refusal changes nothing."""

from __future__ import annotations

import pytest

from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.starter import HERE, read_environment, read_json_file
from synthesis.starter.record import build_program

FLEET, SCHOOL = HERE / "device_fleet", HERE / "school_timetable"
EXAM = {"course_id": "GEO10", "date": "2026-11-20", "period": 3, "room_id": "R-06", "invigilator_id": "T-01"}


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return get_default_sandbox()


REFUSED = [
    # Devices: active people of the same office, one of a kind, ready to go out.
    (FLEET, 0, "hand_out_device", {"device_id": "D-202", "person_id": "E-115"}, "active people only"),
    (FLEET, 0, "hand_out_device", {"device_id": "D-214", "person_id": "E-112"}, "lies in Porto"),
    (FLEET, 0, "hand_out_device", {"device_id": "D-215", "person_id": "E-112"}, "already has a laptop"),
    (FLEET, 0, "hand_out_device", {"device_id": "D-218", "person_id": "E-101"}, "already has a phone"),
    (FLEET, 0, "hand_out_device", {"device_id": "D-205", "person_id": "E-120"}, "not in stock"),
    (FLEET, 0, "hand_out_device", {"device_id": "D-211", "person_id": "E-122"}, "not encrypted"),
    (FLEET, 0, "hand_out_device", {"device_id": "D-224", "person_id": "E-105"}, "warranty ended"),
    (FLEET, 0, "hand_out_device", {"device_id": "D-212", "person_id": "E-104"}, "lacks critical updates: U-12"),
    # Updates.
    (FLEET, 0, "install_update", {"device_id": "D-203", "update_id": "U-11"}, "is for windows"),
    (FLEET, 0, "install_update", {"device_id": "D-216", "update_id": "U-11"}, "in stock or in use"),
    (FLEET, 0, "install_update", {"device_id": "D-206", "update_id": "U-12"}, "needs U-11 first"),
    # Seats and approvals.
    (FLEET, 0, "assign_seat", {"licence_id": "L-01", "person_id": "E-110"}, "All 9 seats"),
    (FLEET, 0, "assign_seat", {"licence_id": "L-07", "person_id": "E-112"}, "expired on"),
    (FLEET, 0, "assign_seat", {"licence_id": "L-03", "person_id": "E-110"}, "would exceed it"),
    (FLEET, 0, "assign_seat", {"licence_id": "L-02", "person_id": "E-115"}, "active people only"),
    (FLEET, 0, "assign_seat", {"licence_id": "L-02", "person_id": "E-125"}, "needs an approved request"),
    (FLEET, 0, "request_approval", {"licence_id": "L-02", "person_id": "E-104"}, "already approved"),
    (FLEET, 0, "request_approval", {"licence_id": "L-01", "person_id": "E-107"}, "already pending"),
    # Accounts.
    (FLEET, 0, "change_account", {"account_id": "A-302", "status": "closed"}, "last open admin account"),
    (FLEET, 0, "change_account", {"account_id": "A-304", "role": "admin"}, "closed for good"),
    (FLEET, 1, "change_account", {"account_id": "A-305", "role": "admin"}, "already admin of 2 systems"),
    # Tickets.
    (FLEET, 0, "assign_ticket", {"ticket_id": "T-407", "technician_id": "K-07"}, "works in Porto"),
    (FLEET, 0, "assign_ticket", {"ticket_id": "T-405", "technician_id": "K-04"}, "does not take access tickets"),
    (FLEET, 1, "assign_ticket", {"ticket_id": "T-505", "technician_id": "K-08"}, "already works on 1 tickets"),
    (FLEET, 0, "close_ticket", {"ticket_id": "T-402", "outcome": "fixed"}, "cannot be closed as fixed"),
    # Lessons: one place at a time, the right room, the teacher's own days.
    (SCHOOL, 0, "move_lesson", {"lesson_id": "L-41", "day": "wed", "period": 4, "room_id": "R-03"}, "has GEO10 then"),
    (SCHOOL, 0, "move_lesson", {"lesson_id": "L-01", "day": "wed", "period": 2, "room_id": "R-02"}, "teaches MAT8"),
    (SCHOOL, 0, "move_lesson", {"lesson_id": "L-17", "day": "wed", "period": 4, "room_id": "R-02"}, "is taken by"),
    (SCHOOL, 0, "move_lesson", {"lesson_id": "L-47", "day": "fri", "period": 1, "room_id": "R-01"}, "does not work on"),
    (SCHOOL, 0, "move_lesson", {"lesson_id": "L-44", "day": "fri", "period": 4, "room_id": "R-04"}, "needs a lab"),
    (SCHOOL, 0, "move_lesson", {"lesson_id": "L-34", "day": "fri", "period": 4, "room_id": "R-03"}, "step-free"),
    (SCHOOL, 0, "move_lesson", {"lesson_id": "L-48", "day": "fri", "period": 2, "room_id": "R-04"}, "cover ahead"),
    # Courses.
    (SCHOOL, 0, "enrol_pupil", {"pupil_id": "P-30", "course_id": "BIO8"}, "is for year 8"),
    (SCHOOL, 0, "enrol_pupil", {"pupil_id": "P-19", "course_id": "HIS9-1"}, "already takes history"),
    # Cover.
    (SCHOOL, 0, "assign_cover", {"lesson_id": "L-34", "date": "2026-11-09", "teacher_id": "T-04"}, "is not absent"),
    (SCHOOL, 0, "assign_cover", {"lesson_id": "L-48", "date": "2026-11-11", "teacher_id": "T-10"}, "already covered"),
    # Exams.
    (SCHOOL, 0, "set_exam", EXAM | {"date": "2026-11-13"}, "at least 7 days ahead"),
    (SCHOOL, 0, "set_exam", EXAM | {"date": "2026-11-22"}, "not a school day"),
    (SCHOOL, 0, "set_exam", EXAM | {"course_id": "CHE10", "period": 1, "room_id": "R-01"}, "already has exam E-03"),
    (SCHOOL, 0, "set_exam", EXAM | {"room_id": "R-01", "invigilator_id": "T-03"}, "is taken by ENG9-1"),
    (
        SCHOOL,
        0,
        "set_exam",
        {"course_id": "BIO8", "date": "2026-11-19", "period": 1, "room_id": "R-07", "invigilator_id": "T-06"},
        "already has an exam on",
    ),
    (
        SCHOOL,
        0,
        "set_exam",
        {"course_id": "SPA9", "date": "2026-11-23", "period": 3, "room_id": "R-02", "invigilator_id": "T-05"},
        "already has 2 exams in the week",
    ),
]


@pytest.mark.parametrize(("folder", "scene", "tool", "arguments", "reason"), REFUSED)
def test_rules_are_enforced_and_a_refusal_changes_nothing(sandbox, folder, scene, tool, arguments, reason):
    state = read_json_file(folder, "scenarios.json")[scene]["initial_state"]
    with sandbox.reset(build_program(read_environment(folder)), encode_state(state)) as episode:
        result = episode.call(tool, arguments)
    assert result.ok
    assert result.result["success"] is False
    assert reason in result.result["error"]
    assert result.patch == []
