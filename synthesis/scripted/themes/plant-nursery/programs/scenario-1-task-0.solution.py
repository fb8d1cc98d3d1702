def solve(call):
    raised = {}
    for plant in call("find_plants", text="")["plants"]:
        if not plant["tender"] and plant["price_cents"] < 2000:
            made = call("set_price", plant_id=plant["plant_id"], cents=plant["price_cents"] + 50)
            raised[plant["name"]] = made["price_cents"]
    dearest = max(raised, key=lambda name: raised[name])
    return {"plant": dearest, "cents": raised[dearest]}
