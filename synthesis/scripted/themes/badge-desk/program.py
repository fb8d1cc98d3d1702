import copy
import datetime
from typing import Any, Dict, Optional

HIGHEST = {"visitor": 1, "contractor": 2, "staff": 3}
LONGEST_DAYS = {"visitor": 1, "contractor": 30, "staff": 365}


class BadgeDesk:
    """The state of the desk. Days are written as YYYY-MM-DD."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.today: str = state.get("today", "2026-06-01")
        self.persons: Dict[str, Dict[str, Any]] = state.get("persons", {})
        self.badges: Dict[str, Dict[str, Any]] = state.get("badges", {})
        self.doors: Dict[str, Dict[str, Any]] = state.get("doors", {})

    def _refuse(self, reason: str) -> Dict[str, Any]:
        return {"success": False, "error": reason}

    def _active_badge(self, person_id: str) -> Optional[str]:
        for key, badge in self.badges.items():
            if badge["holder"] == person_id and badge["status"] == "active":
                return key
        return None

    def _last_day(self, days: int) -> str:
        return (datetime.date.fromisoformat(self.today) + datetime.timedelta(days=days)).isoformat()

    def _level_problem(self, person_id: str, level: int) -> str:
        """Why a person may not have a level, or an empty text."""
        person = self.persons[person_id]
        if not 1 <= level <= HIGHEST[person["role"]]:
            return f"A {person['role']} gets a level from 1 to {HIGHEST[person['role']]}"
        if level > 1 and not person["briefed"]:
            return f"{person['name']} has not taken the safety briefing"
        return ""

    def find_people(self, text: str) -> Dict[str, Any]:
        """Find people by a part of their name or firm.

        Args:
            text (str): What to look for; upper and lower case count the same.
        """
        wanted = text.strip().lower()
        found = [
            {"person_id": key, "name": person["name"], "firm": person["firm"], "badge_id": self._active_badge(key)}
            for key, person in self.persons.items()
            if wanted in person["name"].lower() or wanted in person["firm"].lower()
        ]
        return {"success": True, "people": found}

    def get_person(self, person_id: str) -> Dict[str, Any]:
        """Show a person with the active badge they hold.

        Args:
            person_id (str): The person's number, such as "P-1".
        """
        if person_id not in self.persons:
            return self._refuse(f"There is no person {person_id}")
        badge_id = self._active_badge(person_id)
        badge = {"badge_id": badge_id, **self.badges[badge_id]} if badge_id else None
        return {"success": True, "person": copy.deepcopy(self.persons[person_id]), "badge": badge}

    def list_doors(self, level: int = 3) -> Dict[str, Any]:
        """List the doors that a level opens.

        Args:
            level (int, optional): The level, from 1 to 3.
        """
        found = [{"door_id": key, **door} for key, door in self.doors.items() if door["level"] <= level]
        return {"success": True, "doors": found}

    def list_badges(self, status: Optional[str] = None) -> Dict[str, Any]:
        """List badges in the order of their numbers.

        Args:
            status (str, optional): Only badges that are "stock", "active", "lost" or "revoked".
        """
        found = [{"badge_id": key, **badge} for key, badge in self.badges.items() if status in (None, badge["status"])]
        found.sort(key=lambda badge: badge["badge_id"])
        return {"success": True, "badges": found}

    def record_briefing(self, person_id: str) -> Dict[str, Any]:
        """Write down that a person took the safety briefing.

        Args:
            person_id (str): Who took it.
        """
        if person_id not in self.persons:
            return self._refuse(f"There is no person {person_id}")
        if self.persons[person_id]["briefed"]:
            return self._refuse(f"{person_id} took the briefing before")
        self.persons[person_id]["briefed"] = True
        return {"success": True, "person_id": person_id}

    def issue_badge(self, badge_id: str, person_id: str, level: int, days: int) -> Dict[str, Any]:
        """Give a badge from stock to a person who holds none.

        Args:
            badge_id (str): A badge that lies in stock, such as "K-104".
            person_id (str): Who gets it.
            level (int): From 1 to 3, as far as role and briefing allow.
            days (int): How long it is valid; must be positive and at most 365.
        """
        if badge_id not in self.badges or self.badges[badge_id]["status"] != "stock":
            return self._refuse(f"The badge {badge_id} does not lie in stock")
        if person_id not in self.persons:
            return self._refuse(f"There is no person {person_id}")
        person = self.persons[person_id]
        if person["suspended"] or self._active_badge(person_id):
            return self._refuse(f"{person['name']} is suspended or has a badge")
        problem = self._level_problem(person_id, level)
        if problem:
            return self._refuse(problem)
        if not 1 <= days <= LONGEST_DAYS[person["role"]]:
            return self._refuse(f"A {person['role']} gets a badge for 1 to {LONGEST_DAYS[person['role']]} days")
        last_day = self._last_day(days)
        self.badges[badge_id] = {"holder": person_id, "level": level, "status": "active", "last_day": last_day}
        return {"success": True, "badge_id": badge_id, "last_day": last_day}

    def set_badge_level(self, badge_id: str, level: int) -> Dict[str, Any]:
        """Change the level of an active badge.

        Args:
            badge_id (str): Which badge.
            level (int): From 1 to 3, as far as the holder's role and briefing allow.
        """
        if badge_id not in self.badges or self.badges[badge_id]["status"] != "active":
            return self._refuse(f"The badge {badge_id} is not active")
        problem = self._level_problem(self.badges[badge_id]["holder"], level)
        if problem:
            return self._refuse(problem)
        if self.badges[badge_id]["level"] == level:
            return self._refuse(f"The badge {badge_id} has level {level} already")
        self.badges[badge_id]["level"] = level
        return {"success": True, "badge_id": badge_id, "level": level}

    def extend_badge(self, badge_id: str, days: int) -> Dict[str, Any]:
        """Set how long an active badge is valid, counted from today.

        Args:
            badge_id (str): Which badge.
            days (int): How many days; must be positive and at most 365.
        """
        if badge_id not in self.badges or self.badges[badge_id]["status"] != "active":
            return self._refuse(f"The badge {badge_id} is not active")
        badge = self.badges[badge_id]
        role = self.persons[badge["holder"]]["role"]
        if not 1 <= days <= LONGEST_DAYS[role]:
            return self._refuse(f"A {role} has a badge for 1 to {LONGEST_DAYS[role]} days")
        last_day = self._last_day(days)
        if last_day <= badge["last_day"]:
            return self._refuse(f"The badge {badge_id} is valid until {badge['last_day']} already")
        badge["last_day"] = last_day
        return {"success": True, "last_day": last_day}

    def report_lost(self, badge_id: str) -> Dict[str, Any]:
        """Block a badge that was lost, for good.

        Args:
            badge_id (str): Which badge; it must be active.
        """
        if badge_id not in self.badges or self.badges[badge_id]["status"] != "active":
            return self._refuse(f"The badge {badge_id} is not active")
        self.badges[badge_id]["status"] = "lost"
        return {"success": True, "badge_id": badge_id}

    def revoke_badge(self, badge_id: str) -> Dict[str, Any]:
        """Take an active badge away, for good.

        Args:
            badge_id (str): Which badge; it must be active.
        """
        if badge_id not in self.badges or self.badges[badge_id]["status"] != "active":
            return self._refuse(f"The badge {badge_id} is not active")
        self.badges[badge_id]["status"] = "revoked"
        return {"success": True, "badge_id": badge_id}

    def set_suspended(self, person_id: str, suspended: bool) -> Dict[str, Any]:
        """Suspend a person, or let them in again. Whoever is suspended loses the active badge.

        Args:
            person_id (str): Who.
            suspended (bool): Whether the person is suspended from now on.
        """
        if person_id not in self.persons:
            return self._refuse(f"There is no person {person_id}")
        if self.persons[person_id]["suspended"] == suspended:
            return self._refuse(f"That is so already for {person_id}")
        self.persons[person_id]["suspended"] = suspended
        badge_id = self._active_badge(person_id)
        if suspended and badge_id:
            self.badges[badge_id]["status"] = "revoked"
        return {"success": True, "suspended": suspended}

    def get_today(self) -> Dict[str, Any]:
        """Tell what day it is."""
        return {"success": True, "today": self.today}
