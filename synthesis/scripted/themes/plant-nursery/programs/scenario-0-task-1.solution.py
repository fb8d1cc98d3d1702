def solve(call):
    pieces = kinds = 0
    for plant in call("find_plants", text="")["plants"]:
        if plant["tender"] or plant["stock"] >= 5:
            continue
        missing = 10 - plant["stock"]
        call("restock_plant", plant_id=plant["plant_id"], pieces=missing)
        pieces += missing
        kinds += 1
    return {"pieces": pieces, "kinds": kinds}
