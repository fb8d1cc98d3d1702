def verify(answer, expected, initial_state, final_state):
    before = initial_state["plants"]
    wanted = {}
    for key, plant in before.items():
        rises = not plant["tender"] and plant["price_cents"] < 2000
        wanted[key] = {**plant, "price_cents": plant["price_cents"] + 50} if rises else plant
    others = [name for name in initial_state if name != "plants"]
    return {
        "The cheaper hardy plants cost 50 cents more, and no other": final_state["plants"] == wanted,
        "All else is as it was": all(final_state.get(name) == initial_state[name] for name in others),
        "The dearest of them is named": is_expected(answer, "plant", expected.get("plant"), type="name"),
        "Its price is right": is_expected(answer, "cents", expected.get("cents"), type="number"),
    }
