def solve(call):
    sold = {}
    for one in call("find_members", text="")["members"]:
        member = call("get_member", member_id=one["member_id"])["member"]
        missing = 10 - member["visits_left"]
        if member["certificate"] == "toprope" and missing > 0:
            call("sell_visits", member_id=one["member_id"], visits=missing)
            sold[one["name"]] = missing
    return {"sold": sum(sold.values()), "people": sorted(sold)}
