"""The front desk of a small clinic: patients, appointments, rooms, a waiting list and messages."""

import copy
import datetime
from typing import Any, Dict, List, Optional

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
REASONS = ("patient_request", "clinic_request", "no_longer_needed")
CHANNELS = ("sms", "email")
STEP_MINUTES = 15
BOOKING_DAYS = 60

KINDS = {"date": (str, "a day as YYYY-MM-DD"), "start": (str, "a time as HH:MM")}
FORMS = {"date": "%Y-%m-%d", "start": "%H:%M"}


class ClinicDesk:
    """Built from an initial-state dict; every attribute is part of the state."""

    def __init__(self, initial_state: Optional[Dict[str, Any]] = None) -> None:
        state = initial_state or {}
        self.today: str = state.get("today", "2026-03-02")
        self.opening: Dict[str, str] = state.get("opening", {"open": "08:00", "close": "18:00"})
        self.services: Dict[str, Any] = state.get("services", {})
        self.clinicians: Dict[str, Any] = state.get("clinicians", {})
        self.rooms: Dict[str, Any] = state.get("rooms", {})
        self.patients: Dict[str, Any] = state.get("patients", {})
        self.appointments: Dict[str, Any] = state.get("appointments", {})
        self.waiting_list: List[Dict[str, Any]] = state.get("waiting_list", [])
        self.messages: List[Dict[str, Any]] = state.get("messages", [])
        self.next_appointment: int = state.get("next_appointment", 1)

    # Helpers. None of them is a tool: only the tools of the manifest can be called.

    def _minutes(self, clock: str) -> int:
        moment = datetime.datetime.strptime(clock, "%H:%M")
        return moment.hour * 60 + moment.minute

    def _clock(self, minutes: int) -> str:
        return f"{minutes // 60:02d}:{minutes % 60:02d}"

    def _date(self, text: str) -> datetime.date:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()

    def _refuse(self, reason: str) -> Dict[str, Any]:
        return {"success": False, "error": reason}

    def _booked(self, date: str, skip: str = "") -> List[Dict[str, Any]]:
        return [
            entry
            for key, entry in self.appointments.items()
            if entry["date"] == date and entry["status"] == "booked" and key != skip
        ]

    def _overlaps(self, entry: Dict[str, Any], start: int, end: int) -> bool:
        return self._minutes(entry["start"]) < end and start < self._minutes(entry["end"])

    def _free_room(
        self, kind: str, date: str, start: int, end: int, skip: str = "", only: Optional[str] = None
    ) -> str:
        taken = {entry["room_id"] for entry in self._booked(date, skip) if self._overlaps(entry, start, end)}
        for room_id, room in self.rooms.items():
            if only not in (None, room_id) or room_id in taken:
                continue
            if room["kind"] == kind and room["status"] == "open":
                return room_id
        return ""

    def _obstacle(
        self, patient_id: str, service: str, clinician_id: str, date: str, start: str, skip: str = ""
    ) -> str:
        """Why the appointment cannot stand at that time, or an empty text."""
        day = self._date(date)
        today = self._date(self.today)
        if day < today or day > today + datetime.timedelta(days=BOOKING_DAYS):
            return f"Appointments can be made from {self.today} to {BOOKING_DAYS} days ahead"
        clinician = self.clinicians[clinician_id]
        if service not in clinician["services"]:
            return f"{clinician['name']} does not offer {service}"
        if DAYS[day.weekday()] not in clinician["days"]:
            return f"{clinician['name']} does not work on {date}"
        begin = self._minutes(start)
        end = begin + self.services[service]["minutes"]
        if begin % STEP_MINUTES:
            return f"Appointments start on a multiple of {STEP_MINUTES} minutes"
        if begin < self._minutes(self.opening["open"]) or end > self._minutes(self.opening["close"]):
            return f"The clinic is open from {self.opening['open']} to {self.opening['close']}"
        for entry in self._booked(date, skip):
            if self._overlaps(entry, begin, end):
                if entry["clinician_id"] == clinician_id:
                    return f"{clinician['name']} is busy at {start} on {date}"
                if entry["patient_id"] == patient_id:
                    return "The patient has another appointment at that time"
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

    def find_patients(self, text: str) -> Dict[str, Any]:
        """Find patients whose name, phone or date of birth contains a text.

        Args:
            text (str): What to look for; upper and lower case count the same.

        Returns:
            dict: {"success": True, "patients": [{"patient_id", "name", "born"}]}
        """
        problem = self._misfit({"text": text})
        if problem:
            return self._refuse(problem)
        wanted = text.strip().lower()
        found = []
        for patient_id, patient in self.patients.items():
            if any(wanted in str(patient[field]).lower() for field in ("name", "phone", "born")):
                found.append({"patient_id": patient_id, "name": patient["name"], "born": patient["born"]})
        return {"success": True, "patients": found}

    def get_patient(self, patient_id: str) -> Dict[str, Any]:
        """Show one patient's record with contact data and agreed channels.

        Args:
            patient_id (str): The patient's number, such as "P-004".
        """
        problem = self._misfit({"patient_id": patient_id})
        if problem:
            return self._refuse(problem)
        if patient_id not in self.patients:
            return self._refuse(f"No patient {patient_id}")
        return {"success": True, "patient": copy.deepcopy(self.patients[patient_id])}

    def list_clinicians(self, service: Optional[str] = None) -> Dict[str, Any]:
        """List clinicians with their working days, all of them or those who offer one service.

        Args:
            service (str, optional): A service such as "check_up".
        """
        problem = self._misfit({}, {"service": service})
        if problem:
            return self._refuse(problem)
        listed = []
        for clinician_id, clinician in self.clinicians.items():
            if service is None or service in clinician["services"]:
                listed.append({"clinician_id": clinician_id, **copy.deepcopy(clinician)})
        return {"success": True, "clinicians": listed}

    def list_appointments(
        self,
        date: Optional[str] = None,
        patient_id: Optional[str] = None,
        clinician_id: Optional[str] = None,
        room_id: Optional[str] = None,
        status: Optional[str] = None,
    ) -> Dict[str, Any]:
        """List appointments, oldest first, narrowed by any of the arguments.

        Args:
            date (str, optional): A day as YYYY-MM-DD.
            patient_id (str, optional): Only this patient's.
            clinician_id (str, optional): Only this clinician's.
            room_id (str, optional): Only those in this room.
            status (str, optional): "booked" or "cancelled".
        """
        problem = self._misfit(
            {},
            {"date": date, "patient_id": patient_id, "clinician_id": clinician_id, "room_id": room_id, "status": status},
        )
        if problem:
            return self._refuse(problem)
        wanted = {
            "date": date,
            "patient_id": patient_id,
            "clinician_id": clinician_id,
            "room_id": room_id,
            "status": status,
        }
        listed = []
        for key, entry in self.appointments.items():
            if all(value is None or entry[name] == value for name, value in wanted.items()):
                listed.append({"appointment_id": key, **copy.deepcopy(entry)})
        listed.sort(key=lambda entry: (entry["date"], entry["start"], entry["appointment_id"]))
        return {"success": True, "appointments": listed}

    def list_free_slots(
        self, service: str, date: str, clinician_id: Optional[str] = None
    ) -> Dict[str, Any]:
        """List the times at which a service can be booked on a day: a clinician and a room are free.

        Args:
            service (str): A service such as "check_up".
            date (str): The day as YYYY-MM-DD.
            clinician_id (str, optional): Only this clinician's times.
        """
        problem = self._misfit({"service": service, "date": date}, {"clinician_id": clinician_id})
        if problem:
            return self._refuse(problem)
        if service not in self.services:
            return self._refuse(f"No service {service}")
        kind, length = self.services[service]["room_kind"], self.services[service]["minutes"]
        slots = []
        for key in self.clinicians:
            if clinician_id is not None and key != clinician_id:
                continue
            begin = self._minutes(self.opening["open"])
            while begin + length <= self._minutes(self.opening["close"]):
                start = self._clock(begin)
                if not self._obstacle("", service, key, date, start) and self._free_room(
                    kind, date, begin, begin + length
                ):
                    slots.append({"clinician_id": key, "start": start, "end": self._clock(begin + length)})
                begin += STEP_MINUTES
        return {"success": True, "slots": slots}

    def list_rooms(self, kind: Optional[str] = None) -> Dict[str, Any]:
        """List rooms with their kind and status.

        Args:
            kind (str, optional): Only rooms of this kind, such as "ultrasound".
        """
        problem = self._misfit({}, {"kind": kind})
        if problem:
            return self._refuse(problem)
        listed = []
        for room_id, room in self.rooms.items():
            if kind is None or room["kind"] == kind:
                listed.append({"room_id": room_id, **copy.deepcopy(room)})
        return {"success": True, "rooms": listed}

    def list_waiting(self, service: Optional[str] = None) -> Dict[str, Any]:
        """List who waits for an appointment, longest waiting first.

        Args:
            service (str, optional): Only those who wait for this service.
        """
        problem = self._misfit({}, {"service": service})
        if problem:
            return self._refuse(problem)
        listed = [
            copy.deepcopy(entry) for entry in self.waiting_list if service in (None, entry["service"])
        ]
        listed.sort(key=lambda entry: (entry["since"], entry["patient_id"]))
        return {"success": True, "waiting": listed}

    # Tools that change.

    def book_appointment(
        self, patient_id: str, service: str, clinician_id: str, date: str, start: str
    ) -> Dict[str, Any]:
        """Book a patient with a clinician; the first suitable free room is taken.

        A patient who waits for the service leaves the waiting list.

        Args:
            patient_id (str): The patient's number.
            service (str): A service such as "check_up".
            clinician_id (str): Who sees the patient.
            date (str): The day as YYYY-MM-DD.
            start (str): The time as HH:MM.
        """
        problem = self._misfit(
            {"patient_id": patient_id, "service": service, "clinician_id": clinician_id, "date": date, "start": start},
        )
        if problem:
            return self._refuse(problem)
        if patient_id not in self.patients:
            return self._refuse(f"No patient {patient_id}")
        if service not in self.services:
            return self._refuse(f"No service {service}")
        if clinician_id not in self.clinicians:
            return self._refuse(f"No clinician {clinician_id}")
        obstacle = self._obstacle(patient_id, service, clinician_id, date, start)
        if obstacle:
            return self._refuse(obstacle)
        begin = self._minutes(start)
        end = begin + self.services[service]["minutes"]
        room_id = self._free_room(self.services[service]["room_kind"], date, begin, end)
        if not room_id:
            return self._refuse(f"No {self.services[service]['room_kind']} room is free at {start} on {date}")
        key = f"A-{self.next_appointment}"
        self.next_appointment += 1
        self.appointments[key] = {
            "patient_id": patient_id,
            "service": service,
            "clinician_id": clinician_id,
            "room_id": room_id,
            "date": date,
            "start": self._clock(begin),
            "end": self._clock(end),
            "status": "booked",
            "reason": "",
        }
        self.waiting_list = [
            entry
            for entry in self.waiting_list
            if entry["patient_id"] != patient_id or entry["service"] != service
        ]
        return {"success": True, "appointment_id": key, "room_id": room_id, "end": self._clock(end)}

    def move_appointment(
        self,
        appointment_id: str,
        date: str,
        start: str,
        clinician_id: Optional[str] = None,
        room_id: Optional[str] = None,
    ) -> Dict[str, Any]:
        """Move a booked appointment to another time, clinician or room.

        Args:
            appointment_id (str): The appointment's number, such as "A-107".
            date (str): The new day as YYYY-MM-DD.
            start (str): The new time as HH:MM.
            clinician_id (str, optional): Another clinician.
            room_id (str, optional): A room of the right kind; without it the first suitable free one.
        """
        problem = self._misfit(
            {"appointment_id": appointment_id, "date": date, "start": start},
            {"clinician_id": clinician_id, "room_id": room_id},
        )
        if problem:
            return self._refuse(problem)
        if appointment_id not in self.appointments:
            return self._refuse(f"No appointment {appointment_id}")
        entry = self.appointments[appointment_id]
        if entry["status"] != "booked" or entry["date"] < self.today:
            return self._refuse("Only a booked appointment that is not over can be moved")
        if clinician_id is not None and clinician_id not in self.clinicians:
            return self._refuse(f"No clinician {clinician_id}")
        service, who = entry["service"], clinician_id or entry["clinician_id"]
        obstacle = self._obstacle(entry["patient_id"], service, who, date, start, skip=appointment_id)
        if obstacle:
            return self._refuse(obstacle)
        begin = self._minutes(start)
        end = begin + self.services[service]["minutes"]
        kind = self.services[service]["room_kind"]
        room = self._free_room(kind, date, begin, end, skip=appointment_id, only=room_id)
        if not room:
            return self._refuse(f"{room_id or 'There'} is no free {kind} room at {start} on {date}")
        entry.update(clinician_id=who, room_id=room, date=date, start=self._clock(begin), end=self._clock(end))
        return {"success": True, "appointment_id": appointment_id, "room_id": room, "end": entry["end"]}

    def cancel_appointment(self, appointment_id: str, reason: str) -> Dict[str, Any]:
        """Cancel a booked appointment for a known reason.

        Args:
            appointment_id (str): The appointment's number.
            reason (str): "patient_request", "clinic_request" or "no_longer_needed".
        """
        problem = self._misfit({"appointment_id": appointment_id, "reason": reason})
        if problem:
            return self._refuse(problem)
        if appointment_id not in self.appointments:
            return self._refuse(f"No appointment {appointment_id}")
        if reason not in REASONS:
            return self._refuse(f"The reason must be one of {', '.join(REASONS)}")
        entry = self.appointments[appointment_id]
        if entry["status"] != "booked" or entry["date"] < self.today:
            return self._refuse("Only a booked appointment that is not over can be cancelled")
        entry["status"] = "cancelled"
        entry["reason"] = reason
        return {"success": True, "appointment_id": appointment_id, "freed_room": entry["room_id"]}

    def set_room_status(self, room_id: str, status: str) -> Dict[str, Any]:
        """Open or close a room. A room with appointments from today on cannot be closed.

        Args:
            room_id (str): The room's number, such as "R2".
            status (str): "open" or "closed".
        """
        problem = self._misfit({"room_id": room_id, "status": status})
        if problem:
            return self._refuse(problem)
        if room_id not in self.rooms:
            return self._refuse(f"No room {room_id}")
        if status not in ("open", "closed"):
            return self._refuse("The status must be open or closed")
        held = [
            key
            for key, entry in self.appointments.items()
            if entry["room_id"] == room_id and entry["status"] == "booked" and entry["date"] >= self.today
        ]
        if status == "closed" and held:
            return self._refuse(f"Room {room_id} still holds {', '.join(held)}")
        self.rooms[room_id]["status"] = status
        return {"success": True, "room_id": room_id, "status": status}

    def join_waiting(self, patient_id: str, service: str, preference: str = "any") -> Dict[str, Any]:
        """Put a patient on the waiting list, once a service.

        Args:
            patient_id (str): The patient's number.
            service (str): What the patient waits for.
            preference (str, optional): "morning", "afternoon" or "any".
        """
        problem = self._misfit({"patient_id": patient_id, "service": service}, {"preference": preference})
        if problem:
            return self._refuse(problem)
        if patient_id not in self.patients:
            return self._refuse(f"No patient {patient_id}")
        if service not in self.services:
            return self._refuse(f"No service {service}")
        if preference not in ("morning", "afternoon", "any"):
            return self._refuse("The preference must be morning, afternoon or any")
        if any(e["patient_id"] == patient_id and e["service"] == service for e in self.waiting_list):
            return self._refuse("The patient already waits for this service")
        self.waiting_list.append(
            {"patient_id": patient_id, "service": service, "since": self.today, "preference": preference}
        )
        return {"success": True, "waiting": len(self.waiting_list)}

    def update_contact(
        self, patient_id: str, phone: Optional[str] = None, email: Optional[str] = None
    ) -> Dict[str, Any]:
        """Change a patient's phone number or e-mail address.

        Args:
            patient_id (str): The patient's number.
            phone (str, optional): The new phone number.
            email (str, optional): The new e-mail address.
        """
        problem = self._misfit({"patient_id": patient_id}, {"phone": phone, "email": email})
        if problem:
            return self._refuse(problem)
        if patient_id not in self.patients:
            return self._refuse(f"No patient {patient_id}")
        if not phone and not email:
            return self._refuse("Name a phone number or an e-mail address")
        if email and "@" not in email:
            return self._refuse("That is no e-mail address")
        if phone:
            self.patients[patient_id]["phone"] = phone
        if email:
            self.patients[patient_id]["email"] = email
        return {"success": True, "patient_id": patient_id}

    def send_message(self, appointment_id: str, channel: str = "sms") -> Dict[str, Any]:
        """Tell a patient of an appointment as it stands now: when and with whom it is, or that it is cancelled.

        The clinic's own wording is used. It goes over a channel that the patient agreed to.

        Args:
            appointment_id (str): The appointment's number, such as "A-107".
            channel (str, optional): "sms" or "email".
        """
        problem = self._misfit({"appointment_id": appointment_id}, {"channel": channel})
        if problem:
            return self._refuse(problem)
        if appointment_id not in self.appointments:
            return self._refuse(f"No appointment {appointment_id}")
        if channel not in CHANNELS:
            return self._refuse("The channel must be sms or email")
        entry = self.appointments[appointment_id]
        if channel not in self.patients[entry["patient_id"]]["channels"]:
            return self._refuse(f"The patient did not agree to messages by {channel}")
        told = {name: entry[name] for name in ("patient_id", "service", "clinician_id", "date", "start", "status")}
        self.messages.append({"appointment_id": appointment_id, **told, "channel": channel, "sent": self.today})
        return {"success": True, "messages": len(self.messages), "told": told}
