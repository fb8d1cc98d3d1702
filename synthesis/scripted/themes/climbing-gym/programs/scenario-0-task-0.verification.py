def verify(answer, expected, initial_state, final_state):
    before = initial_state["members"]
    wanted = {
        key: {**one, "visits_left": 10} if one["certificate"] == "toprope" and one["visits_left"] < 10 else one
        for key, one in before.items()
    }
    others = [name for name in initial_state if name != "members"]
    names = {"items": {"type": "name"}, "ordered": True}
    return {
        "Everybody on toprope has ten visits, the others what they had": final_state["members"] == wanted,
        "Courses and gear are as they were": all(final_state.get(name) == initial_state[name] for name in others),
        "The visits are counted": is_expected(answer, "sold", expected.get("sold"), type="number"),
        "The people are named from A to Z": is_expected(answer, "people", expected.get("people"), type="list", **names),
    }
