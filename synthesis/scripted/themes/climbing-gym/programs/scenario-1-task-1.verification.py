def verify(answer, expected, initial_state, final_state):
    wanted = {}
    for key, one in initial_state["gear"].items():
        back = {**one, "lent_to": None, "retired": one["retired"] or one["kind"] == "harness"}
        wanted[key] = back if one["lent_to"] else one
    others = [name for name in initial_state if name != "gear"]
    return {
        "All gear is back, and harnesses that came back are retired": final_state["gear"] == wanted,
        "All else is as it was": all(final_state.get(name) == initial_state[name] for name in others),
        "The rope is named": is_expected(answer, "rope", expected.get("rope"), type="id"),
        "Its uses are right": is_expected(answer, "uses", expected.get("uses"), type="number"),
    }
