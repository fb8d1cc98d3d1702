def verify(answer, expected, initial_state, final_state):
    plants, before, after = initial_state["plants"], initial_state["orders"], final_state["orders"]
    frost = initial_state["frost"]
    waiting = {key: order for key, order in before.items() if order["status"] in ("open", "packed")}
    off = {key for key, order in waiting.items() if frost and any(plants[one]["tender"] for one in order["lines"])}
    back = {key: plant["stock"] + sum(before[one]["lines"].get(key, 0) for one in off) for key, plant in plants.items()}
    return {
        "Orders with tender plants are called off": all(after[key]["status"] == "cancelled" for key in off),
        "The others that waited are ready": all(after[key]["status"] == "packed" for key in waiting if key not in off),
        "Orders that had left are as they were": all(
            after.get(key) == order for key, order in before.items() if key not in waiting
        ),
        "There is no other order": set(after) == set(before),
        "The plants are back": {key: plant["stock"] for key, plant in final_state["plants"].items()} == back,
    }
