"""One class a task, one function a check in the order of the checklist; the docstring is the item."""


class Scenario0Task0:
    def jonas_leads(initial_state, final_state, answer):
        """Jonas has the lead certificate."""
        return final_state["members"]["M-1"]["certificate"] == "lead"

    def seat_in_falling_well(initial_state, final_state, answer):
        """Jonas has a seat in Falling Well, and in no other course."""
        return [key for key, course in final_state["courses"].items() if "M-1" in course["enrolled"]] == ["C-4"]

    def rope_lent(initial_state, final_state, answer):
        """The rope G-3 is lent to Jonas."""
        return final_state["gear"]["G-3"]["lent_to"] == "M-1"

    def rest_as_before(initial_state, final_state, answer):
        """Other members and all other gear are as before, and nobody lost a seat."""
        same = all(
            final_state[kind][key] == value
            for kind in ("members", "gear")
            for key, value in initial_state[kind].items()
            if key not in ("M-1", "G-3")
        )
        seats = all(
            [m for m in final_state["courses"][key]["enrolled"] if m != "M-1"] == course["enrolled"]
            for key, course in initial_state["courses"].items()
        )
        return same and seats


class Scenario0Task1:
    def lena_is_out(initial_state, final_state, answer):
        """Lena has no seat in Evening Edges."""
        return "M-2" not in final_state["courses"]["C-2"]["enrolled"]

    def amir_is_in(initial_state, final_state, answer):
        """Amir has a seat in Evening Edges."""
        return "M-3" in final_state["courses"]["C-2"]["enrolled"]

    def amir_has_four_visits(initial_state, final_state, answer):
        """Amir has 4 visits left."""
        return final_state["members"]["M-3"]["visits_left"] == 4

    def rest_as_before(initial_state, final_state, answer):
        """Other members, other courses and all gear are as before."""
        members = all(final_state["members"][k] == m for k, m in initial_state["members"].items() if k != "M-3")
        courses = all(final_state["courses"][k] == c for k, c in initial_state["courses"].items() if k != "C-2")
        return members and courses and final_state["gear"] == initial_state["gear"]


class Scenario1Task0:
    def rafael_leads(initial_state, final_state, answer):
        """Rafael has the lead certificate."""
        return final_state["members"]["M-1"]["certificate"] == "lead"

    def seat_in_overhang(initial_state, final_state, answer):
        """Rafael has a seat in Overhang, and in no other course that he was not in before."""
        return [key for key, course in final_state["courses"].items() if "M-1" in course["enrolled"]] == ["C-2", "C-4"]

    def rope_lent(initial_state, final_state, answer):
        """The rope G-1 is lent to Rafael."""
        return final_state["gear"]["G-1"]["lent_to"] == "M-1"

    def rest_as_before(initial_state, final_state, answer):
        """Other members, other gear and the other courses are as before."""
        return all(
            final_state[kind][key] == value
            for kind in ("members", "gear", "courses")
            for key, value in initial_state[kind].items()
            if key not in ("M-1", "G-1", "C-2")
        )


class Scenario1Task1:
    def ewa_is_out(initial_state, final_state, answer):
        """Ewa has no seat in Morning Moves."""
        return "M-2" not in final_state["courses"]["C-1"]["enrolled"]

    def yara_is_in(initial_state, final_state, answer):
        """Yara has a seat in Morning Moves."""
        return "M-4" in final_state["courses"]["C-1"]["enrolled"]

    def yara_has_eleven_visits(initial_state, final_state, answer):
        """Yara has 11 visits left."""
        return final_state["members"]["M-4"]["visits_left"] == 11

    def rest_as_before(initial_state, final_state, answer):
        """Other members, other courses and all gear are as before."""
        members = all(final_state["members"][k] == m for k, m in initial_state["members"].items() if k != "M-4")
        courses = all(final_state["courses"][k] == c for k, c in initial_state["courses"].items() if k != "C-1")
        return members and courses and final_state["gear"] == initial_state["gear"]
