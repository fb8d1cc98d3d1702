def solve(call):
    prices = {plant["plant_id"]: plant["price_cents"] for plant in call("find_plants", text="")["plants"]}
    sums = {}
    for customer in call("find_customers", text="")["customers"]:
        orders = call("list_orders", customer_id=customer["customer_id"], status="open")["orders"]
        cents = sum(prices[plant] * pieces for order in orders for plant, pieces in order["lines"].items())
        if cents:
            sums[customer["name"]] = cents
    ranked = sorted(sums, key=lambda name: (-sums[name], name))
    return {"sums": [{"customer": name, "cents": sums[name]} for name in ranked], "together": sum(sums.values())}
