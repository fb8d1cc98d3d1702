"""An IT help desk: devices, updates, licence seats, accounts, approvals and tickets of a company with three offices."""

import copy
import datetime
import unicodedata
from typing import Any, Dict, List, Literal, Optional

ONE_EACH = ("laptop", "phone")
ADMIN_SYSTEMS = 2

KINDS = {
    "text": (str, ()),
    "kind": (str, ("laptop", "phone", "tablet")),
    "platform": (str, ("windows", "macos", "android", "ios")),
    "device_status": (str, ("in_stock", "in_use", "repair", "retired")),
    "ticket_status": (str, ("open", "assigned", "closed")),
    "condition": (str, ("good", "damaged")),
    "account_status": (str, ("open", "suspended", "closed")),
    "role": (str, ("user", "admin")),
    "category": (str, ("hardware", "software", "access")),
    "outcome": (str, ("fixed", "withdrawn", "duplicate")),
    "ready_only": (bool, ()),
}


class DeviceFleet:
    """Built from an initial-state dict; every attribute is part of the state. Money is in cents a month."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.today: str = state.get("today", "2026-05-11")
        self.budgets: Dict[str, int] = state.get("budgets", {})
        self.people: Dict[str, Any] = state.get("people", {})
        self.devices: Dict[str, Any] = state.get("devices", {})
        self.updates: Dict[str, Any] = state.get("updates", {})
        self.licences: Dict[str, Any] = state.get("licences", {})
        self.accounts: Dict[str, Any] = state.get("accounts", {})
        self.approvals: Dict[str, Any] = state.get("approvals", {})
        self.technicians: Dict[str, Any] = state.get("technicians", {})
        self.tickets: Dict[str, Any] = state.get("tickets", {})
        self.next_approval: int = state.get("next_approval", 1)

    # Helpers. None of them is a tool: only the tools of the manifest can be called.

    def _refuse(self, reason: str) -> Dict[str, Any]:
        return {"success": False, "error": reason}

    def _plain(self, text: str) -> str:
        """Lower case without accents, so that "ines" finds "Inês"."""
        parts = unicodedata.normalize("NFKD", text.strip().lower())
        return "".join(part for part in parts if not unicodedata.combining(part))

    def _misfit(self, needed: Dict[str, Any], optional: Optional[Dict[str, Any]] = None) -> str:
        """Which argument is not of the kind its name asks for, or an empty text."""
        given = {name: value for name, value in (optional or {}).items() if value is not None}
        for name, value in {**needed, **given}.items():
            kind, choices = KINDS.get(name, (str, ()))
            shown = "status" if name.endswith("_status") else name
            if type(value) is not kind:
                return f"{shown} must be {'true or false' if kind is bool else 'text'}"
            if choices and value not in choices:
                return f"{shown} must be one of {', '.join(choices)}"
        return ""

    def _date(self, text: str) -> datetime.date:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()

    def _over(self, day: str) -> bool:
        return self._date(day) < self._date(self.today)

    def _missing(self, device: Dict[str, Any], severity: Optional[str] = None) -> List[str]:
        return [
            key
            for key, update in self.updates.items()
            if update["platform"] == device["platform"]
            and key not in device["installed"]
            and severity in (None, update["severity"])
        ]

    def _unfit(self, device: Dict[str, Any]) -> str:
        """Why a device may not be handed out to anybody, or an empty text."""
        if device["status"] != "in_stock":
            return f"it is not in stock but {device['status'].replace('_', ' ')}"
        if not device["encrypted"]:
            return "its disk is not encrypted"
        if self._over(device["warranty_until"]):
            return f"its warranty ended on {device['warranty_until']}"
        missing = self._missing(device, "critical")
        if missing:
            return f"it lacks critical updates: {', '.join(missing)}"
        return ""

    def _held(self, person_id: str) -> List[str]:
        return [key for key, device in self.devices.items() if device["holder"] == person_id]

    def _spent(self, team: str) -> int:
        """What the seats of a team's people cost a month."""
        return sum(
            licence["monthly_cents"]
            for licence in self.licences.values()
            for holder in licence["holders"]
            if self.people[holder]["team"] == team
        )

    def _approval(self, person_id: str, licence_id: str, status: str) -> str:
        for key, entry in self.approvals.items():
            if (entry["person_id"], entry["licence_id"], entry["status"]) == (person_id, licence_id, status):
                return key
        return ""

    def _load(self, technician_id: str) -> int:
        return sum(
            ticket["technician_id"] == technician_id and ticket["status"] == "assigned"
            for ticket in self.tickets.values()
        )

    def _admins(self, system: str) -> List[str]:
        return [
            key
            for key, account in self.accounts.items()
            if (account["system"], account["role"], account["status"]) == (system, "admin", "open")
        ]

    # Tools that look.

    def find_people(self, text: str) -> Dict[str, Any]:
        """Find people whose name, team or office contains a text, among them those who have left.

        Args:
            text (str): What to look for; case and accents do not matter.

        Returns:
            dict: {"success": True, "people": [{"person_id", "name", "team", "office", "status"}]}
        """
        problem = self._misfit({"text": text})
        if problem:
            return self._refuse(problem)
        wanted = self._plain(text)
        found = []
        for key, person in self.people.items():
            if any(wanted in self._plain(person[field]) for field in ("name", "team", "office")):
                shown = {field: person[field] for field in ("name", "team", "office", "status")}
                found.append({"person_id": key, **shown})
        return {"success": True, "people": found}

    def get_person(self, person_id: str) -> Dict[str, Any]:
        """Show a person with devices, licence seats, accounts, approvals, unfinished tickets and the team's budget.

        Args:
            person_id (str): The person's number, such as "E-104".
        """
        problem = self._misfit({"person_id": person_id})
        if problem:
            return self._refuse(problem)
        if person_id not in self.people:
            return self._refuse(f"No person {person_id}")
        person = copy.deepcopy(self.people[person_id])
        devices = [
            {"device_id": key, "kind": self.devices[key]["kind"], "model": self.devices[key]["model"]}
            for key in self._held(person_id)
        ]
        seats = [
            {"licence_id": key, "product": licence["product"], "monthly_cents": licence["monthly_cents"]}
            for key, licence in self.licences.items()
            if person_id in licence["holders"]
        ]
        mine = {
            name: [
                {label: key, **copy.deepcopy(entry)}
                for key, entry in table.items()
                if entry["person_id"] == person_id and (name != "tickets" or entry["status"] != "closed")
            ]
            for name, label, table in (
                ("accounts", "account_id", self.accounts),
                ("approvals", "approval_id", self.approvals),
                ("tickets", "ticket_id", self.tickets),
            )
        }
        budget = {"limit_cents": self.budgets.get(person["team"], 0), "spent_cents": self._spent(person["team"])}
        return {"success": True, "person": person, "devices": devices, "seats": seats, **mine, "team_budget": budget}

    def search_devices(
        self,
        office: Optional[str] = None,
        status: Optional[Literal["in_stock", "in_use", "repair", "retired"]] = None,
        kind: Optional[Literal["laptop", "phone", "tablet"]] = None,
        platform: Optional[Literal["windows", "macos", "android", "ios"]] = None,
        ready_only: bool = False,
    ) -> Dict[str, Any]:
        """Search devices, narrowed by any of the arguments. "ready" tells whether one may be handed out as it is.

        Args:
            office (str, optional): Only devices of this office.
            status (str, optional): "in_stock", "in_use", "repair" or "retired".
            kind (str, optional): "laptop", "phone" or "tablet".
            platform (str, optional): "windows", "macos", "android" or "ios".
            ready_only (bool, optional): Only devices that may be handed out as they are.
        """
        problem = self._misfit(
            {"ready_only": ready_only},
            {"office": office, "device_status": status, "kind": kind, "platform": platform},
        )
        if problem:
            return self._refuse(problem)
        wanted = {"office": office, "status": status, "kind": kind, "platform": platform}
        fields = ("kind", "model", "platform", "memory_gb", "office", "status", "holder", "warranty_until")
        found = []
        for key, device in self.devices.items():
            if any(value is not None and device[name] != value for name, value in wanted.items()):
                continue
            ready = not self._unfit(device)
            if ready or not ready_only:
                found.append({"device_id": key, **{name: device[name] for name in fields}, "ready": ready})
        return {"success": True, "devices": found}

    def get_device(self, device_id: str) -> Dict[str, Any]:
        """Show a device with its serial number, installed and missing updates and what keeps it from going out.

        Args:
            device_id (str): The device's number, such as "D-211".
        """
        problem = self._misfit({"device_id": device_id})
        if problem:
            return self._refuse(problem)
        if device_id not in self.devices:
            return self._refuse(f"No device {device_id}")
        device = copy.deepcopy(self.devices[device_id])
        missing = [{"update_id": key, "severity": self.updates[key]["severity"]} for key in self._missing(device)]
        return {"success": True, "device": device, "missing_updates": missing, "not_ready_because": self._unfit(device)}

    def list_updates(self, platform: Optional[Literal["windows", "macos", "android", "ios"]] = None) -> Dict[str, Any]:
        """List updates with their severity, size and the updates that have to be installed before them.

        Args:
            platform (str, optional): "windows", "macos", "android" or "ios".
        """
        problem = self._misfit({}, {"platform": platform})
        if problem:
            return self._refuse(problem)
        listed = [
            {"update_id": key, **copy.deepcopy(update)}
            for key, update in self.updates.items()
            if platform in (None, update["platform"])
        ]
        return {"success": True, "updates": listed}

    def list_licences(self, text: str = "") -> Dict[str, Any]:
        """List licences with their price, seats and who holds one.

        Args:
            text (str, optional): Only products whose name contains this.
        """
        problem = self._misfit({"text": text})
        if problem:
            return self._refuse(problem)
        listed = []
        for key, licence in self.licences.items():
            if self._plain(text) not in self._plain(licence["product"]):
                continue
            holders = [
                {"person_id": holder, "name": self.people[holder]["name"], "status": self.people[holder]["status"]}
                for holder in licence["holders"]
            ]
            free = licence["seats"] - len(holders)
            listed.append({"licence_id": key, **licence, "holders": holders, "free_seats": free})
        return {"success": True, "licences": listed}

    def list_accounts(self, system: Optional[str] = None, person_id: Optional[str] = None) -> Dict[str, Any]:
        """List accounts with their role and status.

        Args:
            system (str, optional): Only accounts on this system, such as "wiki".
            person_id (str, optional): Only this person's accounts.
        """
        problem = self._misfit({}, {"system": system, "person_id": person_id})
        if problem:
            return self._refuse(problem)
        listed = [
            {"account_id": key, **account, "name": self.people[account["person_id"]]["name"]}
            for key, account in self.accounts.items()
            if system in (None, account["system"]) and person_id in (None, account["person_id"])
        ]
        return {"success": True, "accounts": listed}

    def list_tickets(
        self,
        status: Optional[Literal["open", "assigned", "closed"]] = None,
        category: Optional[Literal["hardware", "software", "access"]] = None,
        person_id: Optional[str] = None,
    ) -> Dict[str, Any]:
        """List tickets, oldest first. An open ticket has no technician yet.

        Args:
            status (str, optional): "open", "assigned" or "closed".
            category (str, optional): "hardware", "software" or "access".
            person_id (str, optional): Only tickets of this person.
        """
        problem = self._misfit({}, {"ticket_status": status, "category": category, "person_id": person_id})
        if problem:
            return self._refuse(problem)
        wanted = {"status": status, "category": category, "person_id": person_id}
        listed = [
            {"ticket_id": key, **copy.deepcopy(ticket)}
            for key, ticket in self.tickets.items()
            if all(value is None or ticket[name] == value for name, value in wanted.items())
        ]
        listed.sort(key=lambda ticket: (ticket["opened"], ticket["ticket_id"]))
        return {"success": True, "tickets": listed}

    def list_technicians(
        self, office: Optional[str] = None, category: Optional[Literal["hardware", "software", "access"]] = None
    ) -> Dict[str, Any]:
        """List technicians with how many tickets they work on and how many they may have at a time.

        Args:
            office (str, optional): Only those of this office.
            category (str, optional): Only those who take tickets of this category.
        """
        problem = self._misfit({}, {"office": office, "category": category})
        if problem:
            return self._refuse(problem)
        listed = [
            {"technician_id": key, **copy.deepcopy(technician), "working_on": self._load(key)}
            for key, technician in self.technicians.items()
            if office in (None, technician["office"]) and (category is None or category in technician["skills"])
        ]
        return {"success": True, "technicians": listed}

    # Tools that change.

    def hand_out_device(self, device_id: str, person_id: str) -> Dict[str, Any]:
        """Hand a device to a person of the same office. It must be ready, and nobody has two laptops or two phones.

        Args:
            device_id (str): The device's number.
            person_id (str): Who gets it.
        """
        problem = self._misfit({"device_id": device_id, "person_id": person_id})
        if problem:
            return self._refuse(problem)
        if device_id not in self.devices:
            return self._refuse(f"No device {device_id}")
        if person_id not in self.people:
            return self._refuse(f"No person {person_id}")
        device, person = self.devices[device_id], self.people[person_id]
        if person["status"] != "active":
            return self._refuse(f"{person['name']} is {person['status']}; devices go to active people only")
        obstacle = self._unfit(device)
        if obstacle:
            return self._refuse(f"{device_id} cannot go out: {obstacle}")
        if device["office"] != person["office"]:
            return self._refuse(f"{device_id} lies in {device['office']}, {person['name']} works in {person['office']}")
        for key in self._held(person_id):
            if device["kind"] in ONE_EACH and self.devices[key]["kind"] == device["kind"]:
                return self._refuse(f"{person['name']} already has a {device['kind']}: {key}")
        device["status"] = "in_use"
        device["holder"] = person_id
        return {"success": True, "device_id": device_id, "serial": device["serial"], "holder": person_id}

    def take_back_device(self, device_id: str, condition: Literal["good", "damaged"]) -> Dict[str, Any]:
        """Take a device back: a good one goes into stock, a damaged one to repair.

        Args:
            device_id (str): The device's number.
            condition (str): "good" or "damaged".
        """
        problem = self._misfit({"device_id": device_id, "condition": condition})
        if problem:
            return self._refuse(problem)
        if device_id not in self.devices:
            return self._refuse(f"No device {device_id}")
        device = self.devices[device_id]
        if device["status"] != "in_use":
            return self._refuse(f"Nobody has {device_id}: it is {device['status'].replace('_', ' ')}")
        device["status"] = "in_stock" if condition == "good" else "repair"
        device["holder"] = ""
        return {"success": True, "device_id": device_id, "status": device["status"]}

    def install_update(self, device_id: str, update_id: str) -> Dict[str, Any]:
        """Install an update on a device in stock or in use, after the updates that it builds on.

        Args:
            device_id (str): The device's number.
            update_id (str): The update's number, such as "U-12".
        """
        problem = self._misfit({"device_id": device_id, "update_id": update_id})
        if problem:
            return self._refuse(problem)
        if device_id not in self.devices:
            return self._refuse(f"No device {device_id}")
        if update_id not in self.updates:
            return self._refuse(f"No update {update_id}")
        device, update = self.devices[device_id], self.updates[update_id]
        if device["status"] not in ("in_stock", "in_use"):
            return self._refuse(f"{device_id} is {device['status']}; updates go on devices in stock or in use")
        if update["platform"] != device["platform"]:
            return self._refuse(f"{update_id} is for {update['platform']}, {device_id} runs {device['platform']}")
        if update_id in device["installed"]:
            return self._refuse(f"{device_id} already has {update_id}")
        before = [key for key in update["requires"] if key not in device["installed"]]
        if before:
            return self._refuse(f"{update_id} needs {', '.join(before)} first")
        if device["free_gb"] < update["size_gb"]:
            return self._refuse(f"{update_id} needs {update['size_gb']} GB, {device_id} has {device['free_gb']} free")
        device["free_gb"] -= update["size_gb"]
        device["installed"] = sorted([*device["installed"], update_id])
        return {"success": True, "device_id": device_id, "free_gb": device["free_gb"]}

    def assign_seat(self, licence_id: str, person_id: str) -> Dict[str, Any]:
        """Give a person a seat of a licence; where the product asks for it, an approved request is used up.

        Args:
            licence_id (str): The licence's number, such as "L-03".
            person_id (str): Who gets the seat.
        """
        problem = self._misfit({"licence_id": licence_id, "person_id": person_id})
        if problem:
            return self._refuse(problem)
        if licence_id not in self.licences:
            return self._refuse(f"No licence {licence_id}")
        if person_id not in self.people:
            return self._refuse(f"No person {person_id}")
        licence, person = self.licences[licence_id], self.people[person_id]
        if person["status"] != "active":
            return self._refuse(f"{person['name']} is {person['status']}; seats go to active people only")
        if person_id in licence["holders"]:
            return self._refuse(f"{person['name']} already has a seat of {licence['product']}")
        if self._over(licence["expires"]):
            return self._refuse(f"{licence['product']} expired on {licence['expires']}")
        if len(licence["holders"]) >= licence["seats"]:
            return self._refuse(f"All {licence['seats']} seats of {licence['product']} are taken")
        limit, spent = self.budgets.get(person["team"], 0), self._spent(person["team"])
        if spent + licence["monthly_cents"] > limit:
            return self._refuse(f"{person['team']} spends {spent} of {limit} cents a month; this seat would exceed it")
        if licence["needs_approval"]:
            approval = self._approval(person_id, licence_id, "approved")
            if not approval:
                return self._refuse(f"{licence['product']} needs an approved request for {person['name']}")
            self.approvals[approval]["status"] = "used"
        licence["holders"] = sorted([*licence["holders"], person_id])
        return {"success": True, "licence_id": licence_id, "free_seats": licence["seats"] - len(licence["holders"])}

    def release_seat(self, licence_id: str, person_id: str) -> Dict[str, Any]:
        """Take a person's seat of a licence away.

        Args:
            licence_id (str): The licence's number.
            person_id (str): Whose seat.
        """
        problem = self._misfit({"licence_id": licence_id, "person_id": person_id})
        if problem:
            return self._refuse(problem)
        if licence_id not in self.licences:
            return self._refuse(f"No licence {licence_id}")
        licence = self.licences[licence_id]
        if person_id not in licence["holders"]:
            return self._refuse(f"{person_id} holds no seat of {licence['product']}")
        licence["holders"] = [holder for holder in licence["holders"] if holder != person_id]
        return {"success": True, "licence_id": licence_id, "free_seats": licence["seats"] - len(licence["holders"])}

    def request_approval(self, licence_id: str, person_id: str) -> Dict[str, Any]:
        """Ask a person's manager whether the person may have a seat of a product that needs approval.

        Args:
            licence_id (str): The licence's number.
            person_id (str): For whom.
        """
        problem = self._misfit({"licence_id": licence_id, "person_id": person_id})
        if problem:
            return self._refuse(problem)
        if licence_id not in self.licences:
            return self._refuse(f"No licence {licence_id}")
        if person_id not in self.people:
            return self._refuse(f"No person {person_id}")
        licence, person = self.licences[licence_id], self.people[person_id]
        if person["status"] != "active":
            return self._refuse(f"{person['name']} is {person['status']}; approvals are for active people only")
        if not licence["needs_approval"]:
            return self._refuse(f"{licence['product']} needs no approval")
        if person_id in licence["holders"]:
            return self._refuse(f"{person['name']} already has a seat of {licence['product']}")
        for status in ("pending", "approved"):
            if self._approval(person_id, licence_id, status):
                return self._refuse(f"Request {self._approval(person_id, licence_id, status)} is already {status}")
        key = f"Q-{self.next_approval}"
        self.next_approval += 1
        self.approvals[key] = {
            "person_id": person_id,
            "licence_id": licence_id,
            "approver_id": person["manager_id"],
            "status": "pending",
            "asked": self.today,
        }
        return {"success": True, "approval_id": key, "approver_id": person["manager_id"]}

    def change_account(
        self,
        account_id: str,
        role: Optional[Literal["user", "admin"]] = None,
        status: Optional[Literal["open", "suspended", "closed"]] = None,
    ) -> Dict[str, Any]:
        """Change the role or the status of an account. Every system keeps an open admin; closing is for good.

        Args:
            account_id (str): The account's number, such as "A-305".
            role (str, optional): "user" or "admin".
            status (str, optional): "open", "suspended" or "closed".
        """
        problem = self._misfit({"account_id": account_id}, {"role": role, "account_status": status})
        if problem:
            return self._refuse(problem)
        if account_id not in self.accounts:
            return self._refuse(f"No account {account_id}")
        account = self.accounts[account_id]
        person = self.people[account["person_id"]]
        if account["status"] == "closed":
            return self._refuse(f"{account_id} is closed for good")
        after = {"role": role or account["role"], "status": status or account["status"]}
        if after == {"role": account["role"], "status": account["status"]}:
            return self._refuse(f"Nothing to change: {account_id} has the role {after['role']} and is {after['status']}")
        if role is not None and role != account["role"] and after["status"] != "open":
            return self._refuse("Only the role of an open account changes")
        gains = after == {"role": "admin", "status": "open"}
        if after["status"] == "open" and person["status"] != "active":
            return self._refuse(f"{person['name']} is {person['status']}; only active people get access")
        if gains:
            others = [
                key
                for key, entry in self.accounts.items()
                if key != account_id
                and entry["person_id"] == account["person_id"]
                and (entry["role"], entry["status"]) == ("admin", "open")
            ]
            if len(others) >= ADMIN_SYSTEMS:
                return self._refuse(f"{person['name']} is already admin of {len(others)} systems")
        if self._admins(account["system"]) == [account_id] and not gains:
            return self._refuse(f"{account_id} is the last open admin account of {account['system']}")
        account.update(after)
        return {"success": True, "account_id": account_id, **after}

    def assign_ticket(self, ticket_id: str, technician_id: str) -> Dict[str, Any]:
        """Give an unfinished ticket to a technician of the person's office who takes its category and has room for it.

        Args:
            ticket_id (str): The ticket's number, such as "T-404".
            technician_id (str): Who works on it.
        """
        problem = self._misfit({"ticket_id": ticket_id, "technician_id": technician_id})
        if problem:
            return self._refuse(problem)
        if ticket_id not in self.tickets:
            return self._refuse(f"No ticket {ticket_id}")
        if technician_id not in self.technicians:
            return self._refuse(f"No technician {technician_id}")
        ticket, technician = self.tickets[ticket_id], self.technicians[technician_id]
        if ticket["status"] == "closed":
            return self._refuse(f"{ticket_id} is closed")
        if ticket["technician_id"] == technician_id:
            return self._refuse(f"{technician['name']} already has {ticket_id}")
        if ticket["category"] not in technician["skills"]:
            return self._refuse(f"{technician['name']} does not take {ticket['category']} tickets")
        office = self.people[ticket["person_id"]]["office"]
        if technician["office"] != office:
            return self._refuse(f"{technician['name']} works in {technician['office']}, the ticket is from {office}")
        if self._load(technician_id) >= technician["limit"]:
            return self._refuse(f"{technician['name']} already works on {technician['limit']} tickets")
        ticket["technician_id"] = technician_id
        ticket["status"] = "assigned"
        return {"success": True, "ticket_id": ticket_id, "technician": technician["name"]}

    def close_ticket(self, ticket_id: str, outcome: Literal["fixed", "withdrawn", "duplicate"]) -> Dict[str, Any]:
        """Close a ticket. One without a technician, or whose device is in repair, cannot be closed as fixed.

        Args:
            ticket_id (str): The ticket's number.
            outcome (str): "fixed", "withdrawn" or "duplicate".
        """
        problem = self._misfit({"ticket_id": ticket_id, "outcome": outcome})
        if problem:
            return self._refuse(problem)
        if ticket_id not in self.tickets:
            return self._refuse(f"No ticket {ticket_id}")
        ticket = self.tickets[ticket_id]
        if ticket["status"] == "closed":
            return self._refuse(f"{ticket_id} is closed already")
        if outcome == "fixed" and ticket["status"] != "assigned":
            return self._refuse(f"Nobody has worked on {ticket_id}, so it cannot be closed as fixed")
        device = self.devices.get(ticket["device_id"])
        if outcome == "fixed" and device and device["status"] == "repair":
            return self._refuse(f"{ticket['device_id']} is still in repair")
        ticket["status"] = "closed"
        ticket["outcome"] = outcome
        return {"success": True, "ticket_id": ticket_id, "outcome": outcome}
