"""One class a task, one function a check in the order of the checklist; the docstring is the item."""


class Scenario0Task0:
    def both_destroyed(initial_state, final_state, answer):
        """The files F-01 and F-04 are destroyed."""
        return all(final_state["files"][key]["status"] == "destroyed" for key in ("F-01", "F-04"))

    def rest_as_before(initial_state, final_state, answer):
        """All other files and all boxes are as before."""
        gone = ("F-01", "F-04")
        files = all(final_state["files"][k] == f for k, f in initial_state["files"].items() if k not in gone)
        return files and final_state["boxes"] == initial_state["boxes"]


class Scenario0Task1:
    def all_in_long_shelf(initial_state, final_state, answer):
        """The three files of Schools are in Long Shelf."""
        return all(final_state["files"][key]["box_id"] == "X-4" for key in ("F-05", "F-06", "F-07"))

    def long_shelf_sealed(initial_state, final_state, answer):
        """Long Shelf is sealed."""
        return final_state["boxes"]["X-4"]["sealed"] is True

    def rest_as_before(initial_state, final_state, answer):
        """All other files and all other boxes are as before, and nothing of Schools is destroyed or lent."""
        mine = ("F-05", "F-06", "F-07")
        files = all(final_state["files"][k] == f for k, f in initial_state["files"].items() if k not in mine)
        boxes = all(final_state["boxes"][k] == b for k, b in initial_state["boxes"].items() if k != "X-4")
        return files and boxes and all(final_state["files"][k]["status"] == "filed" for k in mine)


class Scenario1Task0:
    def both_destroyed(initial_state, final_state, answer):
        """The files F-11 and F-13 are destroyed."""
        return all(final_state["files"][key]["status"] == "destroyed" for key in ("F-11", "F-13"))

    def rest_as_before(initial_state, final_state, answer):
        """All other files and all boxes are as before."""
        gone = ("F-11", "F-13")
        files = all(final_state["files"][k] == f for k, f in initial_state["files"].items() if k not in gone)
        return files and final_state["boxes"] == initial_state["boxes"]


class Scenario1Task1:
    def all_in_glass_vault(initial_state, final_state, answer):
        """The three files of Rivers are in Glass Vault."""
        return all(final_state["files"][key]["box_id"] == "X-3" for key in ("F-14", "F-15", "F-16"))

    def glass_vault_sealed(initial_state, final_state, answer):
        """Glass Vault is sealed."""
        return final_state["boxes"]["X-3"]["sealed"] is True

    def rest_as_before(initial_state, final_state, answer):
        """All other files and all other boxes are as before, and nothing of Rivers is destroyed or lent."""
        mine = ("F-14", "F-15", "F-16")
        files = all(final_state["files"][k] == f for k, f in initial_state["files"].items() if k not in mine)
        boxes = all(final_state["boxes"][k] == b for k, b in initial_state["boxes"].items() if k != "X-3")
        return files and boxes and all(final_state["files"][k]["status"] == "filed" for k in mine)
