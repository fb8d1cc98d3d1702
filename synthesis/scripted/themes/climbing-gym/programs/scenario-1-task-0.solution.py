def solve(call):
    quiet = next(course for course in call("list_courses")["courses"] if course["title"] == "Quiet Feet")
    seats = quiet["free_seats"]
    for one in call("find_members", text="")["members"]:
        if call("get_member", member_id=one["member_id"])["member"]["certificate"] == "none":
            call("grant_certificate", member_id=one["member_id"], certificate="toprope")
            seats = call("enrol", course_id=quiet["course_id"], member_id=one["member_id"])["free_seats"]
    return {"seats": seats}
