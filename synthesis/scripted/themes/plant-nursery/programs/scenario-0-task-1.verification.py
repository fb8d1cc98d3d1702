def is_low(plant):
    return not plant["tender"] and plant["stock"] < 5


def verify(answer, expected, initial_state, final_state):
    before, after = initial_state["plants"], final_state["plants"]
    wanted = {key: {**plant, "stock": 10} if is_low(plant) else plant for key, plant in before.items()}
    others = [name for name in initial_state if name != "plants"]
    return {
        "Hardy plants that were low are ten now, all else on the shelves is as it was": after == wanted,
        "Orders and customers are as they were": all(final_state.get(name) == initial_state[name] for name in others),
        "The pieces are counted": is_expected(answer, "pieces", expected.get("pieces"), type="number"),
        "The kinds are counted": is_expected(answer, "kinds", expected.get("kinds"), type="number"),
    }
