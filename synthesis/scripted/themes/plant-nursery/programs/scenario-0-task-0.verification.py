def verify(answer, expected, initial_state, final_state):
    fields = [{"name": "customer", "type": "name"}, {"name": "cents", "type": "number"}]
    items = {"type": "record", "fields": fields}
    return {
        "The customers stand with their sums, the highest first": is_expected(
            answer, "sums", expected.get("sums"), type="list", items=items, ordered=True
        ),
        "The whole is right": is_expected(answer, "together", expected.get("together"), type="number"),
        "Nothing was changed": final_state == initial_state,
    }
