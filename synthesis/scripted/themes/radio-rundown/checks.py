"""One class a task, one function a check in the order of the checklist; the docstring is the item."""


class Scenario0Task0:
    def running_order(initial_state, final_state, answer):
        """Morning Wire opens with Harbour Dredging and goes on with Council Vote and School Roofs."""
        return final_state["shows"]["H-1"]["running"] == ["I-4", "I-1", "I-3"]

    def show_locked(initial_state, final_state, answer):
        """Morning Wire is locked."""
        return final_state["shows"]["H-1"]["locked"] is True

    def rest_as_before(initial_state, final_state, answer):
        """Other shows, other items and all presenters are as before."""
        shows = all(final_state["shows"][k] == s for k, s in initial_state["shows"].items() if k != "H-1")
        items = all(final_state["items"][k] == i for k, i in initial_state["items"].items() if k != "I-4")
        return shows and items and final_state["presenters"] == initial_state["presenters"]


class Scenario0Task1:
    def piet_off_sick(initial_state, final_state, answer):
        """Piet is off sick."""
        return final_state["presenters"]["R-3"]["off_sick"] is True

    def hanne_reads(initial_state, final_state, answer):
        """Hanne reads Night Buses and Letters From Readers."""
        return all(final_state["items"][key]["presenter_id"] == "R-2" for key in ("I-7", "I-9"))

    def show_locked(initial_state, final_state, answer):
        """Evening Lantern is locked."""
        return final_state["shows"]["H-3"]["locked"] is True

    def rest_as_before(initial_state, final_state, answer):
        """Running orders, other items and other presenters are as before."""
        orders = all(final_state["shows"][k]["running"] == s["running"] for k, s in initial_state["shows"].items())
        locks = all(final_state["shows"][k]["locked"] == initial_state["shows"][k]["locked"] for k in ("H-1", "H-2"))
        items = all(final_state["items"][k] == i for k, i in initial_state["items"].items() if k not in ("I-7", "I-9"))
        people = all(final_state["presenters"][k] == p for k, p in initial_state["presenters"].items() if k != "R-3")
        return orders and locks and items and people


class Scenario1Task0:
    def running_order(initial_state, final_state, answer):
        """City Pulse opens with Ballot Printers and goes on with Tram Fares."""
        return final_state["shows"]["H-1"]["running"] == ["I-3", "I-1"]

    def show_locked(initial_state, final_state, answer):
        """City Pulse is locked."""
        return final_state["shows"]["H-1"]["locked"] is True

    def rest_as_before(initial_state, final_state, answer):
        """Other shows, other items and all presenters are as before."""
        shows = all(final_state["shows"][k] == s for k, s in initial_state["shows"].items() if k != "H-1")
        items = all(final_state["items"][k] == i for k, i in initial_state["items"].items() if k != "I-3")
        return shows and items and final_state["presenters"] == initial_state["presenters"]


class Scenario1Task1:
    def alma_off_sick(initial_state, final_state, answer):
        """Alma is off sick."""
        return final_state["presenters"]["R-3"]["off_sick"] is True

    def noah_reads(initial_state, final_state, answer):
        """Noah reads Post From Abroad."""
        return final_state["items"]["I-4"]["presenter_id"] == "R-2"

    def show_locked(initial_state, final_state, answer):
        """Late Letters is locked."""
        return final_state["shows"]["H-2"]["locked"] is True

    def rest_as_before(initial_state, final_state, answer):
        """Running orders, other items and other presenters are as before."""
        orders = all(final_state["shows"][k]["running"] == s["running"] for k, s in initial_state["shows"].items())
        locks = final_state["shows"]["H-1"]["locked"] == initial_state["shows"]["H-1"]["locked"]
        items = all(final_state["items"][k] == i for k, i in initial_state["items"].items() if k != "I-4")
        people = all(final_state["presenters"][k] == p for k, p in initial_state["presenters"].items() if k != "R-3")
        return orders and locks and items and people
