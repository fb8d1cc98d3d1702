def solve(call):
    frost = call("get_weather")["frost"]
    tender = {plant["plant_id"] for plant in call("find_plants", text="")["plants"] if plant["tender"]}
    for order in call("list_orders")["orders"]:
        if order["status"] not in ("open", "packed"):
            continue
        if frost and any(plant in tender for plant in order["lines"]):
            call("cancel_order", order_id=order["order_id"])
        elif order["status"] == "open":
            call("pack_order", order_id=order["order_id"])
    return {}
