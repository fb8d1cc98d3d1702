"""The ledger of a sports club: invoices and payments of members, reminders, section budgets and closed years."""

import copy
import datetime
from typing import Any, Literal

SUBJECTS = ("annual_fee", "locker", "boat_berth", "course")
CREDIT_REASONS = ("hardship", "error", "left_club")
REVERSAL_REASONS = ("returned_debit", "wrong_invoice")
CATEGORIES = ("equipment", "travel", "medical", "rent", "referees")
STATUSES = ("open", "settled", "carried")

TERM_DAYS = 30
REMINDER_DAYS = 14
REMINDER_FEES = (0, 500, 1000)
RETURN_FEE_CENTS = 450
REVERSAL_DAYS = 60
FREE_CREDIT_CENTS = 5000
TRANSFER_PERCENT = 20
FULL_PAYERS = 2

KINDS = {
    "year": (int, "a year as a whole number"),
    "cents": (int, "a whole number"),
    "overdue_only": (bool, "true or false"),
    "unassigned_only": (bool, "true or false"),
}


class ClubLedger:
    """Built from an initial-state dict; every attribute is part of the state. Money is in cents."""

    def __init__(self, initial_state: dict[str, Any] | None = None) -> None:
        state = initial_state or {}
        self.today: str = state.get("today", "2026-03-17")
        self.years: dict[str, Any] = state.get("years", {})
        self.tariffs: dict[str, Any] = state.get("tariffs", {})
        self.members: dict[str, Any] = state.get("members", {})
        self.invoices: dict[str, Any] = state.get("invoices", {})
        self.bank_lines: dict[str, Any] = state.get("bank_lines", {})
        self.payments: dict[str, Any] = state.get("payments", {})
        self.resolutions: dict[str, Any] = state.get("resolutions", {})
        self.budgets: dict[str, Any] = state.get("budgets", {})
        self.vendors: list[str] = state.get("vendors", [])
        self.expenses: dict[str, Any] = state.get("expenses", {})
        self.next_invoice: int = state.get("next_invoice", 1)
        self.next_payment: int = state.get("next_payment", 1)
        self.next_expense: int = state.get("next_expense", 1)

    # Helpers. None of them is a tool: only the tools of the manifest can be called.

    def _date(self, text: str) -> datetime.date:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()

    def _later(self, text: str, days: int) -> str:
        return (self._date(text) + datetime.timedelta(days=days)).isoformat()

    def _since(self, text: str) -> int:
        return (self._date(self.today) - self._date(text)).days

    def _refuse(self, reason: str) -> dict[str, Any]:
        return {"success": False, "error": reason}

    def _misfit(
        self, needed: dict[str, Any], optional: dict[str, Any] | None = None, choices: dict[str, Any] | None = None
    ) -> str:
        """Which argument is not of the kind its name asks for, or an empty text."""
        given = {name: value for name, value in (optional or {}).items() if value is not None}
        for name, value in {**needed, **given}.items():
            kind, words = KINDS.get(name, (str, "text"))
            if type(value) is not kind:
                return f"{name} must be {words}"
            allowed = (choices or {}).get(name)
            if allowed and value not in allowed:
                return f"{name} must be one of {', '.join(allowed)}"
        return ""

    def _unknown(self, **given: str) -> str:
        """Which number names nothing that the ledger knows, or an empty text."""
        for name, key in given.items():
            if key not in getattr(self, f"{name}s"):
                return f"No {name.replace('_', ' ')} {key}"
        return ""

    def _shut(self, year: int) -> str:
        """Why nothing can be booked in the year, or an empty text."""
        if str(year) not in self.years:
            return f"The ledger has no year {year}; it has {', '.join(sorted(self.years))}"
        if self.years[str(year)]["status"] != "open":
            return f"The year {year} is closed"
        return ""

    def _rest(self, invoice_id: str) -> int:
        """What is still to be paid on an invoice."""
        invoice = self.invoices[invoice_id]
        if invoice["status"] == "carried":
            return 0
        paid = sum(
            payment["cents"]
            for payment in self.payments.values()
            if payment["invoice_id"] == invoice_id and payment["status"] == "booked"
        )
        return invoice["cents"] + invoice["fees_cents"] - invoice["credited_cents"] - paid

    def _unassigned(self, bank_line_id: str) -> int:
        line = self.bank_lines[bank_line_id]
        if line["returned"]:
            return 0
        used = sum(
            payment["cents"]
            for payment in self.payments.values()
            if payment["bank_line_id"] == bank_line_id and payment["status"] == "booked"
        )
        return line["cents"] - used

    def _overdue(self, invoice_id: str) -> bool:
        return self.invoices[invoice_id]["due"] < self.today and self._rest(invoice_id) > 0

    def _invoices_of(self, member_id: str) -> list[str]:
        return [key for key, invoice in self.invoices.items() if invoice["member_id"] == member_id]

    def _update(self, invoice_id: str) -> None:
        """Set the invoice's status by its rest; who owes nothing overdue any more is no longer suspended."""
        invoice = self.invoices[invoice_id]
        if invoice["status"] != "carried":
            invoice["status"] = "open" if self._rest(invoice_id) else "settled"
        member = self.members[invoice["member_id"]]
        if member["status"] == "suspended" and not any(map(self._overdue, self._invoices_of(invoice["member_id"]))):
            member["status"] = "active"

    def _open_invoice(self, invoice_id: str) -> str:
        """Why the invoice cannot be worked on, or an empty text."""
        problem = self._unknown(invoice=invoice_id)
        if problem:
            return problem
        invoice = self.invoices[invoice_id]
        if invoice["status"] != "open":
            return f"Invoice {invoice_id} is {invoice['status']}"
        return self._shut(invoice["year"])

    def _invoice_row(self, invoice_id: str) -> dict[str, Any]:
        invoice = copy.deepcopy(self.invoices[invoice_id])
        member = self.members[invoice["member_id"]]
        return {
            "invoice_id": invoice_id,
            "name": member["name"],
            "section": member["section"],
            **invoice,
            "rest_cents": self._rest(invoice_id),
            "overdue": self._overdue(invoice_id),
        }

    def _spent(self, year: int, section: str) -> int:
        return sum(
            expense["cents"]
            for expense in self.expenses.values()
            if (expense["year"], expense["section"]) == (year, section)
        )

    def _left(self, year: int, section: str) -> int:
        budget = self.budgets[str(year)][section]
        return budget["cents"] + budget["received_cents"] - budget["given_cents"] - self._spent(year, section)

    def _no_section(self, year: int, *sections: str) -> str:
        """Which section has no budget in the year, or an empty text."""
        known = self.budgets.get(str(year), {})
        for section in sections:
            if section not in known:
                return f"No budget for {section} in {year}; sections are {', '.join(sorted(known))}"
        return ""

    def _fee(self, member_id: str, year: int) -> int:
        """The annual fee: half in the year of joining from July on, and half from the third of a household on."""
        member = self.members[member_id]
        household = sorted(
            (other["joined"], key)
            for key, other in self.members.items()
            if other["household"] and other["household"] == member["household"] and other["status"] != "left"
        )
        place = household.index((member["joined"], member_id)) if (member["joined"], member_id) in household else 0
        half = place >= FULL_PAYERS or member["joined"] >= f"{year}-07-01"
        full = self.tariffs["annual_fee"][member["kind"]]
        return full // 2 if half else full

    def _new_invoice(self, member_id: str, year: int, subject: str, cents: int, carried_from: str | None) -> str:
        key = f"I-{self.next_invoice}"
        self.next_invoice += 1
        self.invoices[key] = {
            "member_id": member_id,
            "year": year,
            "subject": subject,
            "cents": cents,
            "fees_cents": 0,
            "credited_cents": 0,
            "issued": self.today,
            "due": self._later(self.today, TERM_DAYS),
            "reminders": 0,
            "last_reminder": None,
            "status": "open",
            "credit_reason": None,
            "carried_from": carried_from,
        }
        return key

    # Tools that look.

    def find_members(self, text: str = "", section: str | None = None) -> dict[str, Any]:
        """Find members by a part of their name, or all of a section, with what each still owes in cents.

        Args:
            text (str, optional): What the name contains; upper and lower case count the same.
            section (str, optional): Only members of this section, such as "rowing".
        """
        problem = self._misfit({}, {"text": text, "section": section})
        if problem:
            return self._refuse(problem)
        wanted = (text or "").strip().lower()
        found = [
            {
                "member_id": key,
                "name": member["name"],
                "section": member["section"],
                "status": member["status"],
                "owed_cents": sum(map(self._rest, self._invoices_of(key))),
            }
            for key, member in self.members.items()
            if wanted in member["name"].lower() and section in (None, member["section"])
        ]
        return {"success": True, "members": found}

    def get_member(self, member_id: str) -> dict[str, Any]:
        """Show a member with household, invoices, booked payments and resolutions of the board.

        Args:
            member_id (str): The member's number, such as "M-104".
        """
        problem = self._misfit({"member_id": member_id}) or self._unknown(member=member_id)
        if problem:
            return self._refuse(problem)
        member = copy.deepcopy(self.members[member_id])
        own = self._invoices_of(member_id)
        together = [
            {"member_id": key, "name": other["name"]}
            for key, other in self.members.items()
            if member["household"] and other["household"] == member["household"] and key != member_id
        ]
        payments = [
            {"payment_id": key, **copy.deepcopy(payment)}
            for key, payment in self.payments.items()
            if payment["invoice_id"] in own
        ]
        resolutions = [
            {"resolution_id": key, **copy.deepcopy(resolution)}
            for key, resolution in self.resolutions.items()
            if resolution["member_id"] == member_id
        ]
        return {
            "success": True,
            "member": {"member_id": member_id, **member},
            "same_household": together,
            "invoices": [self._invoice_row(key) for key in own],
            "payments": payments,
            "resolutions": resolutions,
            "owed_cents": sum(map(self._rest, own)),
        }

    def list_invoices(
        self,
        year: int | None = None,
        section: str | None = None,
        status: Literal["open", "settled", "carried"] | None = None,
        overdue_only: bool = False,
    ) -> dict[str, Any]:
        """List invoices by the day they are due, with what is still to be paid.

        Args:
            year (int, optional): Only invoices of this year.
            section (str, optional): Only invoices of this section's members.
            status (str, optional): "open", "settled" or "carried".
            overdue_only (bool, optional): Only what should have been paid before today.
        """
        given = {"year": year, "section": section, "status": status, "overdue_only": overdue_only}
        problem = self._misfit({}, given, {"status": STATUSES})
        if problem:
            return self._refuse(problem)
        rows = [self._invoice_row(key) for key in self.invoices]
        listed = [
            row
            for row in rows
            if year in (None, row["year"])
            and section in (None, row["section"])
            and status in (None, row["status"])
            and (row["overdue"] or not overdue_only)
        ]
        listed.sort(key=lambda row: (row["due"], row["invoice_id"]))
        return {"success": True, "invoices": listed}

    def list_bank_lines(self, text: str = "", unassigned_only: bool = True) -> dict[str, Any]:
        """List money that came in, by day, with what of it is not assigned to an invoice yet.

        Args:
            text (str, optional): What the payer's name or the purpose contains.
            unassigned_only (bool, optional): Leave out what is fully assigned or went back.
        """
        problem = self._misfit({}, {"text": text, "unassigned_only": unassigned_only})
        if problem:
            return self._refuse(problem)
        wanted = (text or "").strip().lower()
        listed = [
            {"bank_line_id": key, **copy.deepcopy(line), "unassigned_cents": self._unassigned(key)}
            for key, line in self.bank_lines.items()
            if wanted in f"{line['payer']} {line['purpose']}".lower() and (self._unassigned(key) or not unassigned_only)
        ]
        listed.sort(key=lambda line: (line["date"], line["bank_line_id"]))
        return {"success": True, "bank_lines": listed}

    def list_expenses(self, year: int, section: str | None = None) -> dict[str, Any]:
        """List the expenses of a year by day.

        Args:
            year (int): The year they were booked in.
            section (str, optional): Only this section's.
        """
        problem = self._misfit({"year": year}, {"section": section})
        if problem:
            return self._refuse(problem)
        listed = [
            {"expense_id": key, **copy.deepcopy(expense)}
            for key, expense in self.expenses.items()
            if expense["year"] == year and section in (None, expense["section"])
        ]
        listed.sort(key=lambda expense: (expense["date"], expense["expense_id"]))
        return {"success": True, "expenses": listed}

    def list_budgets(self, year: int) -> dict[str, Any]:
        """List each section's budget of a year: planned, received, given away, spent and left, in cents.

        Args:
            year (int): Which year.
        """
        problem = self._misfit({"year": year})
        if problem:
            return self._refuse(problem)
        if str(year) not in self.budgets:
            return self._refuse(f"There are budgets for {', '.join(sorted(self.budgets))}")
        listed = [
            {
                "section": section,
                **copy.deepcopy(budget),
                "spent_cents": self._spent(year, section),
                "left_cents": self._left(year, section),
            }
            for section, budget in self.budgets[str(year)].items()
        ]
        return {"success": True, "year_status": self.years[str(year)]["status"], "budgets": listed}

    # Tools that change.

    def issue_invoice(
        self, member_id: str, year: int, subject: Literal["annual_fee", "locker", "boat_berth", "course"]
    ) -> dict[str, Any]:
        """Bill a member by the club's tariff; the invoice is due in 30 days.

        Args:
            member_id (str): Who is billed.
            year (int): The year that is billed.
            subject (str): "annual_fee", "locker", "boat_berth" or "course".
        """
        given = {"member_id": member_id, "year": year, "subject": subject}
        problem = self._misfit(given, choices={"subject": SUBJECTS})
        problem = problem or self._unknown(member=member_id) or self._shut(year)
        if problem:
            return self._refuse(problem)
        member = self.members[member_id]
        if member["status"] == "left":
            return self._refuse(f"{member['name']} has left the club")
        if member["joined"] > f"{year}-12-31":
            return self._refuse(f"{member['name']} joined only on {member['joined']}")
        if subject != "annual_fee" and member["status"] == "suspended":
            return self._refuse(f"{member['name']} is suspended until everything overdue is paid")
        if subject != "course" and any(
            (invoice["member_id"], invoice["year"], invoice["subject"]) == (member_id, year, subject)
            and not invoice["carried_from"]
            for invoice in self.invoices.values()
        ):
            return self._refuse(f"{member['name']} was already billed for this in {year}")
        cents = self._fee(member_id, year) if subject == "annual_fee" else self.tariffs[subject]
        key = self._new_invoice(member_id, year, subject, cents, None)
        return {"success": True, "invoice_id": key, "cents": cents, "due": self.invoices[key]["due"]}

    def assign_payment(self, bank_line_id: str, invoice_id: str, cents: int) -> dict[str, Any]:
        """Assign money that came in, or a part of it, to an open invoice.

        Args:
            bank_line_id (str): The money, such as "B-704".
            invoice_id (str): The invoice, such as "I-310".
            cents (int): How much of it, at most what is unassigned and what is still to be paid.
        """
        problem = self._misfit({"bank_line_id": bank_line_id, "invoice_id": invoice_id, "cents": cents})
        problem = problem or self._unknown(bank_line=bank_line_id) or self._open_invoice(invoice_id)
        if problem:
            return self._refuse(problem)
        free, rest = self._unassigned(bank_line_id), self._rest(invoice_id)
        line = self.bank_lines[bank_line_id]
        if line["kind"] == "debit" and cents != line["cents"]:
            return self._refuse(f"{bank_line_id} is a debit of {line['cents']} cents; it is assigned as a whole")
        if not 1 <= cents <= min(free, rest):
            return self._refuse(f"{free} cents are unassigned and {rest} still to be paid; give 1 to {min(free, rest)}")
        key = f"Z-{self.next_payment}"
        self.next_payment += 1
        self.payments[key] = {
            "bank_line_id": bank_line_id,
            "invoice_id": invoice_id,
            "cents": cents,
            "date": self.today,
            "status": "booked",
            "reason": None,
        }
        self._update(invoice_id)
        return {
            "success": True,
            "payment_id": key,
            "rest_cents": self._rest(invoice_id),
            "unassigned_cents": self._unassigned(bank_line_id),
        }

    def reverse_payment(self, payment_id: str, reason: Literal["returned_debit", "wrong_invoice"]) -> dict[str, Any]:
        """Reverse a booked payment of the last 60 days; the invoice is open again.

        Args:
            payment_id (str): The payment, such as "Z-41".
            reason (str): "returned_debit" where the bank took a debit back, which puts its charge of 450 cents on the
                invoice; "wrong_invoice" where the money belongs elsewhere, which makes it unassigned again.
        """
        problem = self._misfit({"payment_id": payment_id, "reason": reason}, choices={"reason": REVERSAL_REASONS})
        problem = problem or self._unknown(payment=payment_id)
        if problem:
            return self._refuse(problem)
        payment = self.payments[payment_id]
        invoice = self.invoices[payment["invoice_id"]]
        line = self.bank_lines[payment["bank_line_id"]]
        if payment["status"] != "booked":
            return self._refuse(f"Payment {payment_id} is already reversed")
        if self._shut(invoice["year"]):
            return self._refuse(self._shut(invoice["year"]))
        if invoice["status"] == "carried":
            return self._refuse(f"Invoice {payment['invoice_id']} was carried over")
        if self._since(payment["date"]) > REVERSAL_DAYS:
            return self._refuse(f"Payment {payment_id} is more than {REVERSAL_DAYS} days old")
        if reason == "returned_debit" and line["kind"] != "debit":
            return self._refuse(f"{payment['bank_line_id']} is a transfer; a bank takes back only debits")
        payment.update({"status": "reversed", "reason": reason})
        if reason == "returned_debit":
            line["returned"] = True
            invoice["fees_cents"] += RETURN_FEE_CENTS
        self._update(payment["invoice_id"])
        return {"success": True, "payment_id": payment_id, "rest_cents": self._rest(payment["invoice_id"])}

    def send_reminder(self, invoice_id: str) -> dict[str, Any]:
        """Send the next reminder for an overdue invoice: the second costs 500 cents, the third 1000 and a suspension.

        Args:
            invoice_id (str): The invoice.
        """
        problem = self._misfit({"invoice_id": invoice_id}) or self._open_invoice(invoice_id)
        if problem:
            return self._refuse(problem)
        invoice = self.invoices[invoice_id]
        member = self.members[invoice["member_id"]]
        if invoice["reminders"] >= len(REMINDER_FEES):
            return self._refuse(f"Invoice {invoice_id} had its last reminder on {invoice['last_reminder']}")
        if member["instalments_until"] and member["instalments_until"] >= self.today:
            return self._refuse(f"{member['name']} pays in instalments until {member['instalments_until']}")
        last = invoice["last_reminder"] or invoice["due"]
        if self._since(last) < REMINDER_DAYS:
            return self._refuse(f"The next reminder can go out on {self._later(last, REMINDER_DAYS)}")
        fee = REMINDER_FEES[invoice["reminders"]]
        invoice["reminders"] += 1
        invoice["last_reminder"] = self.today
        invoice["fees_cents"] += fee
        if invoice["reminders"] == len(REMINDER_FEES) and member["status"] == "active":
            member["status"] = "suspended"
        return {
            "success": True,
            "invoice_id": invoice_id,
            "reminder": invoice["reminders"],
            "fee_cents": fee,
            "rest_cents": self._rest(invoice_id),
        }

    def credit_invoice(
        self,
        invoice_id: str,
        cents: int,
        reason: Literal["hardship", "error", "left_club"],
        resolution_id: str | None = None,
    ) -> dict[str, Any]:
        """Take a part of an open invoice off; more than 5000 cents need an unused resolution for just that sum.

        Args:
            invoice_id (str): The invoice.
            cents (int): How much, at most what is still to be paid.
            reason (str): "hardship", "error" or "left_club".
            resolution_id (str, optional): The board's resolution, such as "R-14", where one is needed.
        """
        given = {"invoice_id": invoice_id, "cents": cents, "reason": reason}
        problem = self._misfit(given, {"resolution_id": resolution_id}, {"reason": CREDIT_REASONS})
        problem = problem or self._open_invoice(invoice_id)
        if problem:
            return self._refuse(problem)
        invoice, rest = self.invoices[invoice_id], self._rest(invoice_id)
        if not 1 <= cents <= rest:
            return self._refuse(f"{rest} cents are still to be paid; a credit is from 1 to that")
        if reason == "left_club" and self.members[invoice["member_id"]]["status"] != "left":
            return self._refuse(f"{self.members[invoice['member_id']]['name']} has not left the club")
        if cents > FREE_CREDIT_CENTS and resolution_id is None:
            return self._refuse(f"A credit of more than {FREE_CREDIT_CENTS} cents needs a resolution of the board")
        if resolution_id is not None:
            resolution = self.resolutions.get(resolution_id)
            if resolution is None or resolution["member_id"] != invoice["member_id"]:
                return self._refuse(f"No resolution {resolution_id} for this member")
            if resolution["used_for"]:
                return self._refuse(f"Resolution {resolution_id} was used for invoice {resolution['used_for']}")
            if resolution["cents"] != cents:
                return self._refuse(f"Resolution {resolution_id} grants {resolution['cents']} cents, not {cents}")
            resolution["used_for"] = invoice_id
        invoice["credited_cents"] += cents
        invoice["credit_reason"] = reason
        self._update(invoice_id)
        return {"success": True, "invoice_id": invoice_id, "rest_cents": self._rest(invoice_id)}

    def record_expense(
        self,
        year: int,
        section: str,
        vendor: str,
        category: Literal["equipment", "travel", "medical", "rent", "referees"],
        cents: int,
    ) -> dict[str, Any]:
        """Book a bill that a section has to pay, within what is left of its budget.

        Args:
            year (int): The year whose budget pays.
            section (str): The section, such as "handball".
            vendor (str): Who sent the bill, by the name in the club's list.
            category (str): "equipment", "travel", "medical", "rent" or "referees".
            cents (int): How much.
        """
        given = {"year": year, "section": section, "vendor": vendor, "category": category, "cents": cents}
        problem = self._misfit(given, choices={"category": CATEGORIES})
        problem = problem or self._shut(year) or self._no_section(year, section)
        if problem:
            return self._refuse(problem)
        if vendor not in self.vendors:
            return self._refuse(f"No vendor {vendor}; the club's vendors are {', '.join(self.vendors)}")
        left = self._left(year, section)
        if not 1 <= cents <= left:
            return self._refuse(f"{left} cents are left for {section} in {year}; an expense is from 1 to that")
        key = f"E-{self.next_expense}"
        self.next_expense += 1
        self.expenses[key] = {**given, "date": self.today}
        return {"success": True, "expense_id": key, "left_cents": left - cents}

    def transfer_budget(self, year: int, from_section: str, to_section: str, cents: int) -> dict[str, Any]:
        """Give a part of one section's budget to another: at most a fifth of the plan in a year, and what is left.

        Args:
            year (int): Which year's budgets.
            from_section (str): Who gives.
            to_section (str): Who receives.
            cents (int): How much.
        """
        given = {"year": year, "from_section": from_section, "to_section": to_section, "cents": cents}
        problem = self._misfit(given) or self._shut(year) or self._no_section(year, from_section, to_section)
        if problem:
            return self._refuse(problem)
        if from_section == to_section:
            return self._refuse("The two sections must differ")
        giver, taker = self.budgets[str(year)][from_section], self.budgets[str(year)][to_section]
        bound = min(giver["cents"] * TRANSFER_PERCENT // 100 - giver["given_cents"], self._left(year, from_section))
        if not 1 <= cents <= bound:
            return self._refuse(f"{from_section} can give at most {max(bound, 0)} cents more in {year}")
        giver["given_cents"] += cents
        taker["received_cents"] += cents
        return {
            "success": True,
            "left_cents": {name: self._left(year, name) for name in (from_section, to_section)},
        }

    def carry_over_invoice(self, invoice_id: str) -> dict[str, Any]:
        """Carry what is still to be paid on an invoice of an earlier year over to the next, due in 30 days.

        Args:
            invoice_id (str): The invoice.
        """
        problem = self._misfit({"invoice_id": invoice_id}) or self._open_invoice(invoice_id)
        if problem:
            return self._refuse(problem)
        invoice = self.invoices[invoice_id]
        if invoice["year"] >= self._date(self.today).year:
            return self._refuse(
                f"Only invoices of earlier years are carried over, {invoice_id} is of {invoice['year']}"
            )
        problem = self._shut(invoice["year"] + 1)
        if problem:
            return self._refuse(problem)
        if self.members[invoice["member_id"]]["status"] == "left":
            return self._refuse(
                f"{self.members[invoice['member_id']]['name']} has left; the invoice has to be credited"
            )
        rest = self._rest(invoice_id)
        key = self._new_invoice(invoice["member_id"], invoice["year"] + 1, invoice["subject"], rest, invoice_id)
        invoice["status"] = "carried"
        return {"success": True, "invoice_id": key, "cents": rest, "due": self.invoices[key]["due"]}

    def close_year(self, year: int) -> dict[str, Any]:
        """Close a year that is over: all its money must be assigned and none of its invoices open.

        The surplus is what was paid on the year's invoices less what its sections spent.

        Args:
            year (int): Which year.
        """
        problem = self._misfit({"year": year}) or self._shut(year)
        if problem:
            return self._refuse(problem)
        if year >= self._date(self.today).year:
            return self._refuse(f"The year {year} is not over")
        loose = [
            key for key, line in self.bank_lines.items() if line["date"][:4] == str(year) and self._unassigned(key)
        ]
        unpaid = [key for key, invoice in self.invoices.items() if invoice["year"] == year and self._rest(key)]
        if loose or unpaid:
            parts = [f"money not assigned: {', '.join(loose)}"] if loose else []
            parts += [f"invoices still open: {', '.join(unpaid)}"] if unpaid else []
            return self._refuse(f"The year {year} cannot be closed; {'; '.join(parts)}")
        income = sum(
            payment["cents"]
            for payment in self.payments.values()
            if payment["status"] == "booked" and self.invoices[payment["invoice_id"]]["year"] == year
        )
        spent = sum(expense["cents"] for expense in self.expenses.values() if expense["year"] == year)
        self.years[str(year)].update({"status": "closed", "surplus_cents": income - spent})
        return {"success": True, "income_cents": income, "spent_cents": spent, "surplus_cents": income - spent}
