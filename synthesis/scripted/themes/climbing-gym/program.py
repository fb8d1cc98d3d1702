import copy
from typing import Any, Dict, Optional

LADDER = ["none", "toprope", "lead"]
MOST_VISITS = 20


class ClimbingGym:
    """The state of the front desk."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.members: Dict[str, Dict[str, Any]] = state.get("members", {})
        self.courses: Dict[str, Dict[str, Any]] = state.get("courses", {})
        self.gear: Dict[str, Dict[str, Any]] = state.get("gear", {})

    def _refuse(self, reason: str) -> Dict[str, Any]:
        return {"success": False, "error": reason}

    def _climbs(self, member_id: str, needed: str) -> bool:
        return LADDER.index(self.members[member_id]["certificate"]) >= LADDER.index(needed)

    def find_members(self, text: str) -> Dict[str, Any]:
        """Find members by a part of their name.

        Args:
            text (str): What to look for; upper and lower case count the same.
        """
        wanted = text.strip().lower()
        found = [
            {"member_id": key, "name": member["name"]}
            for key, member in self.members.items()
            if wanted in member["name"].lower()
        ]
        return {"success": True, "members": found}

    def get_member(self, member_id: str) -> Dict[str, Any]:
        """Show a member's file with certificate and visits left.

        Args:
            member_id (str): The member's number, such as "M-1".
        """
        if member_id not in self.members:
            return self._refuse(f"There is no member {member_id}")
        return {"success": True, "member": copy.deepcopy(self.members[member_id])}

    def list_courses(self, needs: Optional[str] = None) -> Dict[str, Any]:
        """List courses by day with their free seats.

        Args:
            needs (str, optional): Only courses that need this certificate: "none", "toprope" or "lead".
        """
        found = [
            {"course_id": key, **copy.deepcopy(course), "free_seats": course["seats"] - len(course["enrolled"])}
            for key, course in self.courses.items()
            if needs in (None, course["needs"])
        ]
        found.sort(key=lambda course: (course["day"], course["course_id"]))
        return {"success": True, "courses": found}

    def list_gear(self, kind: Optional[str] = None, available_only: bool = False) -> Dict[str, Any]:
        """List gear, the least used first.

        Args:
            kind (str, optional): Only this kind: "rope", "harness" or "shoes".
            available_only (bool, optional): Leave out what is lent or retired.
        """
        found = [
            {"gear_id": key, **one}
            for key, one in self.gear.items()
            if kind in (None, one["kind"]) and not (available_only and (one["lent_to"] or one["retired"]))
        ]
        found.sort(key=lambda one: (one["uses"], one["gear_id"]))
        return {"success": True, "gear": found}

    def sell_visits(self, member_id: str, visits: int) -> Dict[str, Any]:
        """Sell visits to a member.

        Args:
            member_id (str): Who buys.
            visits (int): How many; must be positive and at most 20.
        """
        if member_id not in self.members:
            return self._refuse(f"There is no member {member_id}")
        if not 1 <= visits <= MOST_VISITS:
            return self._refuse("Visits must be positive and at most 20 at once")
        self.members[member_id]["visits_left"] += visits
        return {"success": True, "visits_left": self.members[member_id]["visits_left"]}

    def check_in(self, member_id: str) -> Dict[str, Any]:
        """Let a member in; one visit is used up.

        Args:
            member_id (str): Who comes in; a visit must be left.
        """
        if member_id not in self.members:
            return self._refuse(f"There is no member {member_id}")
        member = self.members[member_id]
        if member["visits_left"] < 1:
            return self._refuse(f"{member['name']} has no visit left")
        member["visits_left"] -= 1
        return {"success": True, "visits_left": member["visits_left"]}

    def grant_certificate(self, member_id: str, certificate: str) -> Dict[str, Any]:
        """Write down a test that a member passed.

        Args:
            member_id (str): Who passed.
            certificate (str): "toprope" or "lead"; lead only for members who have toprope.
        """
        if member_id not in self.members:
            return self._refuse(f"There is no member {member_id}")
        if certificate not in LADDER[1:]:
            return self._refuse("Certificates are toprope and lead")
        if LADDER.index(self.members[member_id]["certificate"]) != LADDER.index(certificate) - 1:
            return self._refuse(f"The {certificate} certificate does not come next for this member")
        self.members[member_id]["certificate"] = certificate
        return {"success": True, "certificate": certificate}

    def enrol(self, course_id: str, member_id: str) -> Dict[str, Any]:
        """Give a member a seat in a course.

        Args:
            course_id (str): Which course, such as "C-1"; a seat must be free.
            member_id (str): Who takes part; the certificate that the course needs must be there.
        """
        if course_id not in self.courses:
            return self._refuse(f"There is no course {course_id}")
        if member_id not in self.members:
            return self._refuse(f"There is no member {member_id}")
        course = self.courses[course_id]
        if member_id in course["enrolled"]:
            return self._refuse(f"{member_id} has a seat already")
        if len(course["enrolled"]) >= course["seats"]:
            return self._refuse(f"The course {course_id} is full")
        if not self._climbs(member_id, course["needs"]):
            return self._refuse(f"The course {course_id} needs the {course['needs']} certificate")
        course["enrolled"].append(member_id)
        return {"success": True, "free_seats": course["seats"] - len(course["enrolled"])}

    def withdraw(self, course_id: str, member_id: str) -> Dict[str, Any]:
        """Take a member out of a course.

        Args:
            course_id (str): Which course.
            member_id (str): Who leaves it; the member must have a seat.
        """
        if course_id not in self.courses:
            return self._refuse(f"There is no course {course_id}")
        course = self.courses[course_id]
        if member_id not in course["enrolled"]:
            return self._refuse(f"{member_id} has no seat in {course_id}")
        course["enrolled"].remove(member_id)
        return {"success": True, "free_seats": course["seats"] - len(course["enrolled"])}

    def lend_gear(self, gear_id: str, member_id: str) -> Dict[str, Any]:
        """Lend gear to a member.

        Args:
            gear_id (str): What is lent, such as "G-1"; it must not be lent or retired.
            member_id (str): Who borrows; ropes only with the lead certificate.
        """
        if gear_id not in self.gear or self.gear[gear_id]["retired"]:
            return self._refuse(f"There is no gear {gear_id} in use")
        if member_id not in self.members:
            return self._refuse(f"There is no member {member_id}")
        one = self.gear[gear_id]
        if one["lent_to"]:
            return self._refuse(f"{gear_id} is lent to {one['lent_to']}")
        if one["kind"] == "rope" and not self._climbs(member_id, "lead"):
            return self._refuse("Ropes are lent only with the lead certificate")
        one["lent_to"] = member_id
        one["uses"] += 1
        return {"success": True, "gear_id": gear_id}

    def take_back_gear(self, gear_id: str, damaged: bool = False) -> Dict[str, Any]:
        """Take lent gear back.

        Args:
            gear_id (str): What comes back; it must be lent.
            damaged (bool, optional): Damaged gear is retired and never lent again.
        """
        if gear_id not in self.gear or not self.gear[gear_id]["lent_to"]:
            return self._refuse(f"{gear_id} is not lent")
        one = self.gear[gear_id]
        one["lent_to"] = None
        if damaged:
            one["retired"] = True
        return {"success": True, "retired": one["retired"]}
