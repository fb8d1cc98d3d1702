"""One class a task, one function a check in the order of the checklist; the docstring is the item."""


class Scenario0Task0:
    def old_badge_lost(initial_state, final_state, answer):
        """The badge K-101 is blocked as lost."""
        return final_state["badges"]["K-101"]["status"] == "lost"

    def new_badge(initial_state, final_state, answer):
        """Mina holds K-104 on level 2 until 2026-07-01."""
        badge = final_state["badges"]["K-104"]
        return badge == {"holder": "P-1", "level": 2, "status": "active", "last_day": "2026-07-01"}

    def rest_as_before(initial_state, final_state, answer):
        """All people and all other badges are as before."""
        mine = ("K-101", "K-104")
        badges = all(final_state["badges"][k] == b for k, b in initial_state["badges"].items() if k not in mine)
        return badges and final_state["persons"] == initial_state["persons"]


class Scenario0Task1:
    def both_revoked(initial_state, final_state, answer):
        """The badges K-103 and K-105 are revoked."""
        return all(final_state["badges"][key]["status"] == "revoked" for key in ("K-103", "K-105"))

    def rest_as_before(initial_state, final_state, answer):
        """All people and all other badges are as before."""
        gone = ("K-103", "K-105")
        badges = all(final_state["badges"][k] == b for k, b in initial_state["badges"].items() if k not in gone)
        return badges and final_state["persons"] == initial_state["persons"]


class Scenario1Task0:
    def old_badge_lost(initial_state, final_state, answer):
        """The badge K-203 is blocked as lost."""
        return final_state["badges"]["K-203"]["status"] == "lost"

    def new_badge(initial_state, final_state, answer):
        """Wanda holds K-205 on level 3 until 2027-09-14."""
        badge = final_state["badges"]["K-205"]
        return badge == {"holder": "P-4", "level": 3, "status": "active", "last_day": "2027-09-14"}

    def rest_as_before(initial_state, final_state, answer):
        """All people and all other badges are as before."""
        mine = ("K-203", "K-205")
        badges = all(final_state["badges"][k] == b for k, b in initial_state["badges"].items() if k not in mine)
        return badges and final_state["persons"] == initial_state["persons"]


class Scenario1Task1:
    def both_revoked(initial_state, final_state, answer):
        """The badges K-201 and K-202 are revoked."""
        return all(final_state["badges"][key]["status"] == "revoked" for key in ("K-201", "K-202"))

    def rest_as_before(initial_state, final_state, answer):
        """All people and all other badges are as before."""
        gone = ("K-201", "K-202")
        badges = all(final_state["badges"][k] == b for k, b in initial_state["badges"].items() if k not in gone)
        return badges and final_state["persons"] == initial_state["persons"]
