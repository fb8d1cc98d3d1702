"""One class a task, one function a check in the order of the checklist; the docstring is the item."""


class Scenario0Task0:
    def order_sent(initial_state, final_state, answer):
        """One new order of Hedda with 3 Blue Lupin and 2 Shield Fern is sent."""
        new = [one for key, one in final_state["orders"].items() if key not in initial_state["orders"]]
        return [(one["customer_id"], one["lines"], one["status"]) for one in new] == [
            ("C-1", {"N-1": 3, "N-2": 2}, "sent")
        ]

    def rest_as_before(initial_state, final_state, answer):
        """Earlier orders are as before, and so are the plants but for what was sold."""
        orders = all(final_state["orders"][k] == o for k, o in initial_state["orders"].items())
        new = [one["lines"] for key, one in final_state["orders"].items() if key not in initial_state["orders"]]
        for key, plant in initial_state["plants"].items():
            sold = sum(lines.get(key, 0) for lines in new)
            if final_state["plants"][key] != {**plant, "stock": plant["stock"] - sold}:
                return False
        return orders


class Scenario0Task1:
    def both_cancelled(initial_state, final_state, answer):
        """Milo's open order and his packed order are cancelled."""
        return all(final_state["orders"][key]["status"] == "cancelled" for key in ("O-2", "O-4"))

    def plants_back(initial_state, final_state, answer):
        """There are 11 Blue Lupin, 4 Dwarf Fig and 3 White Lupin in stock."""
        return [final_state["plants"][key]["stock"] for key in ("N-1", "N-6", "N-5")] == [11, 4, 3]

    def rest_as_before(initial_state, final_state, answer):
        """The other orders are as before, and there is no new one."""
        gone = ("O-2", "O-4")
        same = all(final_state["orders"][k] == o for k, o in initial_state["orders"].items() if k not in gone)
        return same and len(final_state["orders"]) == len(initial_state["orders"])


class Scenario1Task0:
    def order_sent(initial_state, final_state, answer):
        """One new order of Janek with 4 Hedge Rose and 1 Blue Spruce is sent."""
        new = [one for key, one in final_state["orders"].items() if key not in initial_state["orders"]]
        return [(one["customer_id"], one["lines"], one["status"]) for one in new] == [
            ("C-2", {"N-2": 4, "N-4": 1}, "sent")
        ]

    def rest_as_before(initial_state, final_state, answer):
        """Earlier orders are as before, and so are the plants but for what was sold."""
        orders = all(final_state["orders"][k] == o for k, o in initial_state["orders"].items())
        new = [one["lines"] for key, one in final_state["orders"].items() if key not in initial_state["orders"]]
        for key, plant in initial_state["plants"].items():
            sold = sum(lines.get(key, 0) for lines in new)
            if final_state["plants"][key] != {**plant, "stock": plant["stock"] - sold}:
                return False
        return orders


class Scenario1Task1:
    def packed_order_cancelled(initial_state, final_state, answer):
        """Tilda's packed order is cancelled."""
        return final_state["orders"]["O-1"]["status"] == "cancelled"

    def plants_back(initial_state, final_state, answer):
        """There are 46 Sweet Basil in stock."""
        return final_state["plants"]["N-3"]["stock"] == 46

    def rest_as_before(initial_state, final_state, answer):
        """The other orders are as before, and there is no new one."""
        same = all(final_state["orders"][k] == o for k, o in initial_state["orders"].items() if k != "O-1")
        return same and len(final_state["orders"]) == len(initial_state["orders"])
