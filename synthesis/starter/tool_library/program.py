"""A community tool library: members borrow tools, reserve them, bring them back and pay small fees."""

import copy
import datetime
from typing import Any, Dict, List, Literal, Optional

FEE_LIMIT_CENTS = 1000
LATE_CENTS_A_DAY = 100
LOAN_LIMITS = {"new": 2, "full": 4}
LOAN_DAYS = {"hand": 14, "power": 7}
INSPECTION_DAYS = 180
PARTS = ("belt", "blade", "chuck", "click", "dust_bag_holder", "foot", "handle", "motor")

KINDS = {
    "start": (str, "a day as YYYY-MM-DD"),
    "days": (int, "a whole number"),
    "cents": (int, "a whole number"),
    "passed": (bool, "true or false"),
    "available_only": (bool, "true or false"),
    "overdue_only": (bool, "true or false"),
    "open_only": (bool, "true or false"),
}
FORMS = {"start": "%Y-%m-%d"}


class ToolLibrary:
    """Built from an initial-state dict; every attribute is part of the state. Money is in cents."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.today: str = state.get("today", "2026-04-18")
        self.members: Dict[str, Any] = state.get("members", {})
        self.items: Dict[str, Any] = state.get("items", {})
        self.loans: Dict[str, Any] = state.get("loans", {})
        self.reservations: Dict[str, Any] = state.get("reservations", {})
        self.ledger: List[Dict[str, Any]] = state.get("ledger", [])
        self.next_loan: int = state.get("next_loan", 1)
        self.next_reservation: int = state.get("next_reservation", 1)

    # Helpers. None of them is a tool: only the tools of the manifest can be called.

    def _date(self, text: str) -> datetime.date:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()

    def _strange(self, part: Optional[str]) -> str:
        """Why that is no part, or an empty text."""
        return "" if part is None or part in PARTS else f"The part must be one of {', '.join(PARTS)}"

    def _later(self, text: str, days: int) -> str:
        return (self._date(text) + datetime.timedelta(days=days)).isoformat()

    def _refuse(self, reason: str) -> Dict[str, Any]:
        return {"success": False, "error": reason}

    def _owed(self, member_id: str) -> int:
        return sum(line["cents"] for line in self.ledger if line["member_id"] == member_id)

    def _open_loan(self, item_id: str) -> str:
        for key, loan in self.loans.items():
            if loan["item_id"] == item_id and loan["returned"] is None:
                return key
        return ""

    def _reserved(self, item_id: str, start: str, end: str, skip_member: str = "") -> str:
        for key, entry in self.reservations.items():
            if entry["item_id"] != item_id or entry["status"] != "active":
                continue
            if entry["member_id"] != skip_member and entry["start"] <= end and start <= entry["end"]:
                return key
        return ""

    def _may_borrow(self, member_id: str, item_id: str) -> str:
        """Why the member may not have the item at all, or an empty text."""
        member, item = self.members[member_id], self.items[item_id]
        if self._owed(member_id) > FEE_LIMIT_CENTS:
            return f"{member['name']} owes more than {FEE_LIMIT_CENTS} cents"
        if item["induction"] and item["induction"] not in member["inductions"]:
            return f"{item['name']} needs the {item['induction']} induction"
        return ""

    def _misfit(self, needed: Dict[str, Any], optional: Optional[Dict[str, Any]] = None) -> str:
        """Which argument is not of the kind its name asks for, or an empty text."""
        given = {name: value for name, value in (optional or {}).items() if value is not None}
        for name, value in {**needed, **given}.items():
            kind, words = KINDS.get(name, (str, "text"))
            if type(value) is not kind:
                return f"{name} must be {words}"
            form = FORMS.get(name)
            if form:
                try:
                    if datetime.datetime.strptime(value, form).strftime(form) != value:
                        return f"{name} must be {words}"
                except ValueError:
                    return f"{name} must be {words}"
        return ""

    # Tools that look.

    def find_members(self, text: str) -> Dict[str, Any]:
        """Find members whose name or street contains a text.

        Args:
            text (str): What to look for; upper and lower case count the same.
        """
        problem = self._misfit({"text": text})
        if problem:
            return self._refuse(problem)
        wanted = text.strip().lower()
        found = [
            {"member_id": key, "name": member["name"], "street": member["street"]}
            for key, member in self.members.items()
            if wanted in member["name"].lower() or wanted in member["street"].lower()
        ]
        return {"success": True, "members": found}

    def get_member(self, member_id: str) -> Dict[str, Any]:
        """Show a member with inductions, open loans and what is owed in cents.

        Args:
            member_id (str): The member's number, such as "M-07".
        """
        problem = self._misfit({"member_id": member_id})
        if problem:
            return self._refuse(problem)
        if member_id not in self.members:
            return self._refuse(f"No member {member_id}")
        loans = [
            key
            for key, loan in self.loans.items()
            if loan["member_id"] == member_id and loan["returned"] is None
        ]
        member = copy.deepcopy(self.members[member_id])
        return {"success": True, "member": member, "open_loans": loans, "owed_cents": self._owed(member_id)}

    def search_items(
        self, text: str = "", kind: Optional[str] = None, available_only: bool = False
    ) -> Dict[str, Any]:
        """Search the shelves by words in name or tags.

        Args:
            text (str, optional): Words of which each must occur.
            kind (str, optional): "hand" or "power".
            available_only (bool, optional): Only what stands on the shelf today.
        """
        problem = self._misfit({}, {"text": text, "kind": kind, "available_only": available_only})
        if problem:
            return self._refuse(problem)
        words = text.lower().split()
        found = []
        for key, item in self.items.items():
            spoken = " ".join([item["name"], *item["tags"]]).lower()
            if not all(word in spoken for word in words) or kind not in (None, item["kind"]):
                continue
            on_shelf = item["condition"] == "good" and not self._open_loan(key)
            if on_shelf or not available_only:
                found.append({"item_id": key, "name": item["name"], "kind": item["kind"], "on_shelf": on_shelf})
        return {"success": True, "items": found}

    def get_item(self, item_id: str) -> Dict[str, Any]:
        """Show an item with its condition, last inspection and the loan it is out on.

        Args:
            item_id (str): The item's number, such as "T-112".
        """
        problem = self._misfit({"item_id": item_id})
        if problem:
            return self._refuse(problem)
        if item_id not in self.items:
            return self._refuse(f"No item {item_id}")
        return {
            "success": True,
            "item": copy.deepcopy(self.items[item_id]),
            "open_loan": self._open_loan(item_id) or None,
        }

    def list_loans(
        self, member_id: Optional[str] = None, overdue_only: bool = False, open_only: bool = True
    ) -> Dict[str, Any]:
        """List loans by due date.

        Args:
            member_id (str, optional): Only this member's.
            overdue_only (bool, optional): Only open loans whose due date is over.
            open_only (bool, optional): Leave out what was brought back.
        """
        problem = self._misfit(
            {},
            {"member_id": member_id, "overdue_only": overdue_only, "open_only": open_only},
        )
        if problem:
            return self._refuse(problem)
        listed = []
        for key, loan in self.loans.items():
            is_open = loan["returned"] is None
            if member_id not in (None, loan["member_id"]) or (open_only and not is_open):
                continue
            if overdue_only and not (is_open and loan["due"] < self.today):
                continue
            listed.append({"loan_id": key, **copy.deepcopy(loan)})
        listed.sort(key=lambda loan: (loan["due"], loan["loan_id"]))
        return {"success": True, "loans": listed}

    def list_reservations(
        self, item_id: Optional[str] = None, member_id: Optional[str] = None
    ) -> Dict[str, Any]:
        """List active reservations by their first day.

        Args:
            item_id (str, optional): Only for this item.
            member_id (str, optional): Only this member's.
        """
        problem = self._misfit({}, {"item_id": item_id, "member_id": member_id})
        if problem:
            return self._refuse(problem)
        listed = [
            {"reservation_id": key, **copy.deepcopy(entry)}
            for key, entry in self.reservations.items()
            if entry["status"] == "active"
            and item_id in (None, entry["item_id"])
            and member_id in (None, entry["member_id"])
        ]
        listed.sort(key=lambda entry: (entry["start"], entry["reservation_id"]))
        return {"success": True, "reservations": listed}

    # Tools that change.

    def lend_item(self, member_id: str, item_id: str, days: int) -> Dict[str, Any]:
        """Lend an item from today for some days; the member's own reservation of it is used up.

        Args:
            member_id (str): Who borrows.
            item_id (str): What is lent.
            days (int): For how long: at most 14 days for hand tools, 7 for power tools.
        """
        problem = self._misfit({"member_id": member_id, "item_id": item_id, "days": days})
        if problem:
            return self._refuse(problem)
        if member_id not in self.members:
            return self._refuse(f"No member {member_id}")
        if item_id not in self.items:
            return self._refuse(f"No item {item_id}")
        obstacle = self._may_borrow(member_id, item_id)
        if obstacle:
            return self._refuse(obstacle)
        member, item = self.members[member_id], self.items[item_id]
        limit = LOAN_LIMITS[member["tier"]]
        held = [x for x in self.loans.values() if x["member_id"] == member_id and x["returned"] is None]
        if len(held) >= limit:
            return self._refuse(f"{member['name']} already has {len(held)} of {limit} loans")
        if item["condition"] != "good":
            return self._refuse(f"{item['name']} is {item['condition']}")
        if self._open_loan(item_id):
            return self._refuse(f"{item['name']} is out on loan {self._open_loan(item_id)}")
        if item["kind"] == "power" and self._later(item["inspected"], INSPECTION_DAYS) < self.today:
            return self._refuse(f"{item['name']} was last inspected on {item['inspected']}: too long ago")
        if not 1 <= days <= LOAN_DAYS[item["kind"]]:
            return self._refuse(f"A {item['kind']} tool is lent for 1 to {LOAN_DAYS[item['kind']]} days")
        due = self._later(self.today, days)
        clash = self._reserved(item_id, self.today, due, skip_member=member_id)
        if clash:
            return self._refuse(f"Reservation {clash} of another member falls into that time")
        for entry in self.reservations.values():
            if entry["status"] == "active" and (entry["item_id"], entry["member_id"]) == (item_id, member_id):
                entry["status"] = "used"
        key = f"L-{self.next_loan}"
        self.next_loan += 1
        self.loans[key] = {
            "member_id": member_id,
            "item_id": item_id,
            "lent": self.today,
            "due": due,
            "extended": False,
            "returned": None,
        }
        return {"success": True, "loan_id": key, "due": due}

    def return_item(
        self,
        item_id: str,
        damaged_part: Optional[Literal["belt", "blade", "chuck", "click", "dust_bag_holder", "foot", "handle", "motor"]] = None,
    ) -> Dict[str, Any]:
        """Take an item back. Each day of lateness costs 100 cents, at most the item's deposit.

        Args:
            item_id (str): What came back.
            damaged_part (str, optional): The part that is broken, missing or does not work ("click" is the click of a
                torque wrench); it is noted with the item, which then goes to repair.
        """
        problem = self._misfit({"item_id": item_id}, {"damaged_part": damaged_part}) or self._strange(damaged_part)
        if problem:
            return self._refuse(problem)
        if item_id not in self.items:
            return self._refuse(f"No item {item_id}")
        key = self._open_loan(item_id)
        if not key:
            return self._refuse(f"{self.items[item_id]['name']} is not out on loan")
        loan = self.loans[key]
        loan["returned"] = self.today
        late = max((self._date(self.today) - self._date(loan["due"])).days, 0)
        fee = min(late * LATE_CENTS_A_DAY, self.items[item_id]["deposit_cents"])
        if fee:
            self.ledger.append(
                {"member_id": loan["member_id"], "cents": fee, "what": f"late return {key}", "date": self.today}
            )
        if damaged_part:
            self.items[item_id]["condition"] = "in repair"
            self.items[item_id]["notes"].append({"date": self.today, "part": damaged_part, "what": "damaged"})
        return {"success": True, "loan_id": key, "days_late": late, "fee_cents": fee}

    def extend_loan(self, loan_id: str, days: int) -> Dict[str, Any]:
        """Extend an open loan once, if it is not overdue and nobody has reserved the item.

        Args:
            loan_id (str): The loan's number, such as "L-31".
            days (int): How many more days, 1 to 7.
        """
        problem = self._misfit({"loan_id": loan_id, "days": days})
        if problem:
            return self._refuse(problem)
        if loan_id not in self.loans or self.loans[loan_id]["returned"] is not None:
            return self._refuse(f"No open loan {loan_id}")
        loan = self.loans[loan_id]
        if loan["extended"]:
            return self._refuse("A loan is extended only once")
        if loan["due"] < self.today:
            return self._refuse("An overdue loan is not extended")
        if not 1 <= days <= 7:
            return self._refuse("A loan is extended by 1 to 7 days")
        due = self._later(loan["due"], days)
        clash = self._reserved(loan["item_id"], loan["due"], due, skip_member=loan["member_id"])
        if clash:
            return self._refuse(f"Reservation {clash} of another member falls into that time")
        loan["due"] = due
        loan["extended"] = True
        return {"success": True, "loan_id": loan_id, "due": due}

    def reserve_item(self, member_id: str, item_id: str, start: str, days: int) -> Dict[str, Any]:
        """Reserve an item for a member from a day after today.

        Args:
            member_id (str): For whom.
            item_id (str): What.
            start (str): The first day as YYYY-MM-DD.
            days (int): For how long: at most 14 days for hand tools, 7 for power tools.
        """
        problem = self._misfit({"member_id": member_id, "item_id": item_id, "start": start, "days": days})
        if problem:
            return self._refuse(problem)
        if member_id not in self.members:
            return self._refuse(f"No member {member_id}")
        if item_id not in self.items:
            return self._refuse(f"No item {item_id}")
        obstacle = self._may_borrow(member_id, item_id)
        if obstacle:
            return self._refuse(obstacle)
        if self._date(start) <= self._date(self.today):
            return self._refuse("A reservation starts after today")
        kind = self.items[item_id]["kind"]
        if not 1 <= days <= LOAN_DAYS[kind]:
            return self._refuse(f"A {kind} tool is reserved for 1 to {LOAN_DAYS[kind]} days")
        end = self._later(start, days)
        clash = self._reserved(item_id, start, end)
        if clash:
            return self._refuse(f"Reservation {clash} falls into that time")
        loan = self._open_loan(item_id)
        if loan and self.loans[loan]["due"] >= start:
            return self._refuse(f"The item is out until {self.loans[loan]['due']}")
        key = f"V-{self.next_reservation}"
        self.next_reservation += 1
        self.reservations[key] = {
            "member_id": member_id,
            "item_id": item_id,
            "start": start,
            "end": end,
            "status": "active",
        }
        return {"success": True, "reservation_id": key, "end": end}

    def cancel_reservation(self, reservation_id: str) -> Dict[str, Any]:
        """Cancel an active reservation.

        Args:
            reservation_id (str): The reservation's number, such as "V-9".
        """
        problem = self._misfit({"reservation_id": reservation_id})
        if problem:
            return self._refuse(problem)
        entry = self.reservations.get(reservation_id)
        if entry is None or entry["status"] != "active":
            return self._refuse(f"No active reservation {reservation_id}")
        entry["status"] = "cancelled"
        return {"success": True, "reservation_id": reservation_id}

    def finish_repair(
        self,
        item_id: str,
        new_part: Optional[Literal["belt", "blade", "chuck", "click", "dust_bag_holder", "foot", "handle", "motor"]] = None,
    ) -> Dict[str, Any]:
        """Put a repaired item back on the shelf; it counts as inspected today.

        Args:
            item_id (str): The item's number.
            new_part (str, optional): The part that was replaced; it is noted with the item.
        """
        problem = self._misfit({"item_id": item_id}, {"new_part": new_part}) or self._strange(new_part)
        if problem:
            return self._refuse(problem)
        if item_id not in self.items:
            return self._refuse(f"No item {item_id}")
        item = self.items[item_id]
        if item["condition"] != "in repair":
            return self._refuse(f"{item['name']} is not in repair")
        item["condition"] = "good"
        item["inspected"] = self.today
        if new_part:
            item["notes"].append({"date": self.today, "part": new_part, "what": "replaced"})
        return {"success": True, "item_id": item_id}

    def record_inspection(self, item_id: str, passed: bool) -> Dict[str, Any]:
        """Write down a safety inspection of an item on the shelf; one that fails goes to repair.

        Args:
            item_id (str): The item's number.
            passed (bool): Whether the item is safe.
        """
        problem = self._misfit({"item_id": item_id, "passed": passed})
        if problem:
            return self._refuse(problem)
        if item_id not in self.items:
            return self._refuse(f"No item {item_id}")
        if self._open_loan(item_id):
            return self._refuse("An item out on loan cannot be inspected")
        self.items[item_id]["inspected"] = self.today
        if not passed:
            self.items[item_id]["condition"] = "in repair"
        return {"success": True, "item_id": item_id, "condition": self.items[item_id]["condition"]}

    def take_payment(self, member_id: str, cents: int) -> Dict[str, Any]:
        """Take a payment from a member, at most what is owed.

        Args:
            member_id (str): Who pays.
            cents (int): How much, in cents.
        """
        problem = self._misfit({"member_id": member_id, "cents": cents})
        if problem:
            return self._refuse(problem)
        if member_id not in self.members:
            return self._refuse(f"No member {member_id}")
        owed = self._owed(member_id)
        if not 1 <= cents <= owed:
            return self._refuse(f"{owed} cents are owed; a payment is from 1 to that")
        self.ledger.append(
            {"member_id": member_id, "cents": -cents, "what": "payment", "date": self.today}
        )
        return {"success": True, "owed_cents": owed - cents}

    def add_induction(self, member_id: str, induction: str) -> Dict[str, Any]:
        """Write down that a member took an induction; it must be one that some item asks for.

        Args:
            member_id (str): Who was trained.
            induction (str): Which one, such as "saw".
        """
        problem = self._misfit({"member_id": member_id, "induction": induction})
        if problem:
            return self._refuse(problem)
        if member_id not in self.members:
            return self._refuse(f"No member {member_id}")
        known = sorted({item["induction"] for item in self.items.values() if item["induction"]})
        if induction not in known:
            return self._refuse(f"Inductions are {', '.join(known)}")
        if induction in self.members[member_id]["inductions"]:
            return self._refuse("The member already has this induction")
        self.members[member_id]["inductions"].append(induction)
        return {"success": True, "inductions": list(self.members[member_id]["inductions"])}
