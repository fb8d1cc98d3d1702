def verify(answer, expected, initial_state, final_state):
    before, after = initial_state["members"], final_state["members"]
    fresh = {key for key, one in before.items() if one["certificate"] == "none"}
    wanted = {key: {**one, "certificate": "toprope"} if key in fresh else one for key, one in before.items()}
    courses = {key: {**one, "enrolled": sorted(one["enrolled"])} for key, one in final_state["courses"].items()}
    seated = {}
    for key, one in initial_state["courses"].items():
        more = fresh if one["title"] == "Quiet Feet" else set()
        seated[key] = {**one, "enrolled": sorted({*one["enrolled"], *more})}
    return {
        "Who had no certificate has toprope, the others what they had": after == wanted,
        "They have seats in Quiet Feet, and nobody else has another": courses == seated,
        "The gear is as it was": final_state["gear"] == initial_state["gear"],
        "The free seats are counted": is_expected(answer, "seats", expected.get("seats"), type="number"),
    }
