def verify(answer, expected, initial_state, final_state):
    return {
        "The free seats are counted": is_expected(answer, "seats", expected.get("seats"), type="number"),
        "The person is named": is_expected(answer, "person", expected.get("person"), type="name"),
        "The visits are right": is_expected(answer, "visits", expected.get("visits"), type="number"),
        "Nothing was changed": final_state == initial_state,
    }
